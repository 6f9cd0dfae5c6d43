// The pipeline schedules that have names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/pipeline_schedule.h"

namespace modular {

/// All forwards, then all backwards (Huang et al., GPipe). Each rank stores every micro-batch.
PipelineSchedule schedule_gpipe(int64_t ranks, int64_t micro_batches);

/// One forward, one backward (Narayanan et al., PipeDream-Flush): rank r runs ranks - 1 - r forwards ahead, then
/// alternates, so that it never stores more than ranks - r micro-batches.
PipelineSchedule schedule_1f1b(int64_t ranks, int64_t micro_batches);

/// 1F1B with several stages per rank (Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
/// Using Megatron-LM): `ranks` micro-batches pass through a rank's stages in turn. `ranks` divides `micro_batches`.
PipelineSchedule schedule_interleaved(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// All micro-batches through a rank's first stage, then all through its next, and back (Lamy-Poirier, Breadth-First
/// Pipeline Parallelism).
PipelineSchedule schedule_looped_bfs(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// Interleaved with the backwards cut in two: rank r runs its backwards of weights r late, where others wait (Qi et
/// al., Zero Bubble Pipeline Parallelism, ZB-H1; PyTorch's ScheduleInterleavedZeroBubble). `ranks` divides
/// `micro_batches`, unless there is one stage a rank.
PipelineSchedule schedule_interleaved_zero_bubble(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);

/// Two stages per rank as a V, with the backwards cut in two (Qi et al., Pipeline Parallelism with Controllable Memory,
/// ZB-V; PyTorch's ScheduleZBVZeroBubble). Where F, I and W take the same time, a rank waits only before its first
/// action and after its last.
PipelineSchedule schedule_zbv(int64_t ranks, int64_t micro_batches);

/// Two stages per rank as a V, in the order of DeepSeek's DualPipeV, whose pairs of a forward and a backward run one
/// after the other here. `micro_batches` is at least 2 * `ranks`.
PipelineSchedule schedule_dualpipev(int64_t ranks, int64_t micro_batches);

/// A schedule that a setting can name.
struct KnownSchedule {
  std::string_view name;
  int64_t least_stages, most_stages;  // a rank
  int64_t usual_stages;               // a rank, where nothing else is asked for
  bool is_v;                          // how stages are placed
  /// Why the schedule cannot be made for so many micro-batches; empty where it can.
  std::string (*error)(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);
  PipelineSchedule (*make)(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches);
};

const std::vector<KnownSchedule>& known_schedules();

}  // namespace modular
