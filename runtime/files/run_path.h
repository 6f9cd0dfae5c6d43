// The part of a path that lies within the folder of a run, where links are not followed.
#pragma once

#include <filesystem>

namespace modular {

/// A path in two parts: the folder that a user names, and what modrun's layout has within it.
struct RunPath {
  std::filesystem::path root;  // its own links are followed
  std::filesystem::path name;  // relative to it; none of its components may be a link
};

/// "runs/a/checkpoints/step-00000010/config.json" is "checkpoints/step-00000010/config.json" in "runs/a", as the
/// folders that modrun makes in a run are known by their names. Of other paths the last component alone is within the
/// root. checkpoints/best, a link that modrun makes, is replaced by what it leads to where that is a name next to it.
RunPath run_path(const std::filesystem::path& path);

/// Throws std::runtime_error that names the first of the components of `within.name` that is a symbolic link.
void check_no_links(const RunPath& within);

}  // namespace modular
