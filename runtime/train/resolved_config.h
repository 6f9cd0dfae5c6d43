// A run's settings as each rank has resolved them, to be compared before it starts.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/data_sets.h"
#include "runtime/mesh/agreement.h"

namespace modular {

/// Program, libtorch, and all settings of the config; nothing where `ranks` is 1. Files that a setting names, which may
/// have another path on another machine, count by name, size and a sample of their bytes: the program, `sets`, and, if
/// `reads_weights`, those of model.checkpoint where all ranks read them.
ResolvedConfig resolved_config(int64_t ranks, RunConfig config, const std::vector<DataSet>& sets,
                               bool reads_weights = true);

/// Adds files as `key` says.
void add_files(ResolvedConfig& settings, const std::string& key, const std::vector<std::filesystem::path>& files);

}  // namespace modular
