// `modgen --compile-commands`: how Clang's tools read specs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace modgen {

struct SpecFlags {
  std::filesystem::path root, shipped, torch;  // absolute
  std::filesystem::path holders;               // the file that find_holders makes the text of
};

/// Declarations of the holders that the root's `families` leave out, for Clang to read before a spec.
std::string find_holders(const std::filesystem::path& root, const std::vector<std::string>& families);

/// The text of a compilation database that has `before`'s entries (empty: none) and one for each spec of the root, in
/// the place of any that `before` has for it. Throws std::runtime_error where `before` is not a compilation database.
std::string with_specs(const std::string& before, const SpecFlags& flags, const std::vector<std::string>& families);

}  // namespace modgen
