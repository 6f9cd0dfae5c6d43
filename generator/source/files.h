// File I/O of modgen and modcheck: regular files only, read and written in full, with errors that name the file. Also
// line endings, and cache folders.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modgen {

/// An open file that is closed at the end of its scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }

  /// Closes the file now. Returns the errno of errors that only closing reveals (a write that a server rejected), or 0.
  int close_now() { return close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

  bool is_open() const { return number_ >= 0; }
  operator int() const { return number_; }  // NOLINT(google-explicit-constructor)

 private:
  int number_;
};

/// The file's bytes. Throws std::runtime_error, naming the file, if it cannot be read, for example because it is a
/// folder or a pipe.
std::string read_file(const std::filesystem::path& path);

/// The file's bytes; nullopt if it does not exist. Throws like read_file if it exists but cannot be read.
std::optional<std::string> read_file_if_any(const std::filesystem::path& path);

/// Creates the file's folder if needed and replaces the file atomically, through a temporary file next to it: a reader
/// sees either the old bytes or the new. A symbolic link stays, and what it names is replaced; the mode stays. Removes
/// the temporary files of killed processes in that folder. Throws std::runtime_error, naming the file; then nothing has
/// changed.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// The same for several files: all are written next to their destinations before the first is replaced. If one cannot
/// be written, none changes.
void write_files(const std::vector<std::pair<std::filesystem::path, std::string>>& files);

/// Makes a write beyond the file size limit (ulimit -f) fail, like a write to a full disk, instead of ending the
/// program.
void let_writes_fail();

/// Throws std::runtime_error if writing to standard output failed.
void check_standard_output();

/// $XDG_CACHE_HOME/modgen, if that is an absolute path, or ~/.cache/modgen; nullopt if neither XDG_CACHE_HOME nor HOME
/// is set.
std::optional<std::filesystem::path> cache_folder();

/// Creates `folder` if possible. Returns the reason why no file can be written to it; empty if files can.
std::string check_writable(const std::filesystem::path& folder);

/// Creates a folder that only this user can write to, below the folder for temporary files, for use when the cache is
/// not writable. Throws std::runtime_error if it cannot, or if another user owns the folder.
std::filesystem::path temporary_cache_folder();

/// `text` with each "\r\n", and each other "\r", replaced by "\n". Line and column numbers stay the same.
std::string with_unix_lines(std::string_view text);

/// A change of bytes [begin, end).
struct ByteEdit {
  size_t begin = 0, end = 0;
  std::string text;
};

/// The edit of `text` that corresponds to `edit` of with_unix_lines(text). Its new lines get the line ending at its
/// location.
ByteEdit with_endings_like(std::string_view text, ByteEdit edit);

}  // namespace modgen
