// Parameters and gradients of one FSDP unit (Zhao et al., PyTorch FSDP; Rajbhandari et al., ZeRO): unsharded by one
// all-gather, resharded, and their gradients reduced by one reduce-scatter.
#pragma once

#include <string>

#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/mesh/storage.h"
#include "runtime/parallel/fsdp/unit_layout.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

/// Groups over which a rank shards parameters and reduces gradients. A null group contains only this rank.
struct DataParallelGroups {
  ProcessGroup shard;  // ranks that shard each parameter
  int64_t shard_size = 1;
  int64_t shard_rank = 0;
  ProcessGroup replicate;  // ranks that hold the same shard
};

/// Returns the groups of this rank of `mesh`.
inline DataParallelGroups data_parallel_groups(Mesh& mesh) {
  DataParallelGroups groups;
  groups.shard = mesh.group(kShardAxes);
  groups.shard_size = mesh.size(kShardAxes);
  groups.shard_rank = mesh.coordinate(kShardAxes);
  groups.replicate = mesh.group(kReplicateAxes);
  return groups;
}

/// Between unshard() and reshard() the registered tensors hold the full parameters. They have storage from prefetch()
/// on, otherwise none. If each rank holds the full parameters on the device anyway, these calls do nothing.
class UnitParameters {
 public:
  /// Allocates this rank's shards in float32 and materializes the layout's registered meta tensors, in type `compute`.
  /// With `offload`, local() is in host memory. refresh() copies it to the device or, if parameters are offloaded,
  /// unshard() does.
  UnitParameters(std::string name, UnitLayout layout, const DataParallelGroups& groups, at::ScalarType compute,
                 const at::Device& device, const Offload& offload);
  UnitParameters(UnitParameters&&) = default;

  const std::string& name() const { return name_; }
  const UnitLayout& layout() const { return layout_; }

  /// This rank's shard of a parameter, float32.
  at::Tensor local(const ParameterPlacement& parameter) const;
  /// Gradient of the shard after finish_step(): a view like local(), or the tensor that autograd left.
  at::Tensor gradient(const ParameterPlacement& parameter) const;

  /// Starts the all-gather, so that unshard() waits less. No effect if the parameters are unsharded or in flight.
  void prefetch();
  /// Unshards the parameters.
  void unshard();
  /// Frees the unsharded parameters.
  void reshard();
  /// Publishes new values of the shards to the compute copies.
  void refresh();

  /// Drops the gradients of the previous step. With `in_place`, those of the next step stay where autograd accumulates
  /// them, in the compute type, and the calls below do nothing. Requires that no other rank has gradients of this unit.
  void begin_step(bool in_place = false);
  /// Moves the gradients of a backward from the registered tensors into an unsharded float32 accumulator, to be reduced
  /// later.
  void accumulate_unsharded();
  bool has_unsharded_gradients() const { return unsharded_gradients_.defined(); }
  /// Moves the gradients of a backward, plus the accumulated unsharded ones, into a reduce-scatter over the sharding
  /// ranks and starts it. The result is added to those of earlier reductions in this step.
  void start_reduction();
  /// Whether a reduce-scatter is in flight; false if each rank holds the full parameters.
  bool is_reducing() const { return reduce_scatter_.active(); }
  /// Waits for the reduce-scatter. With `last`, no further gradients of this unit follow in the step, and the
  /// all-reduce over replicas is started.
  void finish_reduction(bool last);
  /// Waits for all reductions.
  void finish_step();

 private:
  bool sharded() const { return layout_.ranks > 1 && layout_.shard_size > 0; }
  /// Whether the full parameters exist only between unshard() and reshard().
  bool frees_full() const { return sharded() || (in_host_memory_ && layout_.shard_size > 0); }
  bool is_unsharded() const { return !frees_full() || has_storage(full_); }
  bool skips_copy_out() const;
  void accumulate_gradients();

  std::string name_;
  UnitLayout layout_;
  DataParallelGroups groups_;
  bool in_host_memory_;          // whether the shard is in host memory
  at::TensorOptions on_device_;  // float32
  at::Tensor shard_;             // [shard_size] float32
  at::Tensor master_;            // master copy in host memory, which the optimizer updates; undefined if that is shard_
  at::Tensor full_;              // [ranks * shard_size] in the compute type; undefined if the modules use shard_ itself
  at::Tensor gradient_;          // [shard_size] float32, sum over the micro-batches so far; undefined before the first

  at::Tensor unsharded_gradients_;  // [ranks * shard_size] float32, same layout as full_: this rank's gradients, not
                                    // reduced yet

  at::Tensor all_gather_output_;  // [ranks * shard_size], during an all-gather that needs a copy-out to full_
  Pending all_gather_;
  at::Tensor reduce_scatter_input_;   // [ranks * shard_size] float32, while a reduce-scatter is in flight
  at::Tensor reduce_scatter_output_;  // [shard_size], result of the reduce-scatter
  Pending reduce_scatter_;
  bool all_reduce_started_ = false;
  bool in_place_ = false;  // gradient_ is not used then
  Pending all_reduce_;
};

}  // namespace modular
