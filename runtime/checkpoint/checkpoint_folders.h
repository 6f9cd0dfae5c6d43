// The folder of a run's checkpoints: which are complete, the order in which they were saved, and leftovers of
// interrupted saves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace modular {

/// <folder>/step-<step>
std::filesystem::path checkpoint_of_step(const std::filesystem::path& folder, int64_t step);

/// Puts `newest` first in `latest`, before the other complete checkpoints. Removes all of them but the last
/// `keep_last`, `newest` included (0 keeps all), and that of `best_step`, to which the link `best` then points. Removes
/// dangling links.
void list_newest(const std::filesystem::path& folder, const std::filesystem::path& newest, int64_t keep_last,
                 std::optional<int64_t> best_step = {});

/// Cleans up after interrupted saves.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace modular
