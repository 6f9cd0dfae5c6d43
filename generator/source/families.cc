#include "generator/source/families.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace modgen {

namespace fs = std::filesystem;

namespace {

/// Whether `path` is a spec: false if nothing exists there, or for a directory of any name. Throws for other files that
/// cannot be read as a spec.
bool is_spec(const fs::path& path) {
  std::error_code failed;
  const fs::file_type type = fs::status(path, failed).type();
  if (type == fs::file_type::directory) return false;
  if (type == fs::file_type::not_found) {
    if (!fs::is_symlink(path, failed)) return false;
    throw std::runtime_error(path.string() + ": is a dangling symbolic link");
  }
  if (type != fs::file_type::none && type != fs::file_type::regular)
    throw std::runtime_error(path.string() + ": is not a regular file");
  if (access(path.c_str(), R_OK) != 0)
    throw std::runtime_error(path.string() + ": cannot be read: " + std::strerror(errno));
  return true;
}

}  // namespace

std::string spec_name(const std::string& family) { return "modular/" + family + ".h"; }

std::vector<std::string> families_in(const fs::path& root) {
  const fs::path folder = root / "modular";
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  if (failed == std::errc::no_such_file_or_directory || failed == std::errc::not_a_directory)
    throw std::runtime_error(folder.string() + ": no such folder: set --root to the folder that contains modular/");
  if (failed) throw std::runtime_error(folder.string() + ": cannot be read: " + failed.message());
  std::vector<std::string> families;
  for (const fs::directory_entry& entry : entries) {
    const fs::path name = entry.path().filename();
    if (name.extension() == ".h" && name != "modular.h" && !name.string().starts_with('.') && is_spec(entry.path()))
      families.push_back(name.stem().string());
  }
  std::sort(families.begin(), families.end());
  return families;
}

std::optional<fs::path> find_spec(const fs::path& root, const fs::path& shipped, const std::string& family) {
  for (const fs::path& tree : {root, shipped})
    if (fs::path path = tree / spec_name(family); is_spec(path)) return path;
  return std::nullopt;
}

}  // namespace modgen
