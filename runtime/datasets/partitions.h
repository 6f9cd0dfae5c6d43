// data.order = "partitions": as many row groups as each data-parallel rank can draw from its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Chooses data.partitions, `ranks` where it is not given, for a config that has that order. Throws ConfigError where
/// they do not divide the number of a set's row groups and data.repartition is not set, or where no other row groups
/// would do.
void prepare_partitions(RunConfig& config, const std::vector<DataSet>& sets, int64_t ranks);

/// Cuts the files of those sets again whose row groups the partitions do not divide, in a folder of train.dir that
/// appears when it is complete; one that is there and of the same files is kept. Returns a warning for each that was
/// cut. train.dir exists.
std::vector<std::string> cut_row_groups(const RunConfig& config, const std::vector<DataSet>& sets);

/// The files to train on: those that were cut for this set, or its own.
std::vector<DataFile> partitioned_files(const RunConfig& config, const DataSet& set);

}  // namespace modular
