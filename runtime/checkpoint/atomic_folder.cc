#include "runtime/checkpoint/atomic_folder.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// The path without a trailing slash, so that filename() is the folder's name.
fs::path named(const fs::path& folder) { return folder.has_filename() ? folder : folder.parent_path(); }

fs::path sibling(const fs::path& folder, const char* suffix) {
  fs::path path = named(folder);
  path += suffix;
  return path;
}

/// Makes a folder's entries durable: without this a crash may undo a rename.
void store_entries(const fs::path& folder) {
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) throw_system_error(folder, "opened");
  const int failed = ::fsync(file);
  ::close(file);
  if (failed && errno != EINVAL)
    throw_system_error(folder, "written");  // EINVAL: the file system does not support fsync of folders
}

/// Throws if a link within a run's folder leads to the parent folder of `path`. `path` itself may be a link, because it
/// is replaced.
void check_parent_folder(const fs::path& path) { check_no_links(run_path(path.parent_path() / "any")); }

/// Name of the old folder while a new one replaces it.
fs::path replaced_folder(const fs::path& folder) { return sibling(folder, ".replaced"); }

/// Renames `partial` to `final` and removes the old folder, on a file system that cannot swap two names.
void replace_in_two_steps(const fs::path& partial, const fs::path& final) {
  restore_folder(final);
  const fs::path replaced = replaced_folder(final);
  fs::rename(final, replaced);
  fs::rename(partial, final);
  store_entries(final.parent_path());
  fs::remove_all(replaced);
}

}  // namespace

void throw_system_error(const fs::path& path, std::string_view verb) {
  throw std::runtime_error(fmt::format("{} cannot be {}: {}", path.string(), verb, std::strerror(errno)));
}

fs::path partial_folder(const fs::path& folder) { return sibling(folder, ".partial"); }

void reject_existing(const fs::path& folder) {
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder)))
    throw std::runtime_error(fmt::format("{} exists already: name a new folder", folder.string()));
}

fs::path begin_folder(const fs::path& folder) {
  const fs::path partial = partial_folder(folder);
  check_parent_folder(partial);
  std::error_code error;
  fs::remove_all(partial, error);
  if (!error) fs::create_directories(partial, error);
  if (error) throw std::runtime_error(fmt::format("{} cannot be made: {}", partial.string(), error.message()));
  return partial;
}

void publish_folder(const fs::path& folder) {
  const fs::path partial = partial_folder(folder), final = named(folder);
  store_entries(partial);
  if (!fs::exists(final)) {
    fs::rename(partial, final);
  } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(partial);  // the old folder
  } else if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    replace_in_two_steps(partial, final);
  } else {
    throw_system_error(final, "replaced");
  }
  store_entries(final.parent_path());
}

NewFolder::NewFolder(fs::path folder) : folder_(std::move(folder)), partial_(begin_folder(folder_)) {}

NewFolder::~NewFolder() {
  std::error_code ignored;  // the exception that is propagating is more informative
  if (!is_published_) fs::remove_all(partial_, ignored);
}

void NewFolder::publish() {
  publish_folder(folder_);
  is_published_ = true;
}

fs::path published_folder(const fs::path& folder) {
  const fs::path replaced = replaced_folder(folder);
  return !fs::exists(folder) && fs::exists(replaced) ? replaced : folder;
}

void restore_folder(const fs::path& folder) {
  const fs::path replaced = replaced_folder(folder);
  if (!fs::exists(replaced)) return;
  if (fs::exists(folder))
    fs::remove_all(replaced);
  else
    fs::rename(replaced, named(folder));
}

void remove_folder(const fs::path& folder) {
  const fs::path removed = partial_folder(folder);
  fs::remove_all(removed);
  fs::rename(named(folder), removed);
  fs::remove_all(removed);
}

void write_file(const fs::path& path, std::string_view text) {
  bool is_done = false;
  write_file(path, [&] { return std::exchange(is_done, true) ? std::nullopt : std::optional(std::string(text)); });
}

void write_file(const fs::path& path, const std::function<std::optional<std::string>()>& next) {
  check_parent_folder(path);
  const fs::path partial = sibling(path, ".partial");
  ::unlink(partial.c_str());  // left by an interruption, or a link placed there by someone else
  const OpenFile file = open_to_write(partial, O_CREAT | O_EXCL);
  while (const std::optional<std::string> text = next())
    for (std::string_view rest = *text; !rest.empty();) {
      const ssize_t count = ::write(file.get(), rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw_system_error(path, "written");
      rest.remove_prefix(static_cast<size_t>(count));
    }
  if (::fsync(file.get()) != 0 || ::rename(partial.c_str(), path.c_str()) != 0) throw_system_error(path, "written");
  store_entries(path.parent_path());
}

void link_folder(const fs::path& link, const fs::path& target) {
  const fs::path partial = sibling(link, ".partial");
  ::unlink(partial.c_str());
  if (::symlink(target.c_str(), partial.c_str()) != 0 || ::rename(partial.c_str(), link.c_str()) != 0)
    throw_system_error(link, "made a link");
}

}  // namespace modular
