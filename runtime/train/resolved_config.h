// The resolved config of each rank, to be compared before the run starts.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/mesh/agreement.h"

namespace modular {

/// Program, libtorch, and all config values; empty if `ranks` is 1. Files whose path may differ between machines are
/// compared by name, size and a sample of their bytes: the program, `sets` and, if `reads_weights`, those of
/// model.checkpoint if all ranks read them.
ResolvedConfig resolved_config(int64_t ranks, RunConfig config, const std::vector<RunDataset>& sets,
                               bool reads_weights = true);

/// Adds descriptions of files under `key`.
void add_files(ResolvedConfig& settings, const std::string& key, const std::vector<std::filesystem::path>& files);

}  // namespace modular
