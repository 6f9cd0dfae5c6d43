#include "runtime/parallel/pipeline/pipeline_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "runtime/parallel/pipeline/known_schedules.h"
#include "runtime/parallel/pipeline/pipeline_stages.h"

namespace modular {
namespace {

const KnownSchedule* find_known(const std::string& name) {
  const auto found = std::ranges::find(known_schedules(), name, &KnownSchedule::name);
  return found == known_schedules().end() ? nullptr : &*found;
}

int64_t stages_per_rank(const KnownSchedule& known, const PipelineOptions& options) {
  return options.stages_per_rank == 0 ? known.usual_stages : options.stages_per_rank;
}

PipelineError reject_known(const KnownSchedule& known, const PipelineOptions& options, int64_t ranks,
                           int64_t micro_batches) {
  const int64_t stages = stages_per_rank(known, options);
  if (stages < known.min_stages || stages > known.max_stages)
    return {"parallel.stages_per_rank",
            fmt::format("parallel.stages_per_rank is {}, but {} has {}{} {} per rank: set it to {}, or to 0", stages,
                        known.name, known.max_stages > known.min_stages ? "at least " : "", known.min_stages,
                        known.min_stages == 1 ? "stage" : "stages", known.usual_stages)};
  if (stages > kMaxStages / ranks)
    return {"parallel.stages_per_rank",
            fmt::format("parallel.stages_per_rank is {}, but a pipeline has at most {} stages in total: lower it",
                        stages, kMaxStages)};
  if (micro_batches == 0) return {};
  if (const std::string reason = known.error(ranks, stages, micro_batches); !reason.empty())
    return {"parallel.schedule", fmt::format("parallel.schedule: {} {}", known.name, reason)};
  return {};
}

PipelineError reject_file(const PipelineOptions& options, int64_t ranks, int64_t micro_batches) {
  const std::string& file = options.schedule;
  const auto reject = [](const std::string& sentence) { return PipelineError{"parallel.schedule", sentence}; };
  PipelineSchedule schedule;
  try {
    schedule = read_schedule(file);
  } catch (const std::runtime_error& error) {
    return reject(error.what());
  }
  if (options.stages_per_rank != 0)
    return {"parallel.stages_per_rank",
            fmt::format("parallel.stages_per_rank is {}, but {} defines which stages are on a rank: set it to 0",
                        options.stages_per_rank, file)};
  if (const auto rows = static_cast<int64_t>(schedule.ranks.size()); rows != ranks)
    return reject(
        fmt::format("parallel.schedule: {} has rows for {} ranks, but parallel.pp is {}: set parallel.pp to "
                    "{}, or choose another schedule",
                    file, rows, ranks, rows));
  if (micro_batches == 0) {  // forwards only; the file defines the placement of stages
    const std::string problem = find_problem(schedule_forward(schedule.stage_ranks, ranks, 0), 0, /*trains=*/false);
    return problem.empty() ? PipelineError() : reject(fmt::format("parallel.schedule: {}: {}", file, problem));
  }
  if (const std::string problem = find_problem(schedule, micro_batches); !problem.empty())
    return reject(
        fmt::format("parallel.schedule: {} cannot run with train.micro_batches = {}, because {}: correct the "
                    "file or train.micro_batches",
                    file, micro_batches, problem));
  return {};
}

}  // namespace

std::string unknown_schedule(const std::string& schedule) {
  if (find_known(schedule) || is_schedule_file(schedule)) return {};
  std::vector<std::string_view> names;
  for (const KnownSchedule& known : known_schedules()) names.push_back(known.name);
  return fmt::format("parallel.schedule is \"{}\": it must be one of {}, or a path that ends in .csv", schedule,
                     fmt::join(names, ", "));
}

bool is_schedule_file(const std::string& schedule) { return schedule.ends_with(".csv"); }

PipelineError pipeline_error(const PipelineOptions& options, int64_t ranks, int64_t micro_batches) {
  const KnownSchedule* const known = find_known(options.schedule);
  if (std::string sentence = unknown_schedule(options.schedule); !sentence.empty())
    return {"parallel.schedule", std::move(sentence)};
  const std::vector<int64_t>& cuts = options.cuts;
  if (ranks == 1) {
    if (options.stages_per_rank > 1)
      return {
          "parallel.stages_per_rank",
          fmt::format("parallel.stages_per_rank is {}, but parallel.pp is 1: set it to 0", options.stages_per_rank)};
    if (cuts.empty()) return {};
    return {"parallel.cuts", "parallel.cuts sets stage boundaries, but parallel.pp is 1: leave it empty"};
  }
  PipelineError error =
      known ? reject_known(*known, options, ranks, micro_batches) : reject_file(options, ranks, micro_batches);
  if (!error.sentence.empty() || cuts.empty()) return error;

  const int64_t stages = static_cast<int64_t>(stage_placement(options, ranks).size());
  if (static_cast<int64_t>(cuts.size()) != stages - 1)
    return {"parallel.cuts",
            fmt::format("parallel.cuts is [{}], but parallel.pp and parallel.schedule make {} stages: give the {} "
                        "first layers of the later stages",
                        fmt::join(cuts, ", "), stages, stages - 1)};
  if (cuts.front() < 1 || std::ranges::adjacent_find(cuts, std::greater_equal<>()) != cuts.end())
    return {"parallel.cuts", fmt::format("parallel.cuts is [{}], which makes a stage without layers: write ascending "
                                         "numbers of at least 1",
                                         fmt::join(cuts, ", "))};
  return {};
}

std::vector<int64_t> stage_placement(const PipelineOptions& options, int64_t ranks) {
  const KnownSchedule* const known = find_known(options.schedule);
  if (!known) return read_schedule(options.schedule).stage_ranks;
  return known->is_v ? v_shaped_stages(ranks) : looped_stages(ranks, stages_per_rank(*known, options));
}

std::vector<int64_t> stage_cuts(const PipelineOptions& options, int64_t ranks, const std::vector<int64_t>& costs) {
  if (!options.cuts.empty()) return options.cuts;
  return balanced_cuts(costs, static_cast<int64_t>(stage_placement(options, ranks).size()));
}

PipelineSchedule training_schedule(const PipelineOptions& options, int64_t ranks, int64_t micro_batches) {
  if (const KnownSchedule* const known = find_known(options.schedule))
    return known->make(ranks, stages_per_rank(*known, options), micro_batches);
  return read_schedule(options.schedule);
}

}  // namespace modular
