// `modgen --compile-commands`: a compilation database with which Clang tools read specs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace modgen {

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

}  // namespace modgen
