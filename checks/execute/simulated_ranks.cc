#include "checks/execute/simulated_ranks.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checks/execute/contract_in_double.h"

namespace modular::execute {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::chrono::seconds kLongestWait{20};  // ranks that wait for each other in different groups never meet

/// Tensors of one group's ranks, for a collective.
class Meeting {
 public:
  explicit Meeting(int64_t size) : given_(static_cast<size_t>(size)), size_(size) {}

  int64_t size() const { return size_; }

  /// The tensors of all ranks, by rank, once all have called it. `what` names the collective.
  std::vector<Tensor> meet(const std::string& what, int64_t rank, const Tensor& own) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0)
      what_ = what;
    else if (what != what_)
      leave_in_error("ranks meet in different collectives: " + what + " and " + what_);
    if (!broken_.empty() || left_ > 0) leave_in_error("a rank ended before the others met in " + what);
    given_[static_cast<size_t>(rank)] = own.detach();
    const int64_t meeting = met_;
    if (++arrived_ == size_) {
      all_ = given_;
      arrived_ = 0;
      ++met_;
      changed_.notify_all();
    } else {
      const bool ended = changed_.wait_for(lock, kLongestWait, [&] { return met_ != meeting || !broken_.empty(); });
      if (!ended) leave_in_error("ranks wait for each other in " + what);
      if (met_ == meeting) throw std::runtime_error(broken_);
    }
    return all_;
  }

  /// A rank has ended: those that wait for it, or will, end with an error.
  void leave() {
    const std::lock_guard lock(mutex_);
    ++left_;
    if (arrived_ > 0 && broken_.empty()) broken_ = "a rank ended before the others met in " + what_;
    changed_.notify_all();
  }

 private:
  [[noreturn]] void leave_in_error(const std::string& message) {
    if (broken_.empty()) broken_ = message;
    changed_.notify_all();
    throw std::runtime_error(broken_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> given_, all_;
  std::string what_, broken_;
  int64_t size_, arrived_ = 0, left_ = 0, met_ = 0;
};

/// A thread's rank in a group.
struct Seat {
  Meeting* group = nullptr;
  int64_t rank = 0;

  std::vector<Tensor> meet(const std::string& what, const Tensor& own) const { return group->meet(what, rank, own); }

  /// The sum over the `count` ranks from `first` on.
  Tensor sum(const std::string& what, const Tensor& own, int64_t first, int64_t count) const {
    const std::vector<Tensor> all = meet(what, own);
    Tensor total = all[static_cast<size_t>(first)].clone();
    for (int64_t other = first + 1; other < first + count; ++other) {
      const Tensor& added = all[static_cast<size_t>(other)];
      TORCH_CHECK(added.sizes() == total.sizes(), "ranks sum values of different shapes in ", what);
      total += added;
    }
    return total;
  }
  Tensor sum(const std::string& what, const Tensor& own) const { return sum(what, own, 0, group->size()); }

  /// Where this rank's shard begins along `dim`. Shards may have different sizes.
  int64_t begin(const std::string& what, const Tensor& shard, int64_t dim) const {
    const std::vector<Tensor> all = meet(what, shard);
    int64_t begin = 0;
    for (int64_t other = 0; other < rank; ++other) begin += all[static_cast<size_t>(other)].size(dim);
    return begin;
  }
};

thread_local Seat tp_seat, cp_seat, dp_seat;

struct Enter : torch::autograd::Function<Enter> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.view_as(x); }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {tp_seat.sum("the backward of enter", gradients[0])};
  }
};

struct Reduce : torch::autograd::Function<Reduce> {
  static Tensor forward(AutogradContext*, const Tensor& partial) { return tp_seat.sum("reduce", partial); }
  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0]}; }
};

struct SumOverGroup : torch::autograd::Function<SumOverGroup> {
  static Tensor forward(AutogradContext* context, const Tensor& partial, int64_t ranks) {
    context->saved_data["ranks"] = ranks;
    return sum("the sum over a group of ranks", partial, ranks);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {sum("the backward of the sum over a group", gradients[0], context->saved_data["ranks"].toInt()), Tensor()};
  }
  static Tensor sum(const std::string& what, const Tensor& own, int64_t ranks) {
    return tp_seat.sum(what, own, tp_seat.rank / ranks * ranks, ranks);
  }
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* context, const Tensor& shard, int64_t dim) {
    context->saved_data["dim"] = dim;
    context->saved_data["begin"] = tp_seat.begin("the sizes of a gather", shard, dim);
    context->saved_data["size"] = shard.size(dim);
    return at::cat(tp_seat.meet("gather", shard), dim);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = [&](const char* name) { return context->saved_data[name].toInt(); };
    return {gradients[0].narrow(saved("dim"), saved("begin"), saved("size")), Tensor()};
  }
};

class SimulatedTensorParallel final : public tp::TensorParallel {
 public:
  int64_t size() const override { return tp_seat.group->size(); }
  int64_t rank() const override { return tp_seat.rank; }
  Tensor enter(const Tensor& x) override { return Enter::apply(x); }
  Tensor reduce(const Tensor& partial) override { return Reduce::apply(partial); }
  Tensor sum_over_kv_group(const Tensor& partial, int64_t ranks) override {
    return SumOverGroup::apply(partial, ranks);
  }
  Tensor gather(const Tensor& shard, int64_t dim) override { return Gather::apply(shard, dim); }

  Tensor embedding(const Tensor& ids, const Tensor& table_shard, int64_t, std::optional<int64_t> padding_idx) override {
    const int64_t rows = table_shard.size(0), begin = tp_seat.begin("the rows of an embedding", table_shard, 0);
    const Tensor local = ids - begin;
    const Tensor elsewhere = local.lt(0).logical_or(local.ge(rows));
    const int64_t padding = padding_idx.value_or(-1) - begin;
    const Tensor table = rows > 0 ? table_shard : at::constant_pad_nd(table_shard, {0, 0, 0, 1});
    const Tensor found = at::embedding(table, local.masked_fill(elsewhere, 0),
                                       padding_idx && padding >= 0 && padding < rows ? padding : -1);
    return reduce(found.masked_fill(elsewhere.unsqueeze(-1), 0));
  }

  Tensor cross_entropy(const Tensor& logits_shard, const Tensor& targets) override {
    const int64_t size = logits_shard.size(-1);
    const Tensor own = logits_shard.flatten(0, -2), flat_targets = targets.reshape({-1});
    // A rank without classes has one that no target is.
    const Tensor flat = size > 0 ? own : at::constant_pad_nd(own, {0, 1}, -std::numeric_limits<double>::infinity());
    Tensor largest = flat.detach().amax(-1, /*keepdim=*/true);
    for (const Tensor& one : tp_seat.meet("the largest logits", largest)) largest = at::maximum(largest, one);
    const Tensor shifted = flat - largest;
    const Tensor local = flat_targets - tp_seat.begin("the sizes of logits", own, 1);
    const Tensor is_local = local.ge(0).logical_and(local.lt(size));
    const Tensor index = local.masked_fill(is_local.logical_not(), 0).unsqueeze(-1);
    const Tensor of_target = reduce(shifted.gather(-1, index).squeeze(-1).masked_fill(is_local.logical_not(), 0));
    const Tensor total = reduce(shifted.exp().sum(-1));
    return ((total.log() - of_target) * flat_targets.ne(kIgnoredTarget)).sum();
  }
};

Tensor gather_positions(const Tensor& share, int64_t dim) {
  return at::cat(tp_seat.meet("the gather of positions", share), dim);
}
Tensor take_positions(const Tensor& all, int64_t dim) {
  const int64_t share = all.size(dim) / tp_seat.group->size();
  return all.narrow(dim, tp_seat.rank * share, share).clone();
}
Tensor sum_positions(const Tensor& partial, int64_t dim) {
  return take_positions(tp_seat.sum("the sum of positions", partial), dim);
}

/// Applies one of the functions above, and another one to the gradient.
template <auto forwards, auto backwards>
struct OfPositions : torch::autograd::Function<OfPositions<forwards, backwards>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, int64_t dim) {
    context->saved_data["dim"] = dim = c10::maybe_wrap_dim(dim, x.dim());
    return forwards(x.detach(), dim);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {backwards(gradients[0], context->saved_data["dim"].toInt()), Tensor()};
  }
};

class SimulatedSequenceParallel final : public tp::SequenceParallel {
 public:
  Tensor part(const Tensor& x, int64_t dim) override {
    return OfPositions<take_positions, gather_positions>::apply(x, dim);
  }
  Tensor whole(const Tensor& share, int64_t dim) override {
    return OfPositions<gather_positions, take_positions>::apply(share, dim);
  }
  Tensor enter(const Tensor& share, int64_t dim) override {
    return OfPositions<gather_positions, sum_positions>::apply(share, dim);
  }
  Tensor exit(const Tensor& partial, int64_t dim) override {
    return OfPositions<sum_positions, gather_positions>::apply(partial, dim);
  }
};

struct GatherRows : torch::autograd::Function<GatherRows> {
  static Tensor forward(AutogradContext* context, const Tensor& rows) {
    context->saved_data["size"] = rows.size(0);
    return at::cat(dp_seat.meet("the gather of rows", rows));
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const int64_t size = context->saved_data["size"].toInt();
    return {dp_seat.sum("the backward of the gather of rows", gradients[0]).narrow(0, dp_seat.rank * size, size)};
  }
};

/// The default losses over the sentences of all data-parallel ranks. Each rank returns an equal part.
class SimulatedObjective final : public sentences::Objective {
 public:
  Tensor loss(const Tensor& embeddings, const Tensor& labels) override {
    const Binding binding(without_objective());
    const Tensor all = GatherRows::apply(embeddings);
    return sentence_loss(all, gather(labels)) / dp_seat.group->size();
  }
  Tensor count(const Tensor& embeddings, const Tensor& labels) override {
    const Binding binding(without_objective());
    const Tensor count = sentence_count(at::cat(dp_seat.meet("the embeddings", embeddings)), gather(labels));
    return dp_seat.rank == 0 ? count : at::zeros_like(count);
  }

 private:
  static Parallel without_objective() {
    Parallel parallel = bound;
    parallel.sentences = nullptr;
    return parallel;
  }
  static Tensor gather(const Tensor& labels) { return at::cat(dp_seat.meet("the labels of sentences", labels)); }
};

class SimulatedDataParallel final : public dp::DataParallel {
 public:
  int64_t rank() const override { return dp_seat.rank; }
  Tensor gather(const Tensor& rows) override { return GatherRows::apply(rows); }
};

/// The runs of positions of a context-parallel rank, if each rank has `count` positions.
std::vector<cp::Run> runs_of(const Grid& grid, int64_t cp_rank, int64_t count) {
  if (!grid.zigzag) return {{cp_rank * count, count}};
  TORCH_CHECK(count % 2 == 0, "zigzag divides the positions of a rank into two runs, of ", count);
  return {{cp_rank * count / 2, count / 2}, {(2 * grid.cp - 1 - cp_rank) * count / 2, count / 2}};
}

/// The grid of this thread's rank.
thread_local Grid seated_grid;

Tensor gather_context(const Tensor& own, int64_t dim) {
  return join_context_positions(cp_seat.meet("the gather of context positions", own), dim, seated_grid);
}
Tensor sum_context(const Tensor& partial, int64_t dim) {
  return take_context_positions(cp_seat.sum("the sum of context positions", partial), dim, seated_grid, cp_seat.rank);
}
Tensor add_over_context(const Tensor& partial, int64_t) { return cp_seat.sum("the sum over context ranks", partial); }

/// From this rank's positions along `positions` of all slices along `slices` to all positions of its slice.
Tensor all_to_all_slices(const Tensor& x, int64_t positions, int64_t slices) {
  std::vector<Tensor> own;
  for (const Tensor& one : cp_seat.meet("the all-to-all of heads", x))
    own.push_back(one.chunk(seated_grid.cp, slices)[static_cast<size_t>(cp_seat.rank)]);
  return join_context_positions(own, positions, seated_grid);
}
/// The inverse.
Tensor all_to_all_positions(const Tensor& x, int64_t positions, int64_t slices) {
  std::vector<Tensor> own;
  for (const Tensor& one : cp_seat.meet("the all-to-all of positions", x))
    own.push_back(take_context_positions(one, positions, seated_grid, cp_seat.rank));
  return at::cat(own, slices);
}
// Heads are dimension 1 and positions dimension 2 before attention; after it, positions are dimension 1.
Tensor to_slices(const Tensor& x, int64_t) { return all_to_all_slices(x, 2, 1); }
Tensor from_slices(const Tensor& x, int64_t) { return all_to_all_positions(x, 2, 1); }
Tensor to_own_positions(const Tensor& x, int64_t) { return all_to_all_positions(x, 1, 2); }
Tensor from_own_positions(const Tensor& x, int64_t) { return all_to_all_slices(x, 1, 2); }

class SimulatedContext final : public cp::Context {
 public:
  int64_t size() const override { return cp_seat.group->size(); }
  int64_t rank() const override { return cp_seat.rank; }
  std::vector<cp::Run> runs(int64_t count) const override { return runs_of(seated_grid, cp_seat.rank, count); }
  Tensor gather(const Tensor& x, int64_t dim) override {
    return OfPositions<gather_context, sum_context>::apply(x, dim);
  }
  Tensor sum(const Tensor& partial) override {
    return OfPositions<add_over_context, add_over_context>::apply(partial, 0);
  }
  bool exchanges_heads(int64_t heads, int64_t key_value_heads) const override {
    return seated_grid.zigzag && heads % size() == 0 && key_value_heads % size() == 0;
  }
  Tensor to_heads(const Tensor& x) override { return OfPositions<to_slices, from_slices>::apply(x, 0); }
  Tensor to_positions(const Tensor& x) override {
    return OfPositions<to_own_positions, from_own_positions>::apply(x, 0);
  }
};

}  // namespace

Tensor take_context_positions(const Tensor& all, int64_t dim, const Grid& grid, int64_t cp_rank) {
  std::vector<Tensor> own;
  for (const cp::Run& run : runs_of(grid, cp_rank, all.size(dim) / grid.cp))
    own.push_back(all.narrow(dim, run.begin, run.size));
  return at::cat(own, dim);
}

Tensor join_context_positions(const std::vector<Tensor>& by_rank, int64_t dim, const Grid& grid) {
  const int64_t count = by_rank.front().size(dim);
  std::map<int64_t, Tensor> by_begin;
  for (int64_t rank = 0; rank < grid.cp; ++rank) {
    int64_t row = 0;
    for (const cp::Run& run : runs_of(grid, rank, count)) {
      by_begin[run.begin] = by_rank[static_cast<size_t>(rank)].narrow(dim, row, run.size);
      row += run.size;
    }
  }
  std::vector<Tensor> all;
  for (const auto& [begin, values] : by_begin) all.push_back(values);
  return at::cat(all, dim);
}

void on_simulated_ranks(const Grid& grid, const std::function<void(const GridRank&)>& body) {
  SimulatedTensorParallel tensor_parallel;
  SimulatedSequenceParallel sequence_parallel;
  SimulatedContext context;
  SimulatedDataParallel data_parallel;
  SimulatedObjective objective;
  Parallel parallel = bound;
  if (grid.tp > 1) parallel.tp = &tensor_parallel;
  if (grid.sequence) parallel.sequence = &sequence_parallel;
  if (grid.cp > 1) parallel.context = &context;
  if (grid.dp > 1) parallel.dp = &data_parallel, parallel.sentences = &objective;
  // A group is known by its ranks' indices along the other axes.
  std::map<std::pair<int64_t, int64_t>, Meeting> tp_groups, cp_groups, dp_groups;
  const auto seat = [](auto& groups, int64_t first, int64_t second, int64_t size, int64_t rank) {
    return Seat{&groups.try_emplace({first, second}, size).first->second, rank};
  };
  std::mutex order;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int64_t index = 0; index < grid.ranks(); ++index) {
    const GridRank rank{index % grid.tp, index / grid.tp % grid.cp, index / grid.tp / grid.cp};
    const Seat on_tp = seat(tp_groups, rank.cp, rank.dp, grid.tp, rank.tp),
               on_cp = seat(cp_groups, rank.tp, rank.dp, grid.cp, rank.cp),
               on_dp = seat(dp_groups, rank.tp, rank.cp, grid.dp, rank.dp);
    threads.emplace_back([&, rank, on_tp, on_cp, on_dp] {
      const Binding binding(parallel);
      tp_seat = on_tp, cp_seat = on_cp, dp_seat = on_dp;
      seated_grid = grid;
      at::set_num_threads(1);
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(order);
        if (!first) first = std::current_exception();
      }
      for (const Seat& own : {on_tp, on_cp, on_dp}) own.group->leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void on_simulated_ranks(int64_t size, const std::function<void(int64_t rank)>& body) {
  on_simulated_ranks(Grid{.tp = size}, [&](const GridRank& rank) { body(rank.tp); });
}

}  // namespace modular::execute
