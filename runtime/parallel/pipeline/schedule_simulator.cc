#include "runtime/parallel/pipeline/schedule_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace modular {
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
