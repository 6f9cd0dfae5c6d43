// One program at a time in the folder of a run.
#pragma once

#include <filesystem>

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

 private:
  int file_;
};

}  // namespace modular
