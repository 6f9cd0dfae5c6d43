// What passes between the stages of a pipeline: activations forwards and gradients backwards, each under way while
// others are computed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/model/module.h"

namespace modular {

/// Collective over the `pp` axis: all ranks construct it in the same way. Two ranks send and receive in the same order.
class PipelineMessages {
 public:
  /// A value that crosses the cut before a stage, or its gradient.
  struct Name {
    bool is_gradient;
    int64_t stage;  // that receives the value, or sends its gradient
    int64_t micro_batch;
    size_t part = 0;  // of the tensors that cross there together, at most kMostParts

    auto operator<=>(const Name&) const = default;
  };

  static constexpr size_t kMostParts = 2;

  /// `stage_ranks`: where each stage lies.
  PipelineMessages(Mesh& mesh, std::vector<int64_t> stage_ranks);

  /// The pp ranks, for collectives.
  const ProcessGroup& ranks() const { return ranks_; }

  /// Hands `value` over. `received_at`: when the receiver will have it, on the schedule's clock. The shape of
  /// activations follows from their batch's: it is sent once for each, before the first of them.
  void send(const Name& name, const Tensor& value, double received_at, const Batch& batch);

  /// Whether the value can be received without first asking for its shape.
  bool knows_shape(const Name& name, const Batch& batch) const;
  /// Whether it comes from another rank.
  bool is_remote(const Name& name) const { return source(name) != own_; }
  bool is_expected(const Name& name) const { return arriving_.contains(name); }
  /// Begins to receive a value from another rank. Where it is a gradient, into `gradient`.
  void expect(const Name& name, const Batch& batch, const Tensor& gradient);
  /// An expected value, or one of this rank, when it is here.
  Tensor take(const Name& name);

  /// Waits until what was received before `time` on the schedule's clock is received, and lets go of it.
  void release_until(double time);
  /// The same for all that was sent.
  void release_all();

 private:
  struct Arriving {
    Tensor tensor;
    Pending pending;
  };
  struct Sending {
    Tensor tensor;
    Pending pending;
    double received_at;
  };

  int64_t source(const Name& name) const;
  int64_t destination(const Name& name) const;
  const ProcessGroup& group(bool is_gradient, int64_t from, int64_t to) const;
  int tag(const Name& name) const;
  /// A number of what crosses a cut: the part before the stage.
  int64_t crossing(const Name& name) const;
  void connect();

  at::Device device_;
  int64_t own_;
  std::vector<int64_t> stage_ranks_;
  ProcessGroup ranks_;
  std::map<std::pair<bool, bool>, ProcessGroup> groups_;  // by (is a gradient, to a higher rank)
  // By crossing() and shapes of the batch.
  std::map<std::pair<int64_t, std::vector<int64_t>>, Tensor> descriptions_received_;
  std::set<std::pair<int64_t, std::vector<int64_t>>> descriptions_sent_;
  std::map<Name, Arriving> arriving_;
  std::map<Name, Tensor> handed_over_;  // between stages of this rank
  std::deque<Sending> sending_;
};

/// A tensor's type and shape as numbers of a fixed count.
Tensor make_description(const Tensor& tensor);
/// What a description is received in.
Tensor empty_description();
Tensor empty_as_described(const Tensor& description, const at::Device& device);

}  // namespace modular
