// Families of a tree, by their specs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modgen {

/// "modular/llama.h"
std::string spec_name(const std::string& family);

/// The families with a spec below `root`, sorted: every header of modular/ except the prelude. Folders and hidden files
/// (such as an editor's locks) are not specs. Throws std::runtime_error if modular/ does not exist or a spec cannot be
/// read: a dangling symbolic link, a pipe.
std::vector<std::string> families_in(const std::filesystem::path& root);

/// The path of the family's spec, below `root` or otherwise below `shipped`; nullopt if neither has it. Throws
/// std::runtime_error if it exists but cannot be read.
std::optional<std::filesystem::path> find_spec(const std::filesystem::path& root, const std::filesystem::path& shipped,
                                               const std::string& family);

}  // namespace modgen
