// Files that changed since a git revision.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace modgen {

/// Returns the files below `root` that differ from `revision` in the working tree, including new and deleted files, as
/// names relative to `root`. Throws std::runtime_error with git's message if git fails.
std::set<std::string> changed_since(const std::filesystem::path& root, const std::string& revision);

}  // namespace modgen
