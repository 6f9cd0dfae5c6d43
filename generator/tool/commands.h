// The functions behind modgen's options, one .cc file each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checks/records.h"
#include "generator/generate.h"
#include "generator/source/diagnostic.h"

namespace modgen {

enum class Emit { nothing, deps, plan, layout };
enum class EmitFormat { json, dot, text };

/// Describes the families of `result`, which has no errors and keeps its models. Throws std::runtime_error if that
/// format is not supported.
std::string describe(const GenerateResult& result, Emit what, EmitFormat format);

std::string to_json(const std::vector<Diagnostic>& diagnostics);

struct NewFamily {
  std::string name;    // "my_llama"
  std::string prefix;  // "MyLlama"; empty: derived from the name
};

/// The text of a spec that derives all entries of the first base without any change. `bases` are generated with their
/// models. Throws std::runtime_error for an invalid name.
std::string starting_spec(const NewFamily& family, const std::vector<Output>& bases);

struct SpecFlags {
  std::filesystem::path root, shipped, torch;  // absolute
  std::filesystem::path holders;               // the file with the text that find_holders returns
};

/// Declarations of the holders that the specs of the root's `families` omit, for Clang to read before a spec.
std::string find_holders(const std::filesystem::path& root, const std::vector<std::string>& families);

/// The text of a compilation database with the entries of `before` (empty: none) and one entry per spec of the root,
/// which replaces entries of `before` for the same spec. Throws std::runtime_error if `before` is not a compilation
/// database.
std::string with_specs(const std::string& before, const SpecFlags& flags, const std::vector<std::string>& families);

struct WatchOptions {
  Tree tree;
  std::filesystem::path output_folder;
  std::vector<std::string> families;   // if empty, all families of the root's modular/, including new ones
  std::filesystem::path generate;      // this program, which runs in a separate process to generate
  std::vector<std::string> arguments;  // arguments to pass to it, without families
};

/// Returns 0 on SIGINT or SIGTERM. Throws std::runtime_error if files cannot be watched.
int watch(const WatchOptions& options);

}  // namespace modgen
