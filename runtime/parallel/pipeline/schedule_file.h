// Pipeline schedules in CSV files, in the format of PyTorch's torch.distributed.pipelining: a row of comma-separated
// cells per rank.
#pragma once

#include <filesystem>

#include "runtime/parallel/pipeline/pipeline_schedule.h"

namespace modular {

/// Reads cells such as "0F1" (stage, F, I, W or B, micro-batch), "(0F1;3B0)OVERLAP_F_B" (run one after the other) and
/// empty ones (the rank waits). The row of a stage's cells is its rank. Throws std::runtime_error that begins with the
/// file and the location. Does not check whether the schedule can run; see find_problem().
PipelineSchedule read_schedule(const std::filesystem::path& file);

/// Formats a schedule as such a file, without empty cells.
std::string format_schedule(const PipelineSchedule& schedule);

}  // namespace modular
