// What changed since a revision, as git sees it.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace modgen {

/// Files below `root` that differ from revision `revision` in the working tree, new and deleted ones among them, by
/// their names relative to `root`. Throws std::runtime_error, with git's message, if git cannot say.
std::set<std::string> changed_since(const std::filesystem::path& root, const std::string& revision);

}  // namespace modgen
