// data.order = "partitions": gives each data-parallel rank row groups of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Chooses data.partitions (`ranks` by default) if data.order is "partitions". Throws ConfigError if it does not divide
/// a set's number of row groups and data.repartition is false, or if the rows cannot be cut into other row groups.
void prepare_partitions(RunConfig& config, const std::vector<DataSet>& sets, int64_t ranks);

/// Rewrites the files of sets whose number of row groups is not a multiple of the partitions, into a folder of
/// train.dir that appears when it is complete. Keeps an existing folder made from the same files. Returns a warning for
/// each rewritten set. train.dir must exist.
std::vector<std::string> cut_row_groups(const RunConfig& config, const std::vector<DataSet>& sets);

/// The files to train on: the rewritten files of this set, or its own.
std::vector<DataFile> partitioned_files(const RunConfig& config, const DataSet& set);

}  // namespace modular
