// Folders and small files that appear under their names only when they are complete.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace modular {

/// Throws std::runtime_error with the path, the failed action (`verb`) and the system's error message (errno).
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view verb);

/// Throws std::runtime_error if `folder` exists, unless it is an empty folder.
void reject_existing(const std::filesystem::path& folder);

/// Path at which the future `folder` is prepared: a sibling, so that a rename suffices.
std::filesystem::path partial_folder(const std::filesystem::path& folder);

/// Creates an empty partial_folder(folder), replacing one that an interrupted program left behind. Throws
/// std::runtime_error on failure.
std::filesystem::path begin_folder(const std::filesystem::path& folder);

/// Renames a complete partial_folder to `folder`. An existing folder of that name is replaced and removed: atomically,
/// or in two steps if the file system cannot swap two names (NFS). Between the two steps published_folder() still finds
/// the old one.
void publish_folder(const std::filesystem::path& folder);

/// A folder that is written in one go, by a program that cannot use a part of it: if it is not published, because the
/// disk is full, for example, the destructor removes it.
class NewFolder {
 public:
  /// See begin_folder().
  explicit NewFolder(std::filesystem::path folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Folder to write the files into.
  const std::filesystem::path& partial() const { return partial_; }

  /// See publish_folder().
  void publish();

 private:
  std::filesystem::path folder_, partial_;
  bool is_published_ = false;
};

/// Path of the published `folder`: its name, or a sibling if its replacement was interrupted.
std::filesystem::path published_folder(const std::filesystem::path& folder);

/// Restores the name of a folder whose replacement was interrupted, and removes leftovers of a replacement that
/// completed.
void restore_folder(const std::filesystem::path& folder);

/// Removes a folder so that an interruption cannot leave one that looks complete.
void remove_folder(const std::filesystem::path& folder);

/// Writes a file atomically (readers see the old or the new content) and durably. Replaces an existing file of that
/// name, including a symbolic link.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The same for content in pieces: `next` returns one piece after the other, and nullopt at the end.
void write_file(const std::filesystem::path& path, const std::function<std::optional<std::string>()>& next);

/// Points the link `link` to its sibling `target`, replacing an older link. Throws std::runtime_error on failure.
void link_folder(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace modular
