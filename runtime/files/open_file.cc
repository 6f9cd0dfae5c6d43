#include "runtime/files/open_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kFolders = {"checkpoints", "row-groups", "tensorboard", "tokenizer", "trace"};
constexpr std::string_view kSteps = "step-", kBest = "best";

bool is_step(const std::string& name) {
  return name.starts_with(kSteps) && name.size() > kSteps.size() && name[kSteps.size()] >= '0' &&
         name[kSteps.size()] <= '9';
}

/// Whether modrun creates a folder `name` in `parent`.
bool is_made_in(const fs::path& parent, const fs::path& name) {
  return std::ranges::find(kFolders, name.native()) != kFolders.end() || is_step(name.native()) ||
         (name == kBest && parent == "checkpoints") || parent == "row-groups";
}

/// Returns the target of checkpoints/best if it is a sibling's name, and the link's own name otherwise.
fs::path resolve_best(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  const bool is_name = !error && !target.empty() && target == target.filename() && target != "." && target != "..";
  return is_name ? target : link.filename();
}

}  // namespace

RunPath run_path(const fs::path& path) {
  std::vector<fs::path> parts;
  for (const fs::path& part : path)
    if (!part.empty() && part != ".") parts.push_back(part);
  if (parts.empty()) return {".", "."};
  size_t first = parts.size() - 1;  // first component within the root
  const auto before = [&](size_t at) { return at > 0 ? parts[at - 1] : fs::path(); };
  while (first > 0 && is_made_in(before(first - 1), parts[first - 1])) --first;
  RunPath result{first == 0 ? fs::path(".") : fs::path(), {}};
  for (size_t at = 0; at < first; ++at) result.root /= parts[at];
  for (size_t at = first; at < parts.size(); ++at) {
    const bool is_best = parts[at] == kBest && before(at) == "checkpoints";
    result.name /= is_best ? resolve_best(result.root / result.name / kBest) : parts[at];
  }
  return result;
}

void check_no_links(const RunPath& within) {
  fs::path so_far = within.root;
  for (const fs::path& part : within.name) {
    so_far /= part;
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(so_far, error))) continue;
    throw std::runtime_error(fmt::format(
        "{} is a symbolic link to {}: links within the folder of a run or a model are not followed; remove it, or move "
        "its target there",
        (within.root == "." ? so_far.lexically_normal() : so_far).string(), fs::read_symlink(so_far, error).string()));
  }
}

namespace {

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

bool LineReader::next(std::string& line) {
  constexpr size_t kReadBytes = 1 << 16;
  for (size_t searched = begin_;;) {
    if (const size_t end = buffer_.find('\n', searched); end != std::string::npos) {
      line.assign(buffer_, begin_, end - begin_);
      begin_ = end + 1;
      return true;
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    if (is_at_end_) break;
    if (searched > static_cast<size_t>(kMostLineBytes))
      throw std::runtime_error(
          fmt::format("{} has a line of more than {} bytes: restore the file", path_.string(), kMostLineBytes));
    buffer_.resize(searched + kReadBytes);
    ssize_t count = -1;
    do count = ::read(file_.get(), buffer_.data() + searched, kReadBytes);
    while (count < 0 && errno == EINTR);
    if (count < 0) throw std::runtime_error(fmt::format("{} cannot be read: {}", path_.string(), std::strerror(errno)));
    buffer_.resize(searched + static_cast<size_t>(count));
    is_at_end_ = count == 0;
  }
  if (buffer_.empty()) return false;
  line = std::exchange(buffer_, {});
  return is_cut_off_ = true;
}

}  // namespace modular
