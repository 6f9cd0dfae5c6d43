// Opens and reads untrusted files: of a run, a checkpoint or a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

namespace modular {

// Splits a path at the folder of a run, within which links are not followed.

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

/// `none`: a link within a run's folder (see run_path()) is an error, except for the links that Hugging Face's cache
/// makes from snapshots/ to blobs/ of the same model. `followed`: for files that the user names explicitly, e.g. data.
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

// Reads a file line by line, with a limit on the length of a line.

constexpr int64_t kMostLineBytes = int64_t{64} << 20;

class LineReader {
 public:
  /// Opens the file with open_to_read(), and throws like it.
  explicit LineReader(const std::filesystem::path& path, Links links = Links::none)
      : path_(path), file_(open_to_read(path, links)) {}

  /// Reads the next line without its newline; returns false at the end of the file. Throws std::runtime_error if the
  /// file cannot be read or a line has more than kMostLineBytes.
  bool next(std::string& line);

  /// Whether the last line that next() returned lacks its newline.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  std::filesystem::path path_;
  OpenFile file_;
  std::string buffer_;
  size_t begin_ = 0;  // start of the data that next() has not returned
  bool is_cut_off_ = false, is_at_end_ = false;
};

}  // namespace modular
