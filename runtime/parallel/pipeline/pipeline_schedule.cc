#include "runtime/parallel/pipeline/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

/// Stage and micro-batch of the values that pass between two ranks, in order. A value is named by the stage that
/// produces it.
using Messages = std::vector<std::pair<int64_t, int64_t>>;

struct Traffic {
  // By (is gradient, from rank, to rank).
  std::map<std::tuple<bool, int64_t, int64_t>, Messages> sent, received;
};

Traffic count_traffic(const PipelineSchedule& schedule) {
  Traffic traffic;
  for (int64_t rank = 0; rank < static_cast<int64_t>(schedule.ranks.size()); ++rank) {
    const auto pass = [&](auto& messages, int64_t peer_stage, bool gradient, bool sends, const PipelineAction& action) {
      if (peer_stage < 0 || peer_stage >= schedule.stages()) return;
      const int64_t peer = schedule.stage_ranks[static_cast<size_t>(peer_stage)];
      if (peer == rank) return;
      messages[{gradient, sends ? rank : peer, sends ? peer : rank}].emplace_back(sends ? action.stage : peer_stage,
                                                                                  action.micro_batch);
    };
    for (const PipelineAction& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (action.kind == Kind::backward_weight) continue;
      const bool gradient = passes_gradient(action.kind);
      const int64_t before = action.stage - 1, after = action.stage + 1;
      pass(traffic.received, gradient ? after : before, gradient, false, action);
      pass(traffic.sent, gradient ? before : after, gradient, true, action);
    }
  }
  return traffic;
}

std::string misplaced(const PipelineSchedule& schedule, int64_t micro_batches) {
  const auto ranks = static_cast<int64_t>(schedule.ranks.size());
  for (int64_t stage = 0; stage < schedule.stages(); ++stage)
    if (const int64_t rank = schedule.stage_ranks[static_cast<size_t>(stage)]; rank < 0 || rank >= ranks)
      return fmt::format("stage {} is on rank {} of {}", stage, rank, ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (std::ranges::find(schedule.stage_ranks, rank) == schedule.stage_ranks.end())
      return fmt::format("rank {} has no stage", rank);
    for (const PipelineAction& action : schedule.ranks[static_cast<size_t>(rank)]) {
      if (action.stage < 0 || action.stage >= schedule.stages())
        return fmt::format("{} names a stage that does not exist", format_cell(action));
      if (const int64_t own = schedule.stage_ranks[static_cast<size_t>(action.stage)]; own != rank)
        return fmt::format("{} is listed for rank {}, but its stage is on rank {}", format_cell(action), rank, own);
      if (action.micro_batch < 0 || action.micro_batch >= micro_batches)
        return fmt::format("{} names a micro-batch that a step of {} does not have", format_cell(action),
                           micro_batches);
    }
  }
  return {};
}

/// Returns an error that names a stage with a missing or duplicate action.
std::string miscounted(const PipelineSchedule& schedule, int64_t micro_batches, bool trains) {
  // By (stage, kind, micro-batch).
  std::map<std::tuple<int64_t, Kind, int64_t>, int64_t> counts;
  for (const auto& actions : schedule.ranks)
    for (const PipelineAction& action : actions) ++counts[{action.stage, action.kind, action.micro_batch}];
  for (int64_t stage = 0; stage < schedule.stages(); ++stage)
    for (int64_t i = 0; i < micro_batches; ++i) {
      const auto count = [&](Kind kind) {
        const auto found = counts.find({stage, kind, i});
        return found == counts.end() ? 0 : found->second;
      };
      if (count(Kind::forward) != 1)
        return fmt::format("stage {} does not run the forward of each of {} micro-batches once", stage, micro_batches);
      const int64_t full = count(Kind::backward), inputs = count(Kind::backward_input),
                    weights = count(Kind::backward_weight);
      if (full + inputs != (trains ? 1 : 0) || inputs != weights)
        return trains ? fmt::format("stage {} does not run the backward of each of {} micro-batches once{}", stage,
                                    micro_batches, inputs + weights > 0 ? ", as B or as I and W" : "")
                      : fmt::format("stage {} runs a backward in a forward-only schedule", stage);
    }
  return {};
}

}  // namespace

std::string format_cell(const PipelineAction& action) {
  return fmt::format("{}{}{}", action.stage, "FIWB"[static_cast<size_t>(action.kind)], action.micro_batch);
}

std::vector<int64_t> looped_stages(int64_t ranks, int64_t stages_per_rank) {
  std::vector<int64_t> stage_ranks;
  for (int64_t stage = 0; stage < ranks * stages_per_rank; ++stage) stage_ranks.push_back(stage % ranks);
  return stage_ranks;
}

std::vector<int64_t> v_shaped_stages(int64_t ranks) {
  std::vector<int64_t> stage_ranks;
  for (int64_t stage = 0; stage < 2 * ranks; ++stage) stage_ranks.push_back(std::min(stage, 2 * ranks - 1 - stage));
  return stage_ranks;
}

PipelineSchedule schedule_forward(const std::vector<int64_t>& stage_ranks, int64_t ranks, int64_t micro_batches) {
  PipelineSchedule schedule{stage_ranks, {}};
  schedule.ranks.resize(static_cast<size_t>(ranks));
  for (int64_t first = 0; first < micro_batches; first += ranks)
    for (int64_t stage = 0; stage < schedule.stages(); ++stage)
      for (int64_t i = first; i < std::min(first + ranks, micro_batches); ++i)
        schedule.ranks[static_cast<size_t>(stage_ranks[static_cast<size_t>(stage)])].push_back(
            {Kind::forward, stage, i});
  return schedule;
}

std::string find_problem(const PipelineSchedule& schedule, int64_t micro_batches, bool trains) {
  if (std::string problem = misplaced(schedule, micro_batches); !problem.empty()) return problem;
  if (std::string problem = miscounted(schedule, micro_batches, trains); !problem.empty()) return problem;
  const Traffic traffic = count_traffic(schedule);
  for (const auto& [channel, sent] : traffic.sent) {
    const auto [gradient, from, to] = channel;
    const Messages& received = traffic.received.at(channel);
    const auto differs = std::ranges::mismatch(sent, received);
    if (differs.in1 != sent.end())
      return fmt::format(
          "rank {} sends the {} of stage {} and micro-batch {} where rank {} expects those of stage {} and micro-batch "
          "{}",
          from, gradient ? "gradients" : "activations", differs.in1->first, differs.in1->second, to, differs.in2->first,
          differs.in2->second);
  }
  return simulate(schedule).stuck;
}

namespace {

using Kind = PipelineAction::Kind;

std::string describe(const PipelineAction& action) {
  constexpr const char* kNames[] = {"the forward", "the backward of inputs", "the backward of weights", "the backward"};
  return fmt::format("{} of micro-batch {}", kNames[static_cast<size_t>(action.kind)], action.micro_batch);
}

class Simulator {
 public:
  Simulator(const PipelineSchedule& schedule, const ActionTimes& times)
      : schedule_(schedule), times_(times), next_(schedule.ranks.size()), free_at_(schedule.ranks.size()) {
    int64_t micro_batches = 0;
    for (const auto& actions : schedule.ranks)
      for (const PipelineAction& action : actions) micro_batches = std::max(micro_batches, action.micro_batch + 1);
    for (auto* ends : {&simulation_.forward_ends, &simulation_.backward_ends})
      ends->assign(schedule.stage_ranks.size(), std::vector<double>(static_cast<size_t>(micro_batches), kNever));
    simulation_.starts.resize(schedule.ranks.size());
  }

  Simulation run() {
    while (advance()) {
    }
    double busy = 0.0;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& actions = schedule_.ranks[rank];
      if (next_[rank] < actions.size() && simulation_.stuck.empty())
        simulation_.stuck =
            fmt::format("stage {} waits forever before {}", actions[next_[rank]].stage, describe(actions[next_[rank]]));
      for (const PipelineAction& action : actions) busy += times_.of(action.kind);
      simulation_.time = std::max(simulation_.time, free_at_[rank]);
      simulation_.most_stored.push_back(most_stored(actions));
    }
    if (simulation_.time > 0.0)
      simulation_.idle_fraction = 1.0 - busy / (simulation_.time * static_cast<double>(schedule_.ranks.size()));
    return std::move(simulation_);
  }

 private:
  static constexpr double kNever = -1.0;

  static int64_t most_stored(const std::vector<PipelineAction>& actions) {
    int64_t now = 0, most = 0;
    for (const PipelineAction& action : actions) {
      if (action.kind == Kind::forward) most = std::max(most, ++now);
      if (action.kind == Kind::backward || action.kind == Kind::backward_weight) --now;
    }
    return most;
  }

  /// Runs all actions that are ready; returns whether there were any.
  bool advance() {
    bool moved = false;
    for (size_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      const auto& actions = schedule_.ranks[rank];
      for (; next_[rank] < actions.size(); ++next_[rank]) {
        const PipelineAction& action = actions[next_[rank]];
        const auto ready = ready_at(action);
        if (!ready) break;
        const double start = std::max(free_at_[rank], *ready), end = start + times_.of(action.kind);
        simulation_.starts[rank].push_back(start);
        free_at_[rank] = end;
        const auto stage = static_cast<size_t>(action.stage), index = static_cast<size_t>(action.micro_batch);
        if (action.kind == Kind::forward) simulation_.forward_ends[stage][index] = end;
        if (passes_gradient(action.kind)) simulation_.backward_ends[stage][index] = end;
        moved = true;
      }
    }
    return moved;
  }

  /// Time at which the dependencies of the action are done; nullopt if they are not yet.
  std::optional<double> ready_at(const PipelineAction& action) const {
    const auto stage = static_cast<size_t>(action.stage), index = static_cast<size_t>(action.micro_batch);
    double ready = 0.0;
    const auto wait = [&](const std::vector<std::vector<double>>& ends, size_t dependency) {
      const double end = ends[dependency][index];
      if (end == kNever || ready == kNever)
        ready = kNever;
      else
        ready = std::max(ready, end);
    };
    if (action.kind == Kind::forward) {
      if (stage > 0) wait(simulation_.forward_ends, stage - 1);
    } else if (action.kind == Kind::backward_weight) {
      wait(simulation_.backward_ends, stage);
    } else {
      wait(simulation_.forward_ends, stage);
      if (stage + 1 < schedule_.stage_ranks.size()) wait(simulation_.backward_ends, stage + 1);
    }
    return ready == kNever ? std::nullopt : std::optional(ready);
  }

  const PipelineSchedule& schedule_;
  const ActionTimes& times_;
  std::vector<size_t> next_;     // by rank
  std::vector<double> free_at_;  // by rank
  Simulation simulation_;
};

}  // namespace

double ActionTimes::of(PipelineAction::Kind kind) const {
  switch (kind) {
    case Kind::forward:
      return forward;
    case Kind::backward_input:
      return backward_input;
    case Kind::backward_weight:
      return backward_weight;
    case Kind::backward:
      return backward;
  }
  return 0.0;
}

Simulation simulate(const PipelineSchedule& schedule, const ActionTimes& times) {
  return Simulator(schedule, times).run();
}

}  // namespace modular
