// Row groups of Parquet files: rewritten, and with data.order = "partitions" given to the data-parallel ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/run_datasets.h"

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

/// Chooses data.partitions (`ranks` by default) if data.order is "partitions". Throws ConfigError if it does not divide
/// a set's number of row groups and data.repartition is false, or if the rows cannot be cut into other row groups.
void prepare_partitions(RunConfig& config, const std::vector<RunDataset>& sets, int64_t ranks);

/// Rewrites the files of sets whose number of row groups is not a multiple of the partitions, into a folder of
/// train.dir that appears when it is complete. Keeps an existing folder made from the same files. Returns a warning for
/// each rewritten set. train.dir must exist.
std::vector<std::string> cut_row_groups(const RunConfig& config, const std::vector<RunDataset>& sets);

/// The files to train on: the rewritten files of this set, or its own.
std::vector<DataFile> partitioned_files(const RunConfig& config, const RunDataset& set);

/// With data.order = "partitions", opens the training splits again, as the partitions read them: their number and the
/// rewritten files are known only after the checks before a run. Called by each rank.
void open_partitions(const RunConfig& config, std::vector<RunDataset>& sets);

}  // namespace modular
