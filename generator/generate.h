// modgen as a function: takes specs, returns generated files in memory. Only writes to the cache of precompiled
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

struct ParseOptions;

struct GenerateOptions {
  std::string root = ".";  // the user's tree, which contains modular/
  std::string shipped;     // the tree that ships modular/modular.h, the families and runtime/model/; empty: as built
  std::string torch;       // folder of an installed torch; empty: as configured
  std::string clang_resources;  // Clang's resource folder; empty: as configured
  std::string cache;            // folder for precompiled preludes; empty: $XDG_CACHE_HOME/modgen or ~/.cache/modgen
  std::vector<std::string> families;  // snake-case names, "gemma" for modular/gemma.h
  bool keep_models = false;           // set Output::model and Output::outline
  size_t jobs = 0;                    // concurrent processes; 0: number of cores
};

/// A change to inherited text that does not follow from a resolved reference: a family's name in a comment or a string.
struct Explanation {
  Location where;
  std::string before, after;
};

struct Output {
  std::string family;                     // "gemma"
  std::string path;                       // "generated/gemma.h", relative to the root
  std::string bytes;                      // the full file; empty if there are errors
  std::string plan_json;                  // the parallel plans of its entries
  std::string proof;                      // what shard types prove and trust, as text
  std::vector<Explanation> explanations;  // in the order of the file
  std::vector<std::string>
      read;  // project files that this output depends on, sorted: relative to the root, or absolute if shipped
  std::vector<std::string> absent;  // include candidates that did not exist and precede those files in the search
                                    // order, sorted in the same way
  std::shared_ptr<const FamilyModel> model;      // set if requested and without errors
  std::shared_ptr<const FamilyOutline> outline;  // set under the same conditions
};

struct GenerateResult {
  std::vector<Output> outputs;          // one for each requested family, in the order requested
  std::vector<Diagnostic> diagnostics;  // diagnostics of all families, in source order
  std::vector<std::string> notices;     // full sentences for the user about the run itself
  bool ok() const;                      // no error among the diagnostics
};

/// Generates `options.families`. Throws std::runtime_error for problems of the environment (no torch, an unreadable
/// folder); an error in a spec is a diagnostic. The bytes depend only on the specs, the shipped headers and the tool.
/// With more than one family it forks, so the caller must have one thread.
GenerateResult generate(const GenerateOptions& options);

/// The folders in `options`, or their defaults, as absolute paths. Throws like generate().
ParseOptions resolved(const GenerateOptions& options);

/// Version of the generator, of LLVM and of the style, for records: any change to it may change the bytes.
std::string generator_version();

/// The text between flatten and weave: a spec without inheritance, in the language of specs. Tests modify such texts
/// and have them read, checked and woven like any other, many in one parse.
struct FlattenedSpec {
  std::string family, prefix, model_type;
  std::string text;
};

/// Flattens `options.families`. Throws std::runtime_error with the first error of a spec.
std::vector<FlattenedSpec> flatten_specs(const GenerateOptions& options);

/// Reads flattened texts, of families with different names, into models that are not woven yet. Throws
/// std::runtime_error with the first error that Clang finds.
std::vector<FamilyModel> read_flattened(const GenerateOptions& options, const std::vector<FlattenedSpec>& specs);

/// `spec` under another family name: changes its namespace and its name in the runtime's registry.
FlattenedSpec renamed(FlattenedSpec spec, const std::string& family);

}  // namespace modgen
