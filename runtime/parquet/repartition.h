// Parquet files cut into other row groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace modular {

/// Writes each file again, under its own name and with all of its columns, into the new folder `out`, in row groups of
/// `rows`, of which each file's last may have fewer. The folder appears when it is complete. Calls `done` with how many
/// files are. Throws std::runtime_error where `out` exists, two files have one name, or a file cannot
/// be read.
void repartition(const std::vector<std::filesystem::path>& files, int64_t rows, const std::filesystem::path& out,
                 const std::function<void(size_t)>& done);

/// How many row groups files of so many rows have when they are cut into ones of `rows`.
int64_t row_groups(std::span<const int64_t> rows_of_files, int64_t rows);

/// A size of row groups with which their number is a multiple of `parts`, as large as halves, thirds and so on of a
/// file allow; nothing where there is none.
std::optional<int64_t> rows_for_parts(std::span<const int64_t> rows_of_files, int64_t parts);

}  // namespace modular
