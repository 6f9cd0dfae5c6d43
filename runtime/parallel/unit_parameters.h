// The parameters and gradients of one FSDP unit (Zhao et al., PyTorch FSDP; Rajbhandari et al., ZeRO): gathered whole
// in one collective, freed, and their gradients summed and scattered in one collective.
#pragma once

#include <string>

#include "runtime/mesh/collectives.h"
#include "runtime/mesh/storage.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/memory_options.h"
#include "runtime/parallel/unit_layout.h"

namespace modular {

/// Between gather and release the registered tensors hold the full parameters; from prefetch on they have storage,
/// else none. Where each rank keeps full parameters anyway, on the device, these calls do nothing.
class UnitParameters {
 public:
  /// Allocates this rank's shards in float32 and makes the layout's registered meta tensors real, in type `compute`.
  /// With `offload` local() is in host memory, of which refresh() makes a copy on the device or, where parameters are
  /// offloaded, gather().
  UnitParameters(std::string name, UnitLayout layout, const DataParallelGroups& groups, at::ScalarType compute,
                 const at::Device& device, const Offload& offload);
  UnitParameters(UnitParameters&&) = default;

  const std::string& name() const { return name_; }
  const UnitLayout& layout() const { return layout_; }

  /// This rank's part of a parameter, float32.
  at::Tensor local(const ParameterPlacement& parameter) const;
  /// Its gradient after finish_step; a view like local(), or what one backward left.
  at::Tensor gradient(const ParameterPlacement& parameter) const;

  /// Begins to gather; gather() then waits for less. No effect where that was done or is under way.
  void prefetch();
  /// Returns with full parameters.
  void gather();
  /// Frees them.
  void release();
  /// Takes over new values of the shards.
  void refresh();

  /// Forgets the gradients of the step before. Where one backward alone gives all of the next ones, on one rank, they
  /// stay where it leaves them, and of the type that is computed in.
  void begin_step(bool of_one_backward = false);
  /// Takes the gradients that the backward left in the registered tensors, and adds them to what this rank keeps for a
  /// later sum over the ranks, whole and in float32.
  void keep_gradients();
  bool has_kept_gradients() const { return kept_.defined(); }
  /// Takes those gradients with what was kept, and begins to sum them over the ranks that share the parameters. Adds to
  /// what earlier sums of this step left.
  void start_reduction();
  /// Whether such a sum is under way; not where each rank keeps full parameters.
  bool is_reducing() const { return reducing_.active(); }
  /// Waits for that sum. With `last`, for which the step has no further gradients of this unit, begins the sum over
  /// replicas.
  void finish_reduction(bool last);
  /// Waits for all sums.
  void finish_step();

 private:
  bool sharded() const { return layout_.ranks > 1 && layout_.shard_size > 0; }
  /// Whether full parameters are there between gather and release alone.
  bool is_freed() const { return sharded() || (in_host_memory_ && layout_.shard_size > 0); }
  bool is_whole() const { return !is_freed() || has_storage(full_); }
  bool without_copies() const;
  void accumulate_gradients();

  std::string name_;
  UnitLayout layout_;
  DataParallelGroups groups_;
  bool in_host_memory_;          // where the shard is
  at::TensorOptions on_device_;  // float32
  at::Tensor shard_;             // [shard_size] float32
  at::Tensor master_;            // the same in host memory, which the optimizer updates; undefined where that is shard_
  at::Tensor
      full_;  // [ranks * shard_size] in the type of the computation; undefined where the modules use shard_ itself
  at::Tensor gradient_;  // [shard_size] float32, summed over the micro-batches so far; undefined before the first

  at::Tensor kept_;  // [ranks * shard_size] float32, laid out as full_: this rank's gradients, not summed yet

  at::Tensor gathered_;  // [ranks * shard_size], while a gather is under way that does not go straight to full_
  Pending gathering_;
  at::Tensor unreduced_;  // [ranks * shard_size] float32, while a reduction is under way
  at::Tensor reduced_;    // [shard_size], what it gives
  Pending reducing_;
  bool replicas_started_ = false;
  bool of_one_backward_ = false;  // and gradient_ is not used
  Pending over_replicas_;
};

}  // namespace modular
