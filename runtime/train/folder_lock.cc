#include "runtime/train/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// A unique name of the job: its launcher's random name, or the machine's boot id with the number and the start time of
/// the parent process.
std::string job_name() {
  if (const char* name = std::getenv("MODULAR_JOB"); name && *name) return std::string(name) + "\n";
  const pid_t parent = getppid();
  const fs::path stat = fmt::format("/proc/{}/stat", parent);
  if (!is_there(stat)) return fmt::format("process {} on a machine without /proc\n", parent);
  std::string status = read_file(stat);
  status.erase(0, status.rfind(')') + 1);  // after the program's name, which may contain anything
  constexpr int kFieldsBeforeStart = 19;
  size_t begin = 0;
  for (int field = 0; field < kFieldsBeforeStart; ++field) begin = status.find_first_of(' ', begin + 1);
  const std::string start = begin == std::string::npos ? "" : status.substr(begin, status.find(' ', begin + 1) - begin);
  return fmt::format("{}{}{}\n", read_file("/proc/sys/kernel/random/boot_id"), parent, start);
}

}  // namespace

void mark_job(const fs::path& folder) { write_file(folder / "run.job", job_name()); }

bool is_marked_by_this_job(const fs::path& folder) {
  return is_there(folder / "run.job") && read_file(folder / "run.job", /*most=*/1 << 16) == job_name();
}

namespace {

constexpr const char* kLockName = "run.lock";

/// Text of the lock file.
std::string lock_text(int file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

/// Opens the file and locks it with LOCK_EX or LOCK_SH. Throws if another process holds the lock.
OpenFile lock(const fs::path& folder, int flags, int operation) {
  const fs::path path = folder / kLockName;
  OpenFile file = open_to_write(path, flags);
  if (::flock(file.get(), operation | LOCK_NB) == 0) return file;
  const int error = errno;
  const std::string holder = lock_text(file.get());
  if (error != EWOULDBLOCK)
    throw std::runtime_error(fmt::format("{} cannot be locked: {}", path.string(), std::strerror(error)));
  throw std::runtime_error(
      fmt::format("train.dir {} is in use by {}: wait for that run's end, or choose another folder", folder.string(),
                  holder.empty() ? "another process" : holder));
}

/// Whether the lock file in `folder` contains `identity`. Retries for some seconds before returning false, as network
/// file systems may show other machines' writes late.
bool is_folder_for(const fs::path& folder, const std::string& identity) {
  for (int look = 0; look < 50; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // NFS asks the server for the contents of a directory when it is opened, and caches missing entries otherwise.
    fs::path above;
    for (const fs::path& part : folder) {
      std::error_code error;
      fs::directory_iterator(above /= part, error);
    }
    const fs::path path = folder / kLockName;
    if (is_there(path) && lock_text(open_to_read(path).get()) == identity) return true;
  }
  return false;
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  ::gmtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%F %T UTC", &parts)};
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : path_(folder / kLockName), file_(lock(folder, O_CREAT, LOCK_EX)) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  holder_ = fmt::format("process {} on {}, since {}", ::getpid(), host.data(), time_now());
  if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), holder_.data(), holder_.size(), 0) < 0)
    throw_system_error(path_, "written");
}

std::string FolderLock::identity() const {
  if (::fsync(file_.get()) != 0) throw_system_error(path_, "written");
  return holder_;
}

void FolderLock::check(const fs::path& folder) {
  // A shared lock, as the launchers of several machines check concurrently.
  if (is_there(folder / kLockName)) lock(folder, 0, LOCK_SH);
}

void FolderLock::check_held() const {
  struct stat held{}, there{};
  const bool is_same = ::fstat(file_.get(), &held) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                       held.st_dev == there.st_dev && held.st_ino == there.st_ino;
  if (!is_same)
    throw std::runtime_error(
        fmt::format("train.dir {} was removed or renamed while the run was in progress: its {} is not the one that the "
                    "run holds, and nothing more is written. Move the folder back and continue by --resume",
                    path_.parent_path().string(), kLockName));
}

void check_shared(const fs::path& folder, bool shared, const FolderLock* lock, Mesh& mesh) {
  if (mesh.world_size() == 1) return;
  const std::string identity =
      broadcast_text(mesh.control(), lock && shared ? lock->identity() : "", "the holder of the run's folder");
  const bool is_other = !lock && (identity.empty() ? shared : !shared || !is_folder_for(folder, identity));
  if (any_rank(mesh.control(), is_other, "whether all ranks see the run's folder"))
    throw std::runtime_error(
        fmt::format("train.dir {} is not the same folder on all machines, as checkpoint.shared = true asks for: set "
                    "checkpoint.shared = false on each of them, with which rank 0 writes and reads for all, or let "
                    "train.dir be on a file system that they share",
                    folder.string()));
}

}  // namespace modular
