#include "generator/source/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>

namespace modgen {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const char* what, int error) {
  throw std::runtime_error(path.string() + ": " + what + ": " + std::strerror(error));
}

/// Whether `name` is that of a temporary file: "llama.h.new-4711-0".
bool is_temporary(std::string_view name) {
  const auto drop_number = [&] {
    while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back()))) name.remove_suffix(1);
  };
  drop_number();
  if (!name.ends_with('-')) return false;
  name.remove_suffix(1);
  drop_number();
  return name.ends_with(".new-");
}

/// Removes the temporary files that killed processes left in `folder`. Those of a process that runs are locked.
void remove_abandoned(const fs::path& folder) {
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (!is_temporary(entry.path().filename().native())) continue;
    const FileDescriptor file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (file.is_open() && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
  }
}

/// Where a file called `path` is: symbolic links stay, and what they name is replaced.
fs::path linked(const fs::path& path) {
  std::error_code dangling;
  fs::path target = fs::is_symlink(path, dangling) ? fs::canonical(path, dangling) : path;
  return dangling ? path : target;
}

/// A temporary file next to its destination. commit() moves it there, with the mode of the file that it replaces;
/// otherwise it is removed.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& path, std::string_view bytes) : path_(linked(path)) {
    FileDescriptor file = create();
    int error = file.is_open() ? 0 : errno;
    if (struct stat replaced{}; !error && stat(path_.c_str(), &replaced) == 0)
      fchmod(file, replaced.st_mode & 07777);  // some file systems have no modes
    while (!error && !bytes.empty()) {
      const ssize_t written = write(file, bytes.data(), bytes.size());
      if (written >= 0)
        bytes.remove_prefix(static_cast<size_t>(written));
      else if (errno != EINTR)
        error = errno;
    }
    if (!error) error = file.close_now();
    if (!error) return;
    remove();
    fail(path, "cannot be written", error);
  }
  TemporaryFile(TemporaryFile&& other) noexcept
      : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})), lock_(std::move(other.lock_)) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() { remove(); }

  fs::path folder() const { return path_.has_parent_path() ? path_.parent_path() : fs::path("."); }

  void commit() {
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot be replaced", errno);
    temporary_.clear();
  }

 private:
  FileDescriptor create() {
    // A process in another container may have the same PID.
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::string name = path_.string() + ".new-" + std::to_string(getpid()) + "-" + std::to_string(attempt);
      FileDescriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (!file.is_open() && errno != EEXIST) return file;
      if (!file.is_open() || !lock(file)) continue;
      temporary_ = std::move(name);
      return file;
    }
    return FileDescriptor();
  }
  /// Locks the file until this object ends. Returns false if another process took it for an abandoned one before.
  bool lock(const FileDescriptor& file) {
    if (flock(file, LOCK_EX) != 0) return true;  // no locks here, so files of others are not removed either
    lock_ = FileDescriptor(fcntl(file, F_DUPFD_CLOEXEC, 0));
    struct stat status{};
    return fstat(file, &status) != 0 || status.st_nlink > 0;
  }
  void remove() {
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }

  fs::path path_;
  std::string temporary_;
  FileDescriptor lock_;  // shares the lock of the file that was written
};

/// Creates the folder of `path`. Throws if no file can be written there.
void prepare(const fs::path& path) {
  std::error_code failed;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  if (failed) fail(path, "its folder cannot be created", failed.value());
  if (fs::is_directory(path, failed)) throw std::runtime_error(path.string() + ": is a folder, not a file");
}

/// Restores the replaced files. Returns the files for which that failed, as the end of a sentence.
std::string restore(const std::vector<std::pair<fs::path, std::optional<std::string>>>& replaced) {
  std::string not_restored;
  for (const auto& [path, before] : replaced) {
    try {
      if (before)
        write_file(path, *before);
      else
        fs::remove(path);
    } catch (const std::exception&) {
      not_restored +=
          (not_restored.empty() ? "; these were replaced and could not be restored: " : ", ") + path.string();
    }
  }
  return not_restored;
}

}  // namespace

std::optional<std::string> read_file_if_any(const fs::path& path) {
  // Without O_NONBLOCK, opening a pipe without a writer would block forever.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(path, "cannot be opened", errno);
  }
  struct stat status{};
  if (fstat(file, &status) != 0) fail(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode))
    throw std::runtime_error(path.string() +
                             (S_ISDIR(status.st_mode) ? ": is a folder, not a file" : ": is not a regular file"));
  std::string bytes(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t size = 0;
  for (;;) {
    if (size == bytes.size()) bytes.resize(2 * bytes.size());
    const ssize_t count = read(file, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "cannot be read", errno);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  bytes.resize(size);
  return bytes;
}

std::string read_file(const fs::path& path) {
  std::optional<std::string> bytes = read_file_if_any(path);
  if (!bytes) fail(path, "cannot be opened", ENOENT);
  return *std::move(bytes);
}

void write_file(const fs::path& path, std::string_view bytes) {
  prepare(path);
  TemporaryFile file(path, bytes);
  remove_abandoned(file.folder());
  file.commit();
}

void write_files(const std::vector<std::pair<fs::path, std::string>>& files) {
  std::vector<TemporaryFile> files_to_commit;
  for (const auto& [path, bytes] : files) {
    prepare(path);
    files_to_commit.emplace_back(path, bytes);
  }
  std::set<fs::path> folders;
  for (const TemporaryFile& file : files_to_commit) folders.insert(file.folder());
  std::ranges::for_each(folders, remove_abandoned);
  std::vector<std::pair<fs::path, std::optional<std::string>>> replaced;
  try {
    for (size_t index = 0; index < files.size(); ++index) {
      std::optional<std::string> before = read_file_if_any(files[index].first);
      files_to_commit[index].commit();
      replaced.emplace_back(files[index].first, std::move(before));
    }
  } catch (const std::exception& error) {
    files_to_commit.clear();  // frees disk space for restoring
    throw std::runtime_error(error.what() + restore(replaced));
  }
}

void let_writes_fail() { std::signal(SIGXFSZ, SIG_IGN); }

void check_standard_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0)
    throw std::runtime_error(std::string("standard output cannot be written: ") + std::strerror(errno));
  if (std::ferror(stdout)) throw std::runtime_error("standard output cannot be written");
}

namespace fs = std::filesystem;

std::optional<fs::path> cache_folder() {
  // The XDG specification has relative paths ignored.
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && fs::path(cache).is_absolute())
    return fs::path(cache) / "modgen";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/modgen";
  return std::nullopt;
}

std::string check_writable(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed && access(folder.c_str(), W_OK | X_OK) != 0) failed = std::error_code(errno, std::generic_category());
  return failed ? folder.string() + ": cannot be written: " + failed.message() : "";
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

namespace {

/// Number of bytes of `text` at `offset` that become one byte with "
/// " line endings: 2 for "\r
/// ".
size_t length_at(std::string_view text, size_t offset) { return text.substr(offset, 2) == "\r\n" ? 2 : 1; }

/// The ending of the line that `offset` is in; that of the line before if it is the last and has none.
std::string_view ending_at(std::string_view text, size_t offset) {
  size_t end = text.find('\n', offset);
  if (end == std::string_view::npos) end = text.rfind('\n');
  return end != std::string_view::npos && end > 0 && text[end - 1] == '\r' ? "\r\n" : "\n";
}

}  // namespace

std::string with_unix_lines(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += length_at(text, at)) result += text[at] == '\r' ? '\n' : text[at];
  return result;
}

ByteEdit with_endings_like(std::string_view text, ByteEdit edit) {
  size_t offset = 0, unix_offset = 0;
  const auto advance_to = [&](size_t goal) {
    for (; unix_offset < goal && offset < text.size(); ++unix_offset) offset += length_at(text, offset);
    return offset;
  };
  ByteEdit result;
  result.begin = advance_to(edit.begin);
  result.end = advance_to(edit.end);
  const std::string_view ending = ending_at(text, result.begin);
  for (const char c : edit.text) c == '\n' ? result.text += ending : result.text += c;
  return result;
}

}  // namespace modgen
