// Opens untrusted files: of a run, a checkpoint or a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace modular {

/// Owns a file descriptor.
class OpenFile {
 public:
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~OpenFile();

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

/// `none`: a link within a run's folder (run_path.h) is an error, except for the links that Hugging Face's cache makes
/// from snapshots/ to blobs/ of the same model. `followed`: for files that the user names explicitly, e.g. data.
enum class Links { none, followed };

/// Opens a regular file for reading. Throws std::runtime_error that names the file if it cannot be opened or is a link,
/// a folder, a FIFO or a device. Never waits for a writer.
OpenFile open_to_read(const std::filesystem::path& path, Links links = Links::none);

/// Opens a regular file for reading and writing. O_CREAT in `flags` creates it with mode 0644. O_TRUNC truncates it
/// only after the check that it is regular. Throws like open_to_read(), and if the file has several hard links.
OpenFile open_to_write(const std::filesystem::path& path, int flags);

/// Whether a file, folder or link exists at `path`. True for a dangling link.
bool is_there(const std::filesystem::path& path);

constexpr int64_t kMostTextBytes = int64_t{256} << 20;

/// Reads a regular file. Throws like open_to_read(), and if it has more than `limit` bytes.
std::string read_file(const std::filesystem::path& path, int64_t limit = kMostTextBytes, Links links = Links::none);

}  // namespace modular
