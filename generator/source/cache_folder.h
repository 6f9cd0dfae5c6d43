// Cache folders of modgen and modcheck.
#pragma once

#include <filesystem>
#include <optional>

namespace modgen {

/// $XDG_CACHE_HOME/modgen or ~/.cache/modgen; nullopt if neither XDG_CACHE_HOME nor HOME is set.
std::optional<std::filesystem::path> cache_folder();

/// Creates a folder that only this user can write to, below the folder for temporary files, for use when the cache is
/// not writable. Throws std::runtime_error if it cannot, or if another user owns the folder.
std::filesystem::path temporary_cache_folder();

}  // namespace modgen
