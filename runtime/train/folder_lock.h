// Exclusive use of a run's folder by one program, and the job that started or last resumed it.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/files/open_file.h"
#include "runtime/mesh/mesh.h"

namespace modular {

/// Records the launcher that started this process in `folder`, in the file run.job.
void mark_job(const std::filesystem::path& folder);

/// Whether the recorded launcher is this process's own. If so, a rank that the launcher restarted may continue from
/// what the previous ranks left in the folder.
bool is_marked_by_this_job(const std::filesystem::path& folder);

/// Locks a folder for this process with flock(2) on its file run.lock. The lock goes away with the process, however
/// that ends. The file names the holder.
class FolderLock {
 public:
  /// Throws std::runtime_error naming the holder if another process holds the folder, or if the file cannot be created.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;

  /// Throws as the constructor does, but keeps no lock. A missing folder is unlocked.
  static void check(const std::filesystem::path& folder);

  /// Throws std::runtime_error if the folder no longer contains the file that this process locked: it was removed or
  /// renamed, and further writes would be lost or go to the folder of another run.
  void check_held() const;

  /// A description of this process in the lock file that no other process writes, once all machines that see the folder
  /// can read it.
  std::string identity() const;

 private:
  const std::filesystem::path path_;
  std::string holder_;
  OpenFile file_;
};

/// Collective, with `lock` on rank 0 only. Throws std::runtime_error on all ranks if `shared` differs between ranks, or
/// if it is true and a rank's `folder` is not the one that rank 0 holds.
void check_shared(const std::filesystem::path& folder, bool shared, const FolderLock* lock, Mesh& mesh);

}  // namespace modular
