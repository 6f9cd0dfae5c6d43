#include "runtime/files/run_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kFolders = {"checkpoints", "row-groups", "tensorboard", "tokenizer", "trace"};
constexpr std::string_view kSteps = "step-", kBest = "best";

bool is_step(const std::string& name) {
  return name.starts_with(kSteps) && name.size() > kSteps.size() && name[kSteps.size()] >= '0' &&
         name[kSteps.size()] <= '9';
}

/// Whether modrun creates a folder `name` in `parent`.
bool is_made_in(const fs::path& parent, const fs::path& name) {
  return std::ranges::find(kFolders, name.native()) != kFolders.end() || is_step(name.native()) ||
         (name == kBest && parent == "checkpoints") || parent == "row-groups";
}

/// Returns the target of checkpoints/best if it is a sibling's name, and the link's own name otherwise.
fs::path resolve_best(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  const bool is_name = !error && !target.empty() && target == target.filename() && target != "." && target != "..";
  return is_name ? target : link.filename();
}

}  // namespace

RunPath run_path(const fs::path& path) {
  std::vector<fs::path> parts;
  for (const fs::path& part : path)
    if (!part.empty() && part != ".") parts.push_back(part);
  if (parts.empty()) return {".", "."};
  size_t first = parts.size() - 1;  // first component within the root
  const auto before = [&](size_t at) { return at > 0 ? parts[at - 1] : fs::path(); };
  while (first > 0 && is_made_in(before(first - 1), parts[first - 1])) --first;
  RunPath result{first == 0 ? fs::path(".") : fs::path(), {}};
  for (size_t at = 0; at < first; ++at) result.root /= parts[at];
  for (size_t at = first; at < parts.size(); ++at) {
    const bool is_best = parts[at] == kBest && before(at) == "checkpoints";
    result.name /= is_best ? resolve_best(result.root / result.name / kBest) : parts[at];
  }
  return result;
}

void check_no_links(const RunPath& within) {
  fs::path so_far = within.root;
  for (const fs::path& part : within.name) {
    so_far /= part;
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(so_far, error))) continue;
    throw std::runtime_error(fmt::format(
        "{} is a symbolic link to {}: links within the folder of a run or a model are not followed; remove it, or move "
        "its target there",
        (within.root == "." ? so_far.lexically_normal() : so_far).string(), fs::read_symlink(so_far, error).string()));
  }
}

}  // namespace modular
