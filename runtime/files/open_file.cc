#include "runtime/files/open_file.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "runtime/files/run_path.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0644;

[[noreturn]] void fail(const fs::path& path, std::string_view verb, int error) {
  throw std::runtime_error(fmt::format("{} cannot be {}: {}", path.string(), verb, std::strerror(error)));
}

/// Opens a path within a folder without following links. Returns -1 and sets errno on failure.
int open_within(const RunPath& within, int flags) {
  const OpenFile root(::open(within.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.get() < 0) return -1;
  open_how how{};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? kMode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const auto file = static_cast<int>(::syscall(SYS_openat2, root.get(), within.name.c_str(), &how, sizeof how));
  // Kernels before 5.6, some sandboxes, and folders that are renamed concurrently.
  const bool is_unsupported = errno == ENOSYS || errno == EPERM || errno == EAGAIN;
  if (file >= 0 || !is_unsupported) return file;
  check_no_links({within.root, within.name.parent_path()});
  return ::openat(root.get(), within.name.c_str(), flags | O_NOFOLLOW, kMode);
}

/// Returns the blob that a link in a snapshot of Hugging Face's cache points to; empty for other links.
RunPath cached_blob(const fs::path& link) {
  std::error_code error;
  const fs::path folder = fs::canonical(link.has_parent_path() ? link.parent_path() : ".", error);
  if (error) return {};
  fs::path cache, previous;
  for (fs::path part = folder; part != part.parent_path(); previous = part, part = part.parent_path())
    if (part.filename().native().starts_with("models--") && previous.filename() == "snapshots") cache = part;
  if (cache.empty()) return {};
  const fs::path target = (folder / fs::read_symlink(link, error)).lexically_normal();
  if (error || target.parent_path() != cache / "blobs") return {};
  return {cache, fs::path("blobs") / target.filename()};
}

std::string_view get_kind(mode_t mode) {
  constexpr std::array<std::pair<mode_t, std::string_view>, 5> kinds = {{{S_IFDIR, "a folder"},
                                                                         {S_IFIFO, "a FIFO"},
                                                                         {S_IFSOCK, "a socket"},
                                                                         {S_IFCHR, "a device"},
                                                                         {S_IFBLK, "a device"}}};
  for (const auto& [kind, name] : kinds)
    if ((mode & S_IFMT) == kind) return name;
  return "not a file";
}

/// Throws if a file is not regular.
void check_kind(const fs::path& path, mode_t mode) {
  if (!S_ISREG(mode))
    throw std::runtime_error(
        fmt::format("{} is {}, not a regular file: remove it, or restore the file", path.string(), get_kind(mode)));
}

OpenFile open_regular(const fs::path& path, Links links, int flags, std::string_view verb) {
  const int all = flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const RunPath within = run_path(path);
  OpenFile file(links == Links::followed ? ::open(path.c_str(), all, kMode) : open_within(within, all));
  int error = errno;
  if (file.get() < 0 && error == ELOOP && links == Links::none && (flags & O_ACCMODE) == O_RDONLY)
    if (const RunPath blob = cached_blob(path); !blob.name.empty()) {
      file = OpenFile(open_within(blob, all));
      error = errno;
    }
  if (file.get() < 0) {
    if (links == Links::none) check_no_links(within);
    struct stat status{};  // some kinds cannot be opened at all, e.g. a socket, or a FIFO for writing
    if ((links == Links::none ? ::lstat : ::stat)(path.c_str(), &status) == 0) check_kind(path, status.st_mode);
    fail(path, verb, error);
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail(path, verb, errno);
  check_kind(path, status.st_mode);
  return file;
}

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile open_to_read(const fs::path& path, Links links) { return open_regular(path, links, O_RDONLY, "read"); }

OpenFile open_to_write(const fs::path& path, int flags) {
  OpenFile file = open_regular(path, Links::none, (flags & ~O_TRUNC) | O_RDWR, "written");
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail(path, "written", errno);
  if (status.st_nlink > 1)
    throw std::runtime_error(fmt::format(
        "{} has {} names (hard links), and writing it would change all of them: remove it, or copy it first",
        path.string(), status.st_nlink));
  if ((flags & O_TRUNC) != 0 && ::ftruncate(file.get(), 0) != 0) fail(path, "written", errno);
  return file;
}

bool is_there(const fs::path& path) {
  std::error_code error;  // set if a name is too long
  return fs::exists(fs::symlink_status(path, error));
}

std::string read_file(const fs::path& path, int64_t limit, Links links) {
  const OpenFile file = open_to_read(path, links);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail(path, "read", errno);
  std::string text;
  const auto check_size = [&](int64_t bytes) {
    if (bytes > limit)
      throw std::runtime_error(
          fmt::format("{} has {} bytes, more than the limit of {}: restore the file", path.string(), bytes, limit));
  };
  check_size(status.st_size);
  text.reserve(static_cast<size_t>(status.st_size));
  std::array<char, 1 << 16> buffer;
  while (true) {  // files in /proc report size 0
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read", errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    check_size(static_cast<int64_t>(text.size()));
  }
}

}  // namespace modular
