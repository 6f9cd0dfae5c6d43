// Splits a path at the folder of a run, within which links are not followed.
#pragma once

#include <filesystem>

namespace modular {

/// A path in two parts: the folder that the user names, and the path within it that follows modrun's layout.
struct RunPath {
  std::filesystem::path root;  // its own links are followed
  std::filesystem::path name;  // relative to it; none of its components may be a link
};

/// Splits a path, e.g. "runs/a/checkpoints/step-00000010/config.json" into "runs/a" and
/// "checkpoints/step-00000010/config.json": folders that modrun creates in a run are recognized by name. For other
/// paths only the last component is within the root. checkpoints/best, a link that modrun creates, is replaced by its
/// target if that is a sibling's name.
RunPath run_path(const std::filesystem::path& path);

/// Throws std::runtime_error that names the first component of `within.name` that is a symbolic link.
void check_no_links(const RunPath& within);

}  // namespace modular
