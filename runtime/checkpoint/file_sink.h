// Destination of a file's bytes: a local file, or the rank that writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace modular {

/// One file. All members throw std::runtime_error if it cannot be written.
class FileSink {
 public:
  virtual ~FileSink() = default;
  /// Announces the size of a new file, before anything is written.
  virtual void reserve(uint64_t size) = 0;
  /// Writes `size` bytes at `position`.
  virtual void write(const std::byte* bytes, uint64_t size, uint64_t position) = 0;
  /// Makes the file durable; called after the last write.
  virtual void close() = 0;
};

/// A new local file, which replaces an older one.
std::unique_ptr<FileSink> create_file(const std::filesystem::path& path);

/// An existing local file.
std::unique_ptr<FileSink> open_file(const std::filesystem::path& path);

}  // namespace modular
