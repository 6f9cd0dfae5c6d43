// A temporary folder for a job's files.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace modular {

/// Creates a folder in the system's temporary directory and removes it on destruction, unless keep() is called.
class TemporaryFolder {
 public:
  /// Throws std::runtime_error if the folder cannot be created; `remedy` is part of the message.
  explicit TemporaryFolder(const std::string& remedy) {
    std::error_code error;
    const auto parent = std::filesystem::temp_directory_path(error);
    if (error) {
      const char* const named = std::getenv("TMPDIR");
      throw std::runtime_error(
          fmt::format("{} is not a folder, and temporary files go there: {}, or set TMPDIR to a folder",
                      named ? fmt::format("TMPDIR is \"{}\", which", named) : "/tmp", remedy));
    }
    std::string pattern = (parent / "modrun-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error(
          fmt::format("cannot create a folder in {}: {}; {}", parent.string(), std::strerror(errno), remedy));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  void keep() { kept_ = true; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace modular
