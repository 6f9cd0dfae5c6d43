// The folder of a run's checkpoints: which are complete, in which order they were saved, and what interrupted saves
// left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace modular {

/// <folder>/step-<step>
std::filesystem::path checkpoint_of_step(const std::filesystem::path& folder, int64_t step);

/// Puts `newest` first in `latest`, before the other complete checkpoints, and removes all of those but the last
/// `keep_last` with it (0 keeps all) and that of `best_step`, to which the link `best` then leads; a link that
/// leads nowhere is removed.
void list_newest(const std::filesystem::path& folder, const std::filesystem::path& newest, int64_t keep_last,
                 std::optional<int64_t> best_step = {});

/// Mends what saves that were interrupted left.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace modular
