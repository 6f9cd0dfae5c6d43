// Communication volume of a rank, counted where collectives are started.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/rendezvous.h"

namespace modular {

struct AxisTraffic {
  int64_t collectives = 0;  // collectives and messages through which this rank received data
  /// Bytes that this rank received. For an all-gather or a reduce-scatter: the other ranks' chunks of the larger
  /// tensor. For an all-reduce: twice that, the lower bound of all algorithms (Patarasuk & Yuan, Bandwidth optimal
  /// all-reduce algorithms).
  double bytes = 0.0;
};

/// Totals since the process started.
struct Traffic : AxisTraffic {
  std::map<std::string, AxisTraffic> over;  // by the axes of the group, e.g. "dp_replicate x dp_shard"
};

/// Counters of this process. Not thread-safe.
inline Traffic& traffic() {
  static Traffic counted;
  return counted;
}

// Collectives whose errors name the value that they were called for. A collective starts immediately and has finished
// when `wait` returns; on a GPU, `wait` makes the current stream wait for it. With a null group (one rank) it finishes
// immediately.

/// Thrown if a collective fails because a peer exited or did not arrive in time: usually a consequence, not the cause.
class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A collective in flight. Keep it and its tensors alive until `wait`.
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

/// Reduces `tensor` in place over the group; `op` is the reduction.
Pending all_reduce(const ProcessGroup& group, at::Tensor tensor, const std::string& what,
                   c10d::ReduceOp op = c10d::ReduceOp::SUM);

/// Sums each of `tensors`, which have one type, in place over the group: one message, and the result of every element
/// is that of all_reduce().
void sum_coalesced(const ProcessGroup& group, const std::vector<at::Tensor>& tensors, const std::string& what);

/// Gathers in place. Each of `tensors` [size * n] is contiguous and holds this rank's chunk at the rank's index;
/// afterwards it holds the chunks of all ranks. Needs no extra memory.
Pending all_gather(const ProcessGroup& group, const std::vector<at::Tensor>& tensors, const std::string& what);

/// Writes this rank's chunk of the sum of all ranks' `input` [size * n] into `output` [n]; bitwise reproducible. Both
/// are contiguous. In host memory it allocates a buffer of the size of `input`.
Pending reduce_scatter(const ProcessGroup& group, const at::Tensor& output, const at::Tensor& input,
                       const std::string& what);

/// Sends the r-th run of `input`, of `input_sizes[r]` elements, to rank r. Writes the runs received from all ranks into
/// `output` in rank order, `output_sizes[r]` elements from rank r. Both tensors are contiguous and one-dimensional.
/// Sizes may be 0.
Pending all_to_all(const ProcessGroup& group, const at::Tensor& output, std::vector<int64_t> output_sizes,
                   const at::Tensor& input, std::vector<int64_t> input_sizes, const std::string& what);

/// Overwrites `tensor` with the tensor of the group's rank `source`.
Pending broadcast(const ProcessGroup& group, at::Tensor tensor, int64_t source, const std::string& what);

/// Whether `value` is true on any rank of the group, which must support host memory.
bool any_rank(const ProcessGroup& group, bool value, const std::string& what);

/// Returns the text of the group's rank 0. The group must support host memory.
std::string broadcast_text(const ProcessGroup& group, const std::string& text, const std::string& what);

/// Sends to, or receives from, the group's rank `peer`. Messages with the same tag between two ranks arrive in order.
Pending send(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what);
Pending receive(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what);

/// Returns when all ranks of the group have called it.
void barrier(const ProcessGroup& group, const std::string& what);

}  // namespace modular
