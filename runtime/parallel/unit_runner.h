// Runs the units of a model: parameters are whole around each unit's forward and backward and nowhere else, and a
// unit's forward may be run again in the backward (Chen et al., Training Deep Nets with Sublinear Memory Cost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/model/fsdp.h"
#include "runtime/parallel/dropout_rng.h"
#include "runtime/parallel/memory_options.h"
#include "runtime/parallel/parameter_table.h"
#include "runtime/parallel/router_balance.h"
#include "runtime/parallel/saved_tensors.h"
#include "runtime/parallel/unit_parameters.h"

namespace modular {

struct UnitOptions {
  bool reshard_after_forward =
      true;                      // free parameters between forward and backward; else they stay until the step ends
  bool reduce_once = false;      // sum a unit's gradients after the step's last backward of it; else after each
  size_t prefetch = 1;           // units that are gathered ahead, in the order in which they ran last time
  Recomputation recompute = {};  // of units
  bool reduce = true;  // hand gradients to UnitParameters; false where they are complete as the backward leaves them
  StepDropoutRng* dropout = nullptr;  // what a unit that is recomputed draws again
  RouterBalance* routers = nullptr;   // which do not count again then
  SavedTensors* saved = nullptr;      // what becomes of what the other units' graphs save; null: it is kept
};

/// A unit's forward under grad becomes one node of the outer graph; the unit's own graph lives in that node, so that
/// each of several outstanding forwards has its state, and a unit's gradients are complete when its node is done. The
/// root is not a node: its parameters stay whole until the step ends, and it is not recomputed.
class UnitRunner final : public fsdp::Units {
 public:
  /// `units` beside `parameters`, the root first; both outlive the runner.
  UnitRunner(const std::vector<ModelUnit>& units, std::span<UnitParameters> parameters, const UnitOptions& options,
             const at::Device& device);

  std::vector<at::Tensor> run(nn::Module& unit, const std::vector<at::Tensor>& inputs, const Body& body) override;

  /// Before the forwards of a step.
  void begin_step();
  /// Before a forward of a pipeline's stage, of which a rank may have several. Each runs its units in its own order.
  void enter_stage(int64_t stage);
  /// Before a micro-batch's backward. `last_of_stage`: no other of its stage follows in this step, so sums over
  /// replicas may begin; `last_of_step`: none of any stage.
  void begin_backward(bool last_of_stage, bool last_of_step);
  /// After it. `with_root`: whether it may have left gradients in the root's parameters.
  void end_backward(bool with_root);
  /// Waits until all gradients are complete, and frees what is still whole.
  void end_step();
  /// After forwards without backward: frees what is still whole.
  void release_all();

 private:
  static constexpr int64_t kUnknown = -1, kSeveral = -2;
  friend class UnitNode;
  /// The units that a stage runs.
  struct Order {
    std::vector<size_t> units;  // as they ran in the last forward; before the first, as in the module tree
    bool is_known = true;       // false from a deviation on to the end of that forward
    size_t position = 0;        // in the forward that is running
  };

  std::vector<at::Tensor> run_root(const std::vector<at::Tensor>& inputs, const Body& body);
  std::vector<at::Tensor> run_with_graph(size_t unit, size_t position, bool is_last,
                                         const std::vector<at::Tensor>& inputs, const Body& body);
  /// The number of this call among the units' calls in the forward that is running.
  size_t next_position(size_t unit);
  /// Gathers `unit`, which runs as number `position` of `order`, and begins to gather those that come next in
  /// `direction`, 1 or -1.
  void enter(size_t unit, const Order& order, size_t position, int direction);
  /// Whether the backward that runs is the step's last of `unit`.
  bool is_last_backward(size_t unit) const;
  /// Takes the gradients of `unit` after its backward.
  void reduce(size_t unit);
  void finish_reducing();

  std::span<UnitParameters> parameters_;
  UnitOptions options_;
  at::Device device_;
  std::unordered_map<const nn::Module*, size_t> index_;
  std::vector<bool> recomputed_;  // by unit
  std::vector<size_t> order_in_tree_;
  std::map<int64_t, Order> orders_;  // by stage
  int64_t stage_ = 0;                // whose forward runs, or ran last
  std::vector<int64_t> stage_of_;    // by unit: the stage that runs it; kUnknown, or kSeveral
  std::vector<size_t> awaited_;      // by unit: forwards of this step whose backward is to come
  bool last_of_stage_ = false, last_of_step_ = false;
  std::optional<size_t> reducing_;  // the unit whose gradients are under way
};

}  // namespace modular
