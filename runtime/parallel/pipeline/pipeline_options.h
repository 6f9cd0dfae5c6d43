// Options of a pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/parallel/pipeline/pipeline_schedule.h"

namespace modular {

struct PipelineOptions {
  std::string schedule = "1f1b";   // name in known_schedules(), or a path that ends in .csv
  int64_t stages_per_rank = 0;     // 0: the usual number of the schedule
  std::vector<int64_t> cuts = {};  // first layer of each stage but the first; empty: balanced by cost
};

/// An invalid config key and an error message; both empty if the options are valid.
struct PipelineError {
  std::string key = {};  // "parallel.cuts"
  std::string sentence = {};
};

/// Validates the options for `ranks` pp ranks and steps of `micro_batches` micro-batches, or only for forwards if that
/// is 0.
PipelineError pipeline_error(const PipelineOptions& options, int64_t ranks, int64_t micro_batches);

/// Returns the pp rank of each stage. The options must be valid.
std::vector<int64_t> stage_placement(const PipelineOptions& options, int64_t ranks);

/// Returns the first layer of each stage but the first, for layers of these costs. The options must be valid.
std::vector<int64_t> stage_cuts(const PipelineOptions& options, int64_t ranks, const std::vector<int64_t>& costs);

/// Returns the schedule of a training step. The options must be valid.
PipelineSchedule training_schedule(const PipelineOptions& options, int64_t ranks, int64_t micro_batches);

/// Returns an error if parallel.schedule is neither a known name nor a .csv file; empty otherwise.
std::string unknown_schedule(const std::string& schedule);

/// Whether `schedule` names a file.
bool is_schedule_file(const std::string& schedule);

}  // namespace modular
