// Pipeline schedules in files, in the form of PyTorch's torch.distributed.pipelining: a row of comma-separated cells
// for each rank.
#pragma once

#include <filesystem>

#include "runtime/parallel/pipeline_schedule.h"

namespace modular {

/// Reads cells like "0F1" (stage, F, I, W or B, micro-batch), "(0F1;3B0)OVERLAP_F_B" (one after the other) and empty
/// ones (the rank waits). Which stages lie on a rank follows from its row. Throws std::runtime_error
/// that begins with the file and the place; whether the schedule can run, find_problem() says.
PipelineSchedule read_schedule(const std::filesystem::path& file);

/// The same as text, without empty cells.
std::string format_schedule(const PipelineSchedule& schedule);

}  // namespace modular
