// Point-to-point communication between pipeline stages: activations forwards and gradients backwards, overlapped with
// computation.
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
  /// Name of a value that crosses the cut before a stage, or of its gradient.
  struct Name {
    bool is_gradient;
    int64_t stage;  // stage that receives the value, or sends its gradient
    int64_t micro_batch;
    size_t part = 0;  // index among the tensors that cross there together, less than kMaxParts

    auto operator<=>(const Name&) const = default;
  };

  static constexpr size_t kMaxParts = 2;

  /// `stage_ranks`: the rank of each stage.
  PipelineMessages(Mesh& mesh, std::vector<int64_t> stage_ranks);

  /// The pp ranks, for collectives.
  const ProcessGroup& ranks() const { return ranks_; }

  /// Sends `value`. `received_at` is the simulated time at which the receiver has it. The shape of activations is a
  /// function of the batch's shapes: it is sent once per batch shape, before the first activations.
  void send(const Name& name, const Tensor& value, double received_at, const Batch& batch);

  /// Whether the value can be received without first receiving its shape.
  bool knows_shape(const Name& name, const Batch& batch) const;
  /// Whether it comes from another rank.
  bool is_remote(const Name& name) const { return source(name) != own_; }
  bool is_expected(const Name& name) const { return arriving_.contains(name); }
  /// Starts to receive a value from another rank. A gradient is received into `gradient`.
  void expect(const Name& name, const Batch& batch, const Tensor& gradient);
  /// Waits for an expected value, or a value from this rank, and returns it.
  Tensor take(const Name& name);

  /// Waits for the sends with `received_at` <= `time`, and frees their tensors.
  void free_sends_until(double time);
  /// Waits for all sends, and frees their tensors.
  void free_all_sends();

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
  /// Index of a part that crosses the cut before the stage.
  int64_t crossing(const Name& name) const;
  void connect();

  at::Device device_;
  int64_t own_;
  std::vector<int64_t> stage_ranks_;
  ProcessGroup ranks_;
  std::map<std::pair<bool, bool>, ProcessGroup> groups_;  // by (is a gradient, to a higher rank)
  // Keyed by crossing() and the shapes of the batch.
  std::map<std::pair<int64_t, std::vector<int64_t>>, Tensor> descriptions_received_;
  std::set<std::pair<int64_t, std::vector<int64_t>>> descriptions_sent_;
  std::map<Name, Arriving> arriving_;
  std::map<Name, Tensor> handed_over_;  // values between stages of this rank
  std::deque<Sending> sending_;
};

/// Encodes a tensor's type and shape as a fixed-size tensor.
Tensor make_description(const Tensor& tensor);
/// Returns a buffer for receiving a description.
Tensor empty_description();
Tensor empty_as_described(const Tensor& description, const at::Device& device);

}  // namespace modular
