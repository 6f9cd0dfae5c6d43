// Where the bytes of a file that is written go: into a file of this machine, or to a rank that writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace modular {

/// One file. All throw std::runtime_error where it cannot be written.
class FileSink {
 public:
  virtual ~FileSink() = default;
  /// Says how large the file will be, before anything is written of a new one.
  virtual void reserve(uint64_t size) = 0;
  /// Writes `size` bytes at `position`.
  virtual void write(const std::byte* bytes, uint64_t size, uint64_t position) = 0;
  /// Has the file system store what was written, which is all.
  virtual void close() = 0;
};

/// A file of this machine, in place of an older one.
std::unique_ptr<FileSink> create_file(const std::filesystem::path& path);

/// A file of this machine that is there.
std::unique_ptr<FileSink> open_file(const std::filesystem::path& path);

}  // namespace modular
