// Which families there are: the specs of a tree.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modgen {

/// "modular/llama.h"
std::string spec_name(const std::string& family);

/// Families that `root` has a spec for, sorted: every header of modular/ but the prelude. Folders and hidden files (an
/// editor's locks) are not specs. Throws std::runtime_error where there is no modular/, or a spec cannot be read: a
/// symbolic link to nothing, a pipe.
std::vector<std::string> families_in(const std::filesystem::path& root);

/// The family's spec: below `root`, or else below `shipped`; nothing where neither has it. Throws std::runtime_error
/// where there is one that cannot be read.
std::optional<std::filesystem::path> find_spec(const std::filesystem::path& root, const std::filesystem::path& shipped,
                                               const std::string& family);

}  // namespace modgen
