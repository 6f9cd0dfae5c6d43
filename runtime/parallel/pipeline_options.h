// The settings of a pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/parallel/pipeline_schedule.h"

namespace modular {

struct PipelineOptions {
  std::string schedule = "1f1b";   // a name of known_schedules(), or a path that ends in .csv
  int64_t stages_per_rank = 0;     // 0: as many as the schedule usually has
  std::vector<int64_t> cuts = {};  // which element of the list begins each stage but the first; empty: by cost
};

/// A setting that cannot be, and why. Both are empty where there is none.
struct PipelineError {
  std::string key = {};  // "parallel.cuts"
  std::string sentence = {};
};

/// Checks the options on `ranks` pp ranks, for steps of so many micro-batches, or for forwards alone where that is 0.
PipelineError pipeline_error(const PipelineOptions& options, int64_t ranks, int64_t micro_batches);

/// The pp rank of each stage. The options were checked.
std::vector<int64_t> stage_placement(const PipelineOptions& options, int64_t ranks);

/// Where the stages but the first begin, of layers of such costs. The options were checked.
std::vector<int64_t> stage_cuts(const PipelineOptions& options, int64_t ranks, const std::vector<int64_t>& costs);

/// The schedule of a training step. The options were checked.
PipelineSchedule training_schedule(const PipelineOptions& options, int64_t ranks, int64_t micro_batches);

/// Says that parallel.schedule is neither a known name nor a .csv file; empty where it is.
std::string unknown_schedule(const std::string& schedule);

/// Whether it names a file.
bool is_schedule_file(const std::string& schedule);

}  // namespace modular
