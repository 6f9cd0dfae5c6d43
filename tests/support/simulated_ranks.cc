#include "tests/support/simulated_ranks.h"

#include <ATen/Parallel.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/contract_in_double.h"

namespace modular::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local int64_t current_rank = 0;

/// Where ranks hand one another tensors.
class Meeting {
 public:
  explicit Meeting(int64_t size) : given_(static_cast<size_t>(size)), size_(size) {}

  int64_t size() const { return size_; }

  /// What all ranks give, by rank, once all have come. `what` says for what they meet.
  std::vector<Tensor> meet(const std::string& what, const Tensor& own) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0)
      what_ = what;
    else if (what != what_)
      leave_in_error("ranks meet in different collectives: " + what + " and " + what_);
    if (!broken_.empty() || left_ > 0) leave_in_error("a rank ended before the others met in " + what);
    given_[static_cast<size_t>(current_rank)] = own.detach();
    const int64_t meeting = met_;
    if (++arrived_ == size_) {
      all_ = given_;
      arrived_ = 0;
      ++met_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return met_ != meeting || !broken_.empty(); });
      if (met_ == meeting) throw std::runtime_error(broken_);
    }
    return all_;
  }

  Tensor sum(const std::string& what, const Tensor& own) {
    const std::vector<Tensor> all = meet(what, own);
    Tensor total = all[0].clone();
    for (size_t rank = 1; rank < all.size(); ++rank) {
      TORCH_CHECK(all[rank].sizes() == total.sizes(), "ranks sum values of different shapes in ", what);
      total += all[rank];
    }
    return total;
  }

  /// A rank has ended; those that wait for it, or will, end with an error.
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

Meeting* meeting = nullptr;

struct Enter : torch::autograd::Function<Enter> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.view_as(x); }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {meeting->sum("the backward of enter", gradients[0])};
  }
};

struct Reduce : torch::autograd::Function<Reduce> {
  static Tensor forward(AutogradContext*, const Tensor& partial) { return meeting->sum("reduce", partial); }
  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0]}; }
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* context, const Tensor& shard, int64_t dim) {
    context->saved_data["dim"] = dim;
    context->saved_data["size"] = shard.size(dim);
    return at::cat(meeting->meet("gather", shard), dim);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const int64_t size = context->saved_data["size"].toInt();
    return {gradients[0].narrow(context->saved_data["dim"].toInt(), current_rank * size, size), Tensor()};
  }
};

class SimulatedTensorParallel final : public tp::TensorParallel {
 public:
  int64_t size() const override { return meeting->size(); }
  int64_t rank() const override { return current_rank; }
  Tensor enter(const Tensor& x) override { return Enter::apply(x); }
  Tensor reduce(const Tensor& partial) override { return Reduce::apply(partial); }
  Tensor sum_over_kv_group(const Tensor&, int64_t) override { TORCH_CHECK(false, "simulated ranks share no groups"); }
  Tensor gather(const Tensor& shard, int64_t dim) override { return Gather::apply(shard, dim); }

  Tensor embedding(const Tensor& ids, const Tensor& table_shard, int64_t, std::optional<int64_t> padding_idx) override {
    const int64_t rows = table_shard.size(0);
    const Tensor local = ids - current_rank * rows;
    const Tensor elsewhere = local.lt(0).logical_or(local.ge(rows));
    const int64_t padding = padding_idx.value_or(-1) - current_rank * rows;
    const Tensor found = at::embedding(table_shard, local.masked_fill(elsewhere, 0),
                                       padding_idx && padding >= 0 && padding < rows ? padding : -1);
    return reduce(found.masked_fill(elsewhere.unsqueeze(-1), 0));
  }

  Tensor cross_entropy(const Tensor& logits_shard, const Tensor& targets) override {
    const int64_t size = logits_shard.size(-1);
    const Tensor flat = logits_shard.reshape({-1, size}), flat_targets = targets.reshape({-1});
    Tensor largest = flat.detach().amax(-1, /*keepdim=*/true);
    for (const Tensor& one : meeting->meet("the largest logits", largest)) largest = at::maximum(largest, one);
    const Tensor shifted = flat - largest;
    const Tensor local = flat_targets - current_rank * size;
    const Tensor is_local = local.ge(0).logical_and(local.lt(size));
    const Tensor index = local.masked_fill(is_local.logical_not(), 0).unsqueeze(-1);
    const Tensor of_target = reduce(shifted.gather(-1, index).squeeze(-1) * is_local);
    const Tensor total = reduce(shifted.exp().sum(-1));
    return ((total.log() - of_target) * flat_targets.ne(kIgnoredTarget)).sum();
  }
};

}  // namespace

void on_simulated_ranks(int64_t size, const std::function<void(int64_t rank)>& body) {
  SimulatedTensorParallel tensor_parallel;
  Meeting ranks(size);
  meeting = &ranks;
  Parallel parallel = bound;
  parallel.tp = &tensor_parallel;
  std::mutex order;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const Binding binding(parallel);
      current_rank = rank;
      at::set_num_threads(1);
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(order);
        if (!first) first = std::current_exception();
      }
      ranks.leave();
    });
  for (std::thread& thread : threads) thread.join();
  meeting = nullptr;
  if (first) std::rethrow_exception(first);
}

}  // namespace modular::testing
