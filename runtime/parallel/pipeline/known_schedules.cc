#include "runtime/parallel/pipeline/known_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

/// Builds the actions of one rank. Each stage processes its micro-batches in order.
class RankActions {
 public:
  void forward(int64_t stage) { actions_.push_back({Kind::forward, stage, forwards_[stage]++}); }
  void backward(int64_t stage) { actions_.push_back({Kind::backward, stage, backwards_[stage]++}); }
  void backward_input(int64_t stage) {
    actions_.push_back({Kind::backward_input, stage, backwards_[stage]++});
    weights_.emplace_back(actions_.back());
  }
  /// Appends the W of the oldest I that has none yet.
  void backward_weight() { write_weight(weights_.begin()); }
  /// Appends the W of the oldest such I of `stage`.
  void backward_weight(int64_t stage) { write_weight(std::ranges::find(weights_, stage, &PipelineAction::stage)); }
  bool lacks_weights() const { return !weights_.empty(); }
  int64_t forwards(int64_t stage) { return forwards_[stage]; }

  /// Returns the actions without those of micro-batches >= `micro_batches`.
  std::vector<PipelineAction> take(int64_t micro_batches) {
    std::erase_if(actions_, [=](const PipelineAction& action) { return action.micro_batch >= micro_batches; });
    return std::move(actions_);
  }

 private:
  void write_weight(std::deque<PipelineAction>::iterator input) {
    actions_.push_back({Kind::backward_weight, input->stage, input->micro_batch});
    weights_.erase(input);
  }

  std::vector<PipelineAction> actions_;
  std::map<int64_t, int64_t> forwards_, backwards_;  // by stage: the next micro-batch
  std::deque<PipelineAction> weights_;               // I whose W has not been appended
};

/// Order of stages on a rank of an interleaved schedule: groups of `ranks` micro-batches pass through its stages, in
/// the forward from the first, in the backward from the last.
struct InterleavedOrder {
  int64_t rank, ranks, stages_per_rank;

  int64_t forward(int64_t number) const { return number / ranks % stages_per_rank * ranks + rank; }
  int64_t backward(int64_t number) const {
    return (stages_per_rank - 1 - number / ranks % stages_per_rank) * ranks + rank;
  }
};

std::string always_fits(int64_t, int64_t, int64_t) { return {}; }

std::string unless_divisible(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches) {
  if (stages_per_rank == 1 || micro_batches % ranks == 0) return {};
  return fmt::format(
      "needs a number of micro-batches that is a multiple of pp = {}, but train.micro_batches is {}: set it to {}, or "
      "choose another schedule",
      ranks, micro_batches, (micro_batches / ranks + 1) * ranks);
}

std::string unless_enough(int64_t ranks, int64_t, int64_t micro_batches) {
  if (micro_batches >= 2 * ranks) return {};
  return fmt::format(
      "needs at least {} micro-batches with pp = {}, but train.micro_batches is {}: raise it, or choose another "
      "schedule",
      2 * ranks, ranks, micro_batches);
}

}  // namespace

PipelineSchedule schedule_gpipe(int64_t ranks, int64_t micro_batches) {
  PipelineSchedule schedule{looped_stages(ranks, 1), {}};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    RankActions actions;
    for (int64_t i = 0; i < micro_batches; ++i) actions.forward(rank);
    for (int64_t i = 0; i < micro_batches; ++i) actions.backward(rank);
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_1f1b(int64_t ranks, int64_t micro_batches) {
  PipelineSchedule schedule{looped_stages(ranks, 1), {}};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t ahead = std::min(ranks - 1 - rank, micro_batches);
    RankActions actions;
    for (int64_t i = 0; i < ahead; ++i) actions.forward(rank);
    for (int64_t i = ahead; i < micro_batches; ++i) {
      actions.forward(rank);
      actions.backward(rank);
    }
    for (int64_t i = 0; i < ahead; ++i) actions.backward(rank);
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_interleaved(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches) {
  PipelineSchedule schedule{looped_stages(ranks, stages_per_rank), {}};
  const int64_t all = stages_per_rank * micro_batches;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const InterleavedOrder order{rank, ranks, stages_per_rank};
    const int64_t ahead = std::min((stages_per_rank - 1) * ranks + 2 * (ranks - 1 - rank), all);
    RankActions actions;
    for (int64_t i = 0; i < ahead; ++i) actions.forward(order.forward(i));
    for (int64_t i = ahead; i < all; ++i) {
      actions.forward(order.forward(i));
      actions.backward(order.backward(i - ahead));
    }
    for (int64_t i = all - ahead; i < all; ++i) actions.backward(order.backward(i));
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_looped_bfs(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches) {
  PipelineSchedule schedule{looped_stages(ranks, stages_per_rank), {}};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    RankActions actions;
    for (int64_t loop = 0; loop < stages_per_rank; ++loop)
      for (int64_t i = 0; i < micro_batches; ++i) actions.forward(loop * ranks + rank);
    for (int64_t loop = stages_per_rank; loop-- > 0;)
      for (int64_t i = 0; i < micro_batches; ++i) actions.backward(loop * ranks + rank);
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_interleaved_zero_bubble(int64_t ranks, int64_t stages_per_rank, int64_t micro_batches) {
  PipelineSchedule schedule{looped_stages(ranks, stages_per_rank), {}};
  const int64_t all = stages_per_rank * micro_batches;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const InterleavedOrder order{rank, ranks, stages_per_rank};
    const int64_t ahead = std::min((stages_per_rank - 1) * ranks + ranks - 1 - rank, all);
    RankActions actions;
    for (int64_t i = 0; i < ahead; ++i) actions.forward(order.forward(i));
    for (int64_t i = 0; i < all; ++i) {
      if (ahead + i < all) actions.forward(order.forward(ahead + i));
      actions.backward_input(order.backward(i));
      if (i >= rank) actions.backward_weight();
    }
    while (actions.lacks_weights()) actions.backward_weight();
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_zbv(int64_t ranks, int64_t micro_batches) {
  PipelineSchedule schedule{v_shaped_stages(ranks), {}};
  // Builds the order for a step that fills the pipeline; take() drops the micro-batches that a smaller step does not
  // have.
  const int64_t full = std::max(micro_batches, 2 * ranks - 1);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t there = rank, back = 2 * ranks - 1 - rank;
    RankActions actions;
    const auto full_backward = [&](int64_t stage) {
      actions.backward_input(stage);
      actions.backward_weight(stage);
    };
    for (int64_t i = 0; i < 2 * (ranks - rank) - 1; ++i) actions.forward(there);
    for (int64_t i = 0; i < rank; ++i) {
      actions.forward(back);
      actions.forward(there);
    }
    for (int64_t i = 0; i < ranks - rank; ++i) {
      actions.forward(back);
      full_backward(back);
    }
    while (actions.forwards(back) < full) {
      if (actions.forwards(there) < full) actions.forward(there);
      full_backward(there);
      actions.forward(back);
      full_backward(back);
    }
    for (int64_t i = 0; i < rank; ++i) {
      actions.backward_input(there);
      actions.backward_input(back);
    }
    for (int64_t i = 0; i < ranks - rank; ++i) {
      actions.backward_input(there);
      actions.backward_weight(there);
    }
    for (int64_t i = 0; i < rank; ++i) actions.backward_weight(back);
    while (actions.lacks_weights()) actions.backward_weight();
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

PipelineSchedule schedule_dualpipev(int64_t ranks, int64_t micro_batches) {
  PipelineSchedule schedule{v_shaped_stages(ranks), {}};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t there = rank, back = 2 * ranks - 1 - rank, after = ranks - 1 - rank;
    RankActions actions;
    for (int64_t i = 0; i < 2 * after; ++i) actions.forward(there);
    for (int64_t i = 0; i <= rank; ++i) {
      actions.forward(there);
      actions.forward(back);
    }
    for (int64_t i = 0; i < after; ++i) {
      actions.backward_input(back);
      actions.backward_weight();
      actions.forward(back);
    }
    for (int64_t i = 0; i < micro_batches - ranks - after; ++i) {
      actions.forward(there);
      actions.backward(back);
      actions.forward(back);
      actions.backward(there);
    }
    for (int64_t i = 0; i < after; ++i) {
      actions.backward(back);
      actions.forward(back);
      actions.backward(there);
    }
    // The second half of the remaining backwards is split, and their W fill the bubble until the previous ranks are
    // done.
    bool cut = false;
    const auto backward = [&](int64_t stage) {
      if (cut)
        actions.backward_input(stage);
      else
        actions.backward(stage);
    };
    const int64_t left = rank + 1;
    for (int64_t i = 0; i < left; ++i) {
      cut |= i == left / 2 && rank % 2 == 1;
      backward(back);
      cut |= i == left / 2 && rank % 2 == 0;
      backward(there);
    }
    for (int64_t i = 0; i < after; ++i) {
      if (actions.lacks_weights()) actions.backward_weight();
      backward(there);
    }
    while (actions.lacks_weights()) actions.backward_weight();
    schedule.ranks.push_back(actions.take(micro_batches));
  }
  return schedule;
}

const std::vector<KnownSchedule>& known_schedules() {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  static const std::vector<KnownSchedule> known = {
      {"gpipe", 1, 1, 1, false, always_fits, [](int64_t p, int64_t, int64_t m) { return schedule_gpipe(p, m); }},
      {"1f1b", 1, 1, 1, false, always_fits, [](int64_t p, int64_t, int64_t m) { return schedule_1f1b(p, m); }},
      {"interleaved", 2, kAny, 2, false, unless_divisible, schedule_interleaved},
      {"looped-bfs", 2, kAny, 2, false, always_fits, schedule_looped_bfs},
      {"interleaved-zero-bubble", 1, kAny, 2, false, unless_divisible, schedule_interleaved_zero_bubble},
      {"zbv", 2, 2, 2, true, always_fits, [](int64_t p, int64_t, int64_t m) { return schedule_zbv(p, m); }},
      {"dualpipev", 2, 2, 2, true, unless_enough,
       [](int64_t p, int64_t, int64_t m) { return schedule_dualpipev(p, m); }},
  };
  return known;
}

}  // namespace modular
