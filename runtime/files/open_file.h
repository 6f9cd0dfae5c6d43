// Opens files that others may have written: those of a run, of a checkpoint, of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace modular {

/// An open file, which is closed with it.
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

/// `none`: a link within a run's folder (run_path.h) is an error, but for those that Hugging Face's cache makes from
/// snapshots/ to blobs/ of one model. `followed`: for files that the user names himself, such as data.
enum class Links { none, followed };

/// Opens a regular file to read. Throws std::runtime_error that names the file where it cannot be opened, and where it
/// is a link, a folder, a FIFO or a device; never waits for a writer.
OpenFile open_to_read(const std::filesystem::path& path, Links links = Links::none);

/// Opens a regular file to read and write, with the mode 0644 where `flags` has O_CREAT. O_TRUNC empties it when it is
/// known to be regular. Throws as open_to_read() does, and where the file has another name, a hard link.
OpenFile open_to_write(const std::filesystem::path& path, int flags);

/// Whether a file, folder or link of that name is there. A link that leads nowhere is.
bool is_there(const std::filesystem::path& path);

constexpr int64_t kMostTextBytes = int64_t{256} << 20;

/// The whole of a regular file. Throws as open_to_read() does, and where it has more than `most` bytes.
std::string read_file(const std::filesystem::path& path, int64_t most = kMostTextBytes, Links links = Links::none);

}  // namespace modular
