// Losses of routers and counts of what they choose: over the samples of a step, however these are divided between
// ranks, micro-batches and stages, and whether a forward is run once or again in the backward.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/experts.h"
#include "runtime/parallel/router_options.h"

namespace modular {

/// What routers did in a step, over the whole mesh.
struct RouterReport {
  double loss = 0.0;  // that was added to the mean loss, coefficients included
  double load = 0.0;  // choices of the expert that was chosen most, over the mean of all; the mean over routers
};

/// A step is begin_step(), its forwards, each after begin_forward(), and finish(); where needs_counts(), the gradients
/// of the balance loss are only there after settle(), which comes between the step's last forward that counts and its
/// first backward. What finish() gives is for the caller to sum, with numbers of its own, and to hand on as sums:
/// to take_counts(), and what that gives to report(). Positions that are padding count for nothing.
class RouterBalance final : public routing::Balance {
 public:
  /// For `experts` in each mixture. Collective.
  RouterBalance(const RouterOptions& options, int64_t experts, Mesh& mesh);

  /// `positions` that are not padding, and `sequences`, over the whole mesh.
  void begin_step(double positions, double sequences);
  /// Whether gradients follow from the choices of a whole step.
  bool needs_counts() const { return options_.aux_loss > 0.0 && !options_.by_sequence; }
  /// Whether the forwards that come only count, and add no losses.
  void only_count(bool only) { only_counts_ = only; }
  /// Sums counts over the mesh; forwards that follow in this step do not count. Collective where needs_counts().
  void settle();
  /// This rank's numbers, float64 where they were computed, to be summed over the ranks whose batches make up a step:
  /// what it has added to the loss, and what each router of its stages chose. Collective where needs_counts() and
  /// nothing settled.
  Tensor finish();
  /// Takes these sums. Returns numbers of this rank's stages, to be summed over the stages.
  std::vector<double> take_counts(std::span<const double> sums);
  /// Of those sums. Throws std::runtime_error where losses were asked for and no router knows of them.
  RouterReport report(std::span<const double> sums) const;
  /// Moves the biases of routers by what the step's counts say. After take_counts().
  void move_biases();

  /// Where a forward is.
  struct Position {
    Tensor mask;         // [batch, seq] float64: 1, and 0 for padding
    int64_t stage = 0;   // of the pipeline
    int64_t router = 0;  // which one runs next
    bool again = false;  // whether the forward ran before
  };
  /// Before each forward.
  void begin_forward(const Batch& batch, int64_t stage);
  const Position& position() const { return position_; }
  /// Before a forward runs again from a position that it had.
  void repeat_from(Position position);

  Tensor add(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
             const Tensor& bias) override;

 private:
  struct Router {
    Tensor counts;  // [experts] float64, of this step
    Tensor bias;    // undefined where it has none
  };
  void count(const Tensor& choices, const Tensor& bias);

  RouterOptions options_;
  at::TensorOptions numbers_;  // of float64 on the mesh's device
  int64_t experts_;
  ProcessGroup data_parallel_and_stages_;     // where needs_counts()
  double positions_ = 0.0, sequences_ = 0.0;  // of the step
  bool counts_ = true, only_counts_ = false;
  Position position_;
  std::map<std::pair<int64_t, int64_t>, Router> routers_;  // by stage and number in its forward
  Tensor rows_;                                            // [] positions, once for each router
  Tensor loss_;                                            // [] what this rank has added so far
  Tensor shares_;                                          // [experts], for the loss over a whole step
  Tensor pull_;  // [experts] the gradient of that loss by shares_; filled by settle()
};

}  // namespace modular
