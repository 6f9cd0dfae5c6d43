// Folders and small files that appear under their names only when they are complete.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace modular {

/// Throws std::runtime_error that says what could not be done with a file, and what the system says of it (errno).
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view verb);

/// Throws std::runtime_error where `folder` is there and is not an empty folder.
void reject_existing(const std::filesystem::path& folder);

/// Where a folder is prepared that will be called `folder`: beside it, so that a rename suffices.
std::filesystem::path partial_folder(const std::filesystem::path& folder);

/// Makes an empty partial_folder(folder), in place of one that an interrupted program left. Throws std::runtime_error
/// where it cannot.
std::filesystem::path begin_folder(const std::filesystem::path& folder);

/// Gives a complete partial_folder its name; a folder that has it already is replaced and removed: in one step, or
/// where the file system cannot exchange names (NFS) in two, between which published_folder() still finds the old one.
void publish_folder(const std::filesystem::path& folder);

/// A folder that is written in one go, by a program that has no use for a part of it: what is not published, as the
/// disk was full, say, is removed with the error that ended it.
class NewFolder {
 public:
  /// As begin_folder().
  explicit NewFolder(std::filesystem::path folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where its files are written.
  const std::filesystem::path& partial() const { return partial_; }

  /// As publish_folder().
  void publish();

 private:
  std::filesystem::path folder_, partial_;
  bool is_published_ = false;
};

/// Where the published `folder` is: under its name, or beside it where its replacement was interrupted.
std::filesystem::path published_folder(const std::filesystem::path& folder);

/// Gives a folder whose replacement was interrupted its name again, and removes what one that was done left behind.
void restore_folder(const std::filesystem::path& folder);

/// Removes a folder in such a way that an interruption leaves none that looks complete.
void remove_folder(const std::filesystem::path& folder);

/// Writes a file that is either the old or the new one at any time, and stored when this returns. What has the name,
/// a link too, is replaced.
void write_file(const std::filesystem::path& path, std::string_view text);

/// The same of pieces: `next` gives one after the other, and nothing at the end.
void write_file(const std::filesystem::path& path, const std::function<std::optional<std::string>()>& next);

/// Makes `link` lead to `target`, a name beside it, in place of where it led. Throws std::runtime_error where it
/// cannot.
void link_folder(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace modular
