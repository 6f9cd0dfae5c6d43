// Runs the FSDP units of a model: parameters are unsharded only around each unit's forward and backward, and the
// backward may recompute a unit's forward (Chen et al., Training Deep Nets with Sublinear Memory Cost).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/model/fsdp.h"
#include "runtime/parallel/fsdp/unit_parameters.h"
#include "runtime/parallel/memory/memory_options.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/step/feature.h"

namespace modular {

struct UnitOptions {
  bool reshard_after_forward = true;  // else parameters stay unsharded until the step ends
  bool reduce_once = false;           // reduce gradients after the step's last backward of a unit; else after each
  size_t prefetch = 1;                // number of units to prefetch, in the order of the previous run
  Recomputation recompute = {};       // recomputation of units
  SavedTensors* saved = nullptr;      // policy for tensors that the other units' graphs save; null: keep them
};

/// With gradients enabled, a unit's forward is one node of the outer graph, and the node owns the unit's own graph.
/// Each outstanding forward therefore has separate state, and a unit's gradients are complete when its node is done.
/// The root is not a node: its parameters stay unsharded until the step ends, and it is not recomputed.
class UnitRunner final : public fsdp::Units, public Feature {
 public:
  /// `units` and `parameters` are parallel, the root first. A unit is recomputed from the position of `features` in its
  /// forward. All three must outlive the runner.
  UnitRunner(const std::vector<ModelUnit>& units, std::span<UnitParameters> parameters,
             const std::vector<std::unique_ptr<Feature>>& features, const UnitOptions& options,
             const at::Device& device);

  std::vector<at::Tensor> run(nn::Module& unit, const std::vector<at::Tensor>& inputs, const Body& body) override;

  void before_forwards(const TrainingStep& step) override;
  /// A rank may have several stages. Each stage runs its units in its own order.
  void before_forward(const Batch& micro_batch, int64_t stage) override;
  /// From the last backward of a stage on, the all-reduce over replicas may start.
  void before_backward(const StageBackward& backward) override { backward_ = backward; }
  void after_backward(const StageBackward& backward) override;
  /// Waits until all gradients are complete, and reshards all units.
  void end_step() override;
  /// Reshards all units.
  void end_forwards() override;

 private:
  static constexpr int64_t kUnknown = -1, kSeveral = -2;
  friend class UnitNode;
  /// The order in which a stage runs its units.
  struct Order {
    std::vector<size_t> units;  // as in the last forward; before the first, in module-tree order
    bool is_known = true;       // false from a deviation until the end of that forward
    size_t position = 0;        // in the running forward
  };

  void enter_stage(int64_t stage);
  std::vector<at::Tensor> run_root(const std::vector<at::Tensor>& inputs, const Body& body);
  std::vector<at::Tensor> run_with_graph(size_t unit, size_t position, bool is_last,
                                         const std::vector<at::Tensor>& inputs, const Body& body);
  /// Index of this call among the unit calls of the running forward.
  size_t next_position(size_t unit);
  /// Unshards `unit`, which runs at `position` of `order`, and prefetches the next ones in `direction`, 1 or -1.
  void enter(size_t unit, const Order& order, size_t position, int direction);
  /// Whether the running backward is the step's last of `unit`.
  bool is_last_backward(size_t unit) const;
  /// Reduces or accumulates the gradients of `unit` after its backward.
  void reduce(size_t unit);
  void finish_reducing();

  std::span<UnitParameters> parameters_;
  const std::vector<std::unique_ptr<Feature>>& features_;
  UnitOptions options_;
  at::Device device_;
  std::unordered_map<const nn::Module*, size_t> index_;
  std::vector<bool> recomputed_;  // by unit
  std::vector<size_t> order_in_tree_;
  std::map<int64_t, Order> orders_;        // by stage
  int64_t stage_ = 0;                      // stage whose forward runs, or ran last
  std::vector<int64_t> unit_stage_;        // by unit: stage that runs it; kUnknown, or kSeveral
  std::vector<size_t> pending_backwards_;  // by unit: number of forwards of this step whose backward is outstanding
  StageBackward backward_;                 // running, or the last one
  std::optional<size_t> reducing_;         // unit whose reduce-scatter is in flight
};

}  // namespace modular
