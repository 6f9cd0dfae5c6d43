// Router losses and expert loads over the samples of a step, independent of how these are divided into ranks,
// micro-batches and stages, and of recomputation.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/experts.h"
#include "runtime/parallel/step/feature.h"

namespace modular {

struct RouterOptions {
  // Coefficient of the load-balancing loss; 0 for none. Over an entire step it is transformers'
  // load_balancing_loss_func: for n experts, the sum over e of n f_e P_e, where f_e counts the choices of e and P_e
  // sums its normalized scores over all positions and layers, both divided by the number of positions and layers (Fedus
  // et al., Switch Transformer). By sequence it is the sum over layers, and the mean over samples, of the sum over e of
  // n/k f_e P_e, where both are means over the sample's positions in that layer and k experts are chosen per position
  // (DeepSeek-V2).
  double aux_loss = 0.0;
  bool by_sequence = false;
  // Coefficient of the router z-loss: the sum over layers, and the mean over positions, of the squared log-sum-exp of a
  // router's logits (Zoph et al., ST-MoE); 0 for none.
  double z_loss = 0.0;
  // Amount by which router biases rise or fall after a step (Wang et al., Auxiliary-Loss-Free Load Balancing).
  double bias_speed = 0.0;

  bool does_anything() const { return aux_loss > 0.0 || z_loss > 0.0 || bias_speed > 0.0; }
};

/// If gradients depend on the choices of the entire step, these are summed over the mesh between the step's last
/// forward that counts them and its first backward. Padding positions are not counted.
class RouterBalance final : public routing::Balance, public Feature {
 public:
  /// `experts`: number of experts per mixture. Collective.
  RouterBalance(const RouterOptions& options, int64_t experts, Mesh& mesh);

  /// Appends the numbers of positions, without padding, and of sequences.
  void begin_step(TrainingStep& step) override;
  /// Counts the choices of the step if it has several forwards before its first backward. Collective in that case.
  void before_forwards(const TrainingStep& step) override;
  void before_forward(const Batch& batch, int64_t stage) override;
  std::function<void()> save_position() override;
  void before_backward(const StageBackward& /*backward*/) override { sum_counts(); }
  /// Returns the loss that this rank added, and the expert counts of each router of its stages. Collective if
  /// needs_counts() and the step had no backward.
  Tensor statistics() override;
  std::vector<double> take_statistics(std::span<const double> sums) override;
  /// Throws std::runtime_error if losses are configured but no router supports them.
  void report(std::span<const double> sums, StepResult& result) const override;
  /// Moves the router biases by the step's counts.
  void after_update() override;

  Tensor add(const Tensor& weights, const Tensor& logits, const Tensor& scores, const Tensor& chosen,
             const Tensor& bias) override;

 private:
  struct Router {
    Tensor counts;  // [experts] float64, counts of this step
    Tensor bias;    // undefined if the router has none
  };
  /// Position within a forward.
  struct Position {
    Tensor mask;         // [batch, seq] float64: 1, or 0 for padding
    int64_t stage = 0;   // pipeline stage
    int64_t router = 0;  // index of the next router
    bool again = false;  // whether the forward is recomputed
  };
  /// Whether gradients depend on the choices of the entire step.
  bool needs_counts() const { return options_.aux_loss > 0.0 && !options_.by_sequence; }
  /// `counts_here`: whether this tp rank contributes to the sums over tp.
  void count(const Tensor& choices, const Tensor& rows, const Tensor& bias, bool counts_here);
  /// Sums counts over the mesh; later forwards of this step do not count. Collective if needs_counts().
  void sum_counts();

  RouterOptions options_;
  at::TensorOptions numbers_;  // float64 on the mesh's device
  int64_t experts_;
  ProcessGroup tp_;
  ProcessGroup routers_of_step_;              // ranks whose counts are terms of the step's; if needs_counts()
  double positions_ = 0.0, sequences_ = 0.0;  // counts of the step
  size_t counts_at_ = 0;                      // index of these in TrainingStep::counts
  bool counts_ = true, only_counts_ = false;  // only_counts_: forwards only count choices and add no losses
  Position position_;
  std::map<std::pair<int64_t, int64_t>, Router> routers_;  // by (stage, index in its forward)
  Tensor rows_;                                            // [] number of positions, summed over routers
  Tensor loss_;                                            // [] loss that this rank has added so far
  Tensor score_sums_;      // [experts] sums of normalized scores, for the loss over the entire step
  Tensor score_gradient_;  // [experts] gradient of that loss with respect to score_sums_; filled by sum_counts()
};

}  // namespace modular
