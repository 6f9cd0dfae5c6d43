// Router losses and expert loads over the samples of a step, independent of how these are divided into ranks,
// micro-batches and stages, and of recomputation.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/experts.h"
#include "runtime/parallel/objectives/router_options.h"

namespace modular {

/// Router statistics of a step, over the full mesh.
struct RouterReport {
  double loss = 0.0;  // router loss added to the mean loss, coefficients included
  double load = 0.0;  // load of the most loaded expert over the mean load, averaged over routers
};

/// A step consists of begin_step(), its forwards, each after begin_forward(), and finish(). If needs_counts(), the
/// gradients of the balance loss are available only after settle(), which comes between the step's last counting
/// forward and its first backward. The caller sums the result of finish() over ranks, together with its own numbers,
/// and passes the sums to take_counts(), and the sums of that result to report(). Padding positions are not counted.
class RouterBalance final : public routing::Balance {
 public:
  /// `experts`: number of experts per mixture. Collective.
  RouterBalance(const RouterOptions& options, int64_t experts, Mesh& mesh);

  /// `positions` (without padding) and `sequences` are counts over the full mesh.
  void begin_step(double positions, double sequences);
  /// Whether gradients depend on the choices of the entire step.
  bool needs_counts() const { return options_.aux_loss > 0.0 && !options_.by_sequence; }
  /// Whether the following forwards only count choices and add no losses.
  void only_count(bool only) { only_counts_ = only; }
  /// Sums counts over the mesh; later forwards of this step do not count. Collective if needs_counts().
  void settle();
  /// Returns this rank's numbers as float64 on its device, to be summed over the ranks whose batches form a step: the
  /// loss that it added, and the expert counts of each router of its stages. Collective if needs_counts() and settle()
  /// was not called.
  Tensor finish();
  /// Takes these sums. Returns numbers of this rank's stages, to be summed over the stages.
  std::vector<double> take_counts(std::span<const double> sums);
  /// Returns the report for those sums. Throws std::runtime_error if losses are configured but no router supports them.
  RouterReport report(std::span<const double> sums) const;
  /// Updates the router biases from the step's counts. Call it after take_counts().
  void move_biases();

  /// Position within a forward.
  struct Position {
    Tensor mask;         // [batch, seq] float64: 1, or 0 for padding
    int64_t stage = 0;   // pipeline stage
    int64_t router = 0;  // index of the next router
    bool again = false;  // whether the forward is recomputed
  };
  /// Call before each forward.
  void begin_forward(const Batch& batch, int64_t stage);
  const Position& position() const { return position_; }
  /// Call before a forward is recomputed from an earlier position.
  void repeat_from(Position position);

  Tensor add(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
             const Tensor& bias) override;

 private:
  struct Router {
    Tensor counts;  // [experts] float64, counts of this step
    Tensor bias;    // undefined if the router has none
  };
  void count(const Tensor& choices, const Tensor& bias);

  RouterOptions options_;
  at::TensorOptions numbers_;  // float64 on the mesh's device
  int64_t experts_;
  ProcessGroup data_parallel_and_stages_;     // if needs_counts()
  double positions_ = 0.0, sequences_ = 0.0;  // counts of the step
  bool counts_ = true, only_counts_ = false;
  Position position_;
  std::map<std::pair<int64_t, int64_t>, Router> routers_;  // by (stage, index in its forward)
  Tensor rows_;                                            // [] number of positions, summed over routers
  Tensor loss_;                                            // [] loss that this rank has added so far
  Tensor score_sums_;      // [experts] sums of normalized scores, for the loss over the entire step
  Tensor score_gradient_;  // [experts] gradient of that loss with respect to score_sums_; filled by settle()
};

}  // namespace modular
