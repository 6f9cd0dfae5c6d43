// modgen as a function: specs in, generated files in memory out. Nothing is written but the cache of precompiled
// preludes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generator/flatten/outline.h"
#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"
#include "generator/source/families.h"

namespace modgen {

struct GenerateOptions {
  std::string root = ".";  // the user's tree: its modular/ is read
  std::string shipped;     // the tree that ships modular/modular.h, the families and runtime/model/; empty: as built
  std::string torch;       // folder of an installed torch; empty: as configured
  std::string clang_resources;  // Clang's resource folder; empty: as configured
  std::string cache;            // folder for precompiled preludes; empty: $XDG_CACHE_HOME/modgen or ~/.cache/modgen
  std::vector<std::string> families;  // snake-case names, "gemma" for modular/gemma.h
  bool keep_models = false;           // fill in Output::model and Output::outline
  size_t jobs = 0;                    // processes at a time; 0: as many as processors
};

/// A change to inherited text that no resolved reference demanded: a family's name in a comment or a string.
struct Explanation {
  Location where;
  std::string before, after;
};

struct Output {
  std::string family;                     // "gemma"
  std::string path;                       // "generated/gemma.h", relative to the root
  std::string bytes;                      // the whole file; empty where there are errors
  std::string plan_json;                  // the parallel plans of its entries
  std::string proof;                      // what shard types prove of them and what they trust, for people
  std::vector<Explanation> explanations;  // in the order of the file
  std::vector<std::string>
      read;  // project files that this output depends on, sorted: relative to the root, or absolute where shipped
  std::vector<std::string>
      absent;  // include candidates that were looked for before those were found, sorted in the same way
  std::shared_ptr<const FamilyModel> model;      // where asked for, and there is no error
  std::shared_ptr<const FamilyOutline> outline;  // under the same conditions
};

struct GenerateResult {
  std::vector<Output> outputs;          // one for each asked family, in the order asked
  std::vector<Diagnostic> diagnostics;  // all of all families, in source order
  std::vector<std::string> notices;     // what a person should know of the run itself: sentences
  bool ok() const;                      // no error among the diagnostics
};

/// Generates `options.families`. Throws std::runtime_error, where the environment is at fault (no
/// torch, an unreadable folder); a mistake in a spec is a diagnostic. The bytes depend on the specs, the shipped
/// headers, and the tool alone. Where there is more than one family it forks, so the caller must have one thread.
GenerateResult generate(const GenerateOptions& options);

/// Version of the generator, of LLVM and of the style, for records: any change of it may change the bytes.
std::string generator_version();

}  // namespace modgen
