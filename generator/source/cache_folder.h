// Where modgen and modcheck keep what they can make again.
#pragma once

#include <filesystem>
#include <optional>

namespace modgen {

/// $XDG_CACHE_HOME/modgen or ~/.cache/modgen; nothing where neither variable is set.
std::optional<std::filesystem::path> cache_folder();

/// A folder of this user's alone below the folder for temporary files, for when the cache cannot be written. Creates
/// it. Throws std::runtime_error where it cannot, or another user has made it.
std::filesystem::path temporary_cache_folder();

}  // namespace modgen
