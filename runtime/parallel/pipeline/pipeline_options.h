// Options of a pipeline.
#pragma once

#include <cstdint>
#include <filesystem>
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

/// Reads a schedule from a CSV file in the format of PyTorch's torch.distributed.pipelining: a row of comma-separated
/// cells per rank. Reads cells such as "0F1" (stage, F, I, W or B, micro-batch), "(0F1;3B0)OVERLAP_F_B" (run one after
/// the other) and empty ones (the rank waits). The row of a stage's cells is its rank. Throws std::runtime_error that
/// begins with the file and the location. Does not check whether the schedule can run; see find_problem().
PipelineSchedule read_schedule(const std::filesystem::path& file);

/// Formats a schedule as such a file, without empty cells.
std::string format_schedule(const PipelineSchedule& schedule);

}  // namespace modular
