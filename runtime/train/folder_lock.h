// One program at a time in the folder of a run.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/mesh/mesh.h"

namespace modular {

/// Holds a folder for this process, by a lock (flock(2)) on its file run.lock, which goes with the process however that
/// ends. The file says who holds it.
class FolderLock {
 public:
  /// Throws std::runtime_error where another process holds the folder, and names it, or where the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  ~FolderLock();

  /// As the constructor, and holds nothing afterwards. A folder that is not there is nobody's.
  static void check(const std::filesystem::path& folder);

  /// What the file says of this process, which no other one says, once all machines that see the folder can read it.
  std::string told() const;

 private:
  const std::filesystem::path path_;
  std::string holder_;
  int file_;
};

/// Collective, with `lock` on rank 0 alone. Throws std::runtime_error on all ranks where `shared` is not the same on
/// all, or is true and a rank's `folder` is another one than that which rank 0 holds.
void check_shared(const std::filesystem::path& folder, bool shared, const FolderLock* lock, Mesh& mesh);

}  // namespace modular
