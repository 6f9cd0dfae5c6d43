// One program at a time in the folder of a run.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/files/open_file.h"
#include "runtime/mesh/mesh.h"

namespace modular {

/// Holds a folder for this process, by a lock (flock(2)) on its file run.lock, which goes with the process however that
/// ends. The file says who holds it.
class FolderLock {
 public:
  /// Throws std::runtime_error where another process holds the folder, and names it, or where the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;

  /// As the constructor, and holds nothing afterwards. A folder that is not there is nobody's.
  static void check(const std::filesystem::path& folder);

  /// Throws std::runtime_error where the folder no longer has the file that this process holds: somebody removed or
  /// renamed it, and what is written now would be lost, or be in the folder of another run.
  void check_held() const;

  /// What the file says of this process, which no other one says, once all machines that see the folder can read it.
  std::string told() const;

 private:
  const std::filesystem::path path_;
  std::string holder_;
  OpenFile file_;
};

/// Collective, with `lock` on rank 0 alone. Throws std::runtime_error on all ranks where `shared` is not the same on
/// all, or is true and a rank's `folder` is another one than that which rank 0 holds.
void check_shared(const std::filesystem::path& folder, bool shared, const FolderLock* lock, Mesh& mesh);

}  // namespace modular
