// Rewrites Parquet files with other row groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace modular {

/// Rewrites each file, under its own name and with all columns, into the new folder `out` in row groups of `rows`. Each
/// file's last row group may have fewer. The folder appears once it is complete. Calls `done` with the number of
/// completed files. Throws std::runtime_error if `out` exists, two files have the same name, or a file cannot be read.
void repartition(const std::vector<std::filesystem::path>& files, int64_t rows, const std::filesystem::path& out,
                 const std::function<void(size_t)>& done);

/// Number of row groups of files with `rows_of_files` rows, in row groups of `rows`.
int64_t row_groups(std::span<const int64_t> rows_of_files, int64_t rows);

/// Returns the largest row group size, among even divisions of a file, for which the number of row groups is a multiple
/// of `parts`; nullopt if there is none.
std::optional<int64_t> rows_for_parts(std::span<const int64_t> rows_of_files, int64_t parts);

}  // namespace modular
