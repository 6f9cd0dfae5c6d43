#include "generator/source/cache_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace modgen {

namespace fs = std::filesystem;

std::optional<fs::path> cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "modgen";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/modgen";
  return std::nullopt;
}

fs::path temporary_cache_folder() {
  const fs::path folder = fs::temp_directory_path() / ("modgen-" + std::to_string(geteuid()));
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw std::runtime_error(folder.string() + ": cannot be created: " + std::strerror(errno));
  // A precompiled header is trusted, so no other user may have written it.
  struct stat status{};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw std::runtime_error(folder.string() + ": other users may have written to it: set TMPDIR to another folder");
  return folder;
}

}  // namespace modgen
