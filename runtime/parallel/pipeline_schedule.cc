#include "runtime/parallel/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

std::string describe(const PipelineAction& action) {
  return fmt::format("{} of micro-batch {}", action.kind == Kind::forward ? "the forward" : "the backward",
                     action.micro_batch);
}

std::vector<int64_t> micro_batches_of(const std::vector<PipelineAction>& actions, Kind kind) {
  std::vector<int64_t> result;
  for (const PipelineAction& action : actions)
    if (action.kind == kind) result.push_back(action.micro_batch);
  return result;
}

bool is_each_once(std::vector<int64_t> micro_batches, int64_t count) {
  std::ranges::sort(micro_batches);
  for (int64_t i = 0; i < static_cast<int64_t>(micro_batches.size()); ++i)
    if (micro_batches[i] != i) return false;
  return static_cast<int64_t>(micro_batches.size()) == count;
}

/// What has been done so far while a schedule is played.
class Play {
 public:
  explicit Play(const PipelineSchedule& schedule)
      : schedule_(schedule), done_(schedule.size()), next_(schedule.size()) {}

  /// Runs what can be run; returns whether anything could.
  bool advance() {
    bool moved = false;
    for (size_t stage = 0; stage < schedule_.size(); ++stage) {
      while (next_[stage] < schedule_[stage].size() && is_ready(stage, schedule_[stage][next_[stage]])) {
        const PipelineAction& action = schedule_[stage][next_[stage]++];
        done_[stage].insert({action.kind == Kind::backward, action.micro_batch});
        moved = true;
      }
    }
    return moved;
  }

  std::string where_stuck() const {
    for (size_t stage = 0; stage < schedule_.size(); ++stage)
      if (next_[stage] < schedule_[stage].size())
        return fmt::format("stage {} waits forever before {}", stage, describe(schedule_[stage][next_[stage]]));
    return {};
  }

 private:
  bool is_done(size_t stage, Kind kind, int64_t micro_batch) const {
    return done_[stage].contains({kind == Kind::backward, micro_batch});
  }
  bool is_ready(size_t stage, const PipelineAction& action) const {
    if (action.kind == Kind::forward) return stage == 0 || is_done(stage - 1, Kind::forward, action.micro_batch);
    return is_done(stage, Kind::forward, action.micro_batch) &&
           (stage + 1 == schedule_.size() || is_done(stage + 1, Kind::backward, action.micro_batch));
  }

  const PipelineSchedule& schedule_;
  std::vector<std::set<std::pair<bool, int64_t>>> done_;
  std::vector<size_t> next_;
};

}  // namespace

PipelineSchedule schedule_1f1b(int64_t stages, int64_t micro_batches) {
  PipelineSchedule schedule;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t ahead = std::min(stages - 1 - stage, micro_batches);
    std::vector<PipelineAction> actions;
    for (int64_t i = 0; i < ahead; ++i) actions.push_back({Kind::forward, i});
    for (int64_t i = ahead; i < micro_batches; ++i) {
      actions.push_back({Kind::forward, i});
      actions.push_back({Kind::backward, i - ahead});
    }
    for (int64_t i = micro_batches - ahead; i < micro_batches; ++i) actions.push_back({Kind::backward, i});
    schedule.push_back(std::move(actions));
  }
  return schedule;
}

PipelineSchedule schedule_forward(int64_t stages, int64_t micro_batches) {
  std::vector<PipelineAction> actions;
  for (int64_t i = 0; i < micro_batches; ++i) actions.push_back({Kind::forward, i});
  return PipelineSchedule(static_cast<size_t>(stages), actions);
}

std::string problem_of(const PipelineSchedule& schedule, int64_t micro_batches) {
  const auto backwards = [](const std::vector<PipelineAction>& actions) {
    return micro_batches_of(actions, Kind::backward);
  };
  const bool trains = std::ranges::any_of(schedule, [&](const auto& actions) { return !backwards(actions).empty(); });
  for (size_t stage = 0; stage < schedule.size(); ++stage) {
    if (!is_each_once(micro_batches_of(schedule[stage], Kind::forward), micro_batches))
      return fmt::format("stage {} does not run the forward of each of {} micro-batches once", stage, micro_batches);
    if (!is_each_once(backwards(schedule[stage]), trains ? micro_batches : 0))
      return fmt::format("stage {} does not run the backward of each of {} micro-batches once", stage, micro_batches);
  }
  for (size_t stage = 1; stage < schedule.size(); ++stage) {
    for (const Kind kind : {Kind::forward, Kind::backward})
      if (micro_batches_of(schedule[stage - 1], kind) != micro_batches_of(schedule[stage], kind))
        return fmt::format("stages {} and {} run their {} in different orders", stage - 1, stage,
                           kind == Kind::forward ? "forwards" : "backwards");
  }
  Play play(schedule);
  while (play.advance()) {
  }
  return play.where_stuck();
}

int64_t most_in_flight(const std::vector<PipelineAction>& actions) {
  int64_t now = 0, most = 0;
  for (const PipelineAction& action : actions) {
    now += action.kind == Kind::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages) {
  const int64_t share = layers / stages, longer = layers % stages;
  const int64_t first = stage * share + std::min(stage, longer);
  return {first, first + share + (stage < longer ? 1 : 0)};
}

}  // namespace modular
