// The built-in pipeline schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/pipeline/pipeline_schedule.h"

namespace modular {

/// All forwards, then all backwards (Huang et al., GPipe). Each rank stores every micro-batch.
PipelineSchedule schedule_gpipe(int64_t ranks, int64_t micro_batches);

/// One forward, one backward (Narayanan et al., PipeDream-Flush): rank r runs ranks - 1 - r warm-up forwards, then
/// alternates, so that it stores at most ranks - r micro-batches.
PipelineSchedule schedule_1f1b(int64_t ranks, int64_t micro_batches);

/// 1F1B with several stages per rank (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
/// Using Megatron-LM): groups of `ranks` micro-batches pass through the stages of a rank one after another. `ranks`
/// must divide `micro_batches`.
PipelineSchedule schedule_interleaved(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// All micro-batches pass through a rank's first stage, then all through its next; backwards in reverse order
/// (Lamy-Poirier, Breadth-First Pipeline Parallelism).
PipelineSchedule schedule_looped_bfs(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// Interleaved 1F1B with split backwards: rank r runs its weight backwards r micro-batches late, to fill the bubble (Qi
/// et al., Zero Bubble Pipeline Parallelism, ZB-H1; PyTorch's ScheduleInterleavedZeroBubble). `ranks` must divide
/// `micro_batches`, unless there is one stage per rank.
PipelineSchedule schedule_interleaved_zero_bubble(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// Two stages per rank in a V, with split backwards (Qi et al., Pipeline Parallelism with Controllable Memory, ZB-V;
/// PyTorch's ScheduleZBVZeroBubble). If F, I and W take the same time, a rank is idle only before its first and after
/// its last action.
PipelineSchedule schedule_zbv(int64_t ranks, int64_t micro_batches);

/// Two stages per rank in a V, in the order of DeepSeek's DualPipeV. Its overlapped pairs of a forward and a backward
/// run sequentially here. `micro_batches` must be at least 2 * `ranks`.
PipelineSchedule schedule_dualpipev(int64_t ranks, int64_t micro_batches);

/// A schedule that parallel.schedule can name.
struct KnownSchedule {
  std::string_view name;
  int64_t min_stages, max_stages;  // per rank
  int64_t usual_stages;            // per rank, if stages_per_rank is 0
  bool is_v;                       // placement of stages: V-shaped or looped
  /// Reason why the schedule does not support this number of micro-batches; empty if it does.
  std::string (*error)(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);
  PipelineSchedule (*make)(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);
};

const std::vector<KnownSchedule>& known_schedules();

}  // namespace modular
