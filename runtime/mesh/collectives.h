// Collectives whose failures say what they were for. Each is started at once and done when `wait` returns; on a GPU,
// `wait` makes the current stream wait for it. With a null group (one rank) each is done at once.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/rendezvous.h"

namespace modular {

/// A collective that failed because a peer went away or did not come in time: a consequence, seldom a cause.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A collective under way. Hold it, and the tensors, until `wait`.
class Pending {
 public:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  Pending() = default;
  /// `finish` runs when all of `works` are done.
  Pending(Works works, std::string what, std::function<void()> finish = {})
      : works_(std::move(works)), finish_(std::move(finish)), what_(std::move(what)) {}
  /// Throws CollectiveError naming the collective, its group and the reason. A second call does nothing.
  void wait();
  bool active() const { return !works_.empty(); }

 private:
  Works works_;
  std::function<void()> finish_;
  std::string what_;
};

// `what` names the value in messages: "the loss", "the gradients of model.layers.3".

/// `tensor` becomes the sum (or what `op` says) over the group.
Pending all_reduce(const ProcessGroup& group, at::Tensor tensor, const std::string& what,
                   c10d::ReduceOp op = c10d::ReduceOp::SUM);

/// Each of `tensors` [size * n], contiguous, holds this rank's part at its place among the ranks', and becomes all
/// ranks' parts. Needs no other memory.
Pending all_gather(const ProcessGroup& group, const std::vector<at::Tensor>& tensors, const std::string& what);

/// `output` [n] becomes this rank's part of the sum of the ranks' `input` [size * n], the same to the bit in every run.
/// Both contiguous. In host memory it needs as much as `input` beside them.
Pending reduce_scatter(const ProcessGroup& group, const at::Tensor& output, const at::Tensor& input,
                       const std::string& what);

/// Rank r gets the r-th run of `input`, of `input_sizes[r]` elements, and its own of every rank come in the order of
/// the ranks into `output`, of `output_sizes[r]` elements from rank r. Both contiguous, with one dimension. Sizes may
/// be 0.
Pending all_to_all(const ProcessGroup& group, const at::Tensor& output, std::vector<int64_t> output_sizes,
                   const at::Tensor& input, std::vector<int64_t> input_sizes, const std::string& what);

/// `tensor` becomes that of the group's rank `source`.
Pending broadcast(const ProcessGroup& group, at::Tensor tensor, int64_t source, const std::string& what);

/// The text of the group's rank 0. The group moves host memory.
std::string broadcast_text(const ProcessGroup& group, const std::string& text, const std::string& what);

/// Sends to, or receives from, the group's rank `peer`. Messages between two ranks with the same tag keep their order.
Pending send(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what);
Pending receive(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what);

/// Returns when all ranks of the group are here.
void barrier(const ProcessGroup& group, const std::string& what);

}  // namespace modular
