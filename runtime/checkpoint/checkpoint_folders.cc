#include "runtime/checkpoint/checkpoint_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/files/run_path.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kCheckpoints = "checkpoints";

std::string name_of_step(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

/// Parses the step from a checkpoint's folder name; nullopt for other names, including those with extra zeros: a name
/// that may be longer than the file system allows is never a step's.
std::optional<int64_t> parse_step(const fs::path& folder) {
  const std::string name = folder.string();  // a path does not count either: it may lead elsewhere
  if (!name.starts_with(kStepPrefix)) return {};
  int64_t step = 0;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || name != name_of_step(step)) return {};
  return step;
}

/// The names listed in `latest`, newest first, in the order in which they were saved. File times do not give the order,
/// because copies have others.
std::vector<std::string> saved_names(const fs::path& folder) {
  std::vector<std::string> names;
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  std::istringstream lines(is_there(folder / "latest") ? read_file(folder / "latest", kMostBytes) : "");
  for (std::string name; std::getline(lines, name);) {
    while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

/// Complete checkpoints, newest first. An unlisted one was saved last: the save was interrupted before it updated
/// `latest`.
std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  const std::vector<std::string> saved = saved_names(folder);
  std::vector<std::tuple<std::ptrdiff_t, int64_t, fs::path>> found;  // by index in `latest`, then the highest step
  for (const auto& entry : fs::directory_iterator(folder)) {
    const bool is_replaced = entry.path().extension() == ".replaced" && !fs::exists(folder / entry.path().stem());
    const fs::path name = is_replaced ? entry.path().stem() : entry.path().filename();
    const auto step = parse_step(name);
    if (!step || entry.is_symlink() || !fs::exists(entry.path() / "checkpoint.json")) continue;
    const auto listed = std::ranges::find(saved, name.string());
    found.emplace_back(listed == saved.end() ? -1 : listed - saved.begin(), -*step, entry.path());
  }
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [number, step, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// <path>/checkpoints if `path` is a run's folder, otherwise `path`. A folder with a model's config is not a run's,
/// even if it contains a folder of that name.
fs::path get_checkpoints(const fs::path& path) {
  const bool is_model = is_there(path / "config.json") || is_there(path / "adapter_config.json");
  const bool is_run = !is_model && path.filename() != kCheckpoints && fs::is_directory(path / kCheckpoints);
  return is_run ? path / kCheckpoints : path;
}

}  // namespace

fs::path checkpoint_of_step(const fs::path& folder, int64_t step) { return folder / name_of_step(step); }

void list_newest(const fs::path& folder, const fs::path& newest, int64_t keep_last, std::optional<int64_t> best_step) {
  const fs::path best = best_step ? checkpoint_of_step(folder, *best_step) : fs::path();
  std::string names = newest.filename().string() + "\n";
  std::vector<fs::path> removed;
  int64_t kept = 1;
  for (const fs::path& other : complete_checkpoints(folder)) {
    if (other.filename() == newest.filename()) continue;
    const bool is_among_last = keep_last == 0 || kept < keep_last;
    kept += is_among_last ? 1 : 0;
    if (is_among_last || other == best)
      names += other.filename().string() + "\n";
    else
      removed.push_back(other);
  }
  write_file(folder / "latest", names);
  if (best_step && fs::exists(best / "checkpoint.json")) link_folder(folder / "best", best.filename());
  for (const fs::path& old : removed) remove_folder(old);
  if (fs::is_symlink(folder / "best") && !fs::exists(folder / "best")) fs::remove(folder / "best");
}

void remove_leftovers(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (parse_step(entry.path().stem())) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    if (entry.extension() == ".partial") fs::remove_all(entry);
    if (entry.extension() == ".replaced") restore_folder(folder / entry.stem());
  }
}

fs::path find_checkpoint(const fs::path& named) {
  const auto check = [](const fs::path& checkpoint) { check_no_links(run_path(checkpoint / "checkpoint.json")); };
  check(named);
  if (fs::exists(named / "checkpoint.json")) return named;
  const fs::path path = get_checkpoints(named);
  check(path);
  if (const std::vector<std::string> names = saved_names(path); !names.empty()) {
    const std::string& name = names.front();
    const bool is_step = parse_step(name).has_value();  // other names may not be valid file names
    const fs::path newest = is_step ? published_folder(path / name) : path;
    if (is_step) check(newest);
    if (!is_step || !fs::exists(newest / "checkpoint.json"))
      throw std::runtime_error(fmt::format(
          "{} names the checkpoint {}, which does not exist: --resume=step-… or --checkpoint names another one",
          (path / "latest").string(), shown(name)));
    return newest;
  }
  if (!fs::is_directory(path)) return {};
  const auto complete = complete_checkpoints(path);  // finds a save that was interrupted before it wrote `latest`
  return complete.empty() ? fs::path() : complete.front();
}

}  // namespace modular
