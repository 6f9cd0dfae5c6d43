#include "runtime/train/folder_lock.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace modular {
namespace {

namespace fs = std::filesystem;

/// The file, locked. Throws where another process has it.
int lock(const fs::path& folder, int flags) {
  const fs::path path = folder / "run.lock";
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (file < 0) {
    if (errno == ENOENT && !(flags & O_CREAT)) return -1;
    throw std::runtime_error(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
  }
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int error = errno;
  std::array<char, 256> holder{};
  const ssize_t size = ::pread(file, holder.data(), holder.size(), 0);
  ::close(file);
  if (error != EWOULDBLOCK)
    throw std::runtime_error(fmt::format("{} cannot be locked: {}", path.string(), std::strerror(error)));
  throw std::runtime_error(
      fmt::format("train.dir {} is in use by {}: wait for that run's end, or choose another folder", folder.string(),
                  size > 0 ? std::string(holder.data(), static_cast<size_t>(size)) : std::string("another process")));
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : file_(lock(folder, O_RDWR | O_CREAT)) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string holder = fmt::format("process {} on {}", ::getpid(), host.data());
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, holder.data(), holder.size(), 0) < 0) {
    const int error = errno;
    ::close(file_);
    throw std::runtime_error(
        fmt::format("{} cannot be written: {}", (folder / "run.lock").string(), std::strerror(error)));
  }
}

FolderLock::~FolderLock() { ::close(file_); }

void FolderLock::check(const fs::path& folder) {
  if (const int file = lock(folder, O_RDWR); file >= 0) ::close(file);
}

}  // namespace modular
