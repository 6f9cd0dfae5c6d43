#include "runtime/parallel/fsdp/unit_parameters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/own_gradient.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
UnitParameters::UnitParameters(std::string name, UnitLayout layout, const DataParallelGroups& groups,
                               at::ScalarType compute, const at::Device& device, const Offload& offload)
    : name_(std::move(name)),
      layout_(std::move(layout)),
      groups_(groups),
      in_host_memory_(offload.parameters),
      on_device_(at::TensorOptions().dtype(at::kFloat).device(device)) {
  const auto on_host = [&] { return empty_on_host({layout_.shard_size}, at::kFloat, device).zero_(); };
  shard_ = in_host_memory_ ? on_host() : at::zeros({layout_.shard_size}, on_device_);
  if (offload.optimizer && !in_host_memory_) master_ = on_host();
  if (frees_full() || compute != at::kFloat)
    full_ = at::empty({layout_.ranks * layout_.shard_size}, on_device_.dtype(compute));
  for (ParameterPlacement& parameter : layout_.parameters)
    make_real(parameter.registered, layout_.full(full_.defined() ? full_ : shard_, parameter));
  if (frees_full()) free_storage(full_);
}

at::Tensor UnitParameters::local(const ParameterPlacement& parameter) const {
  return layout_.local(master_.defined() ? master_ : shard_, parameter, groups_.shard_rank);
}

at::Tensor UnitParameters::gradient(const ParameterPlacement& parameter) const {
  if (!in_place_) return layout_.local(gradient_, parameter, groups_.shard_rank);
  const at::Tensor& found = parameter.registered.grad();
  return found.defined() ? found : at::zeros_like(parameter.registered);
}

bool UnitParameters::skips_copy_out() const {
  // One message costs a backend about as much as copying this many bytes.
  constexpr size_t kWorthAMessage = 256 * 1024;
  const auto bytes = static_cast<size_t>(layout_.shard_size) * full_.element_size();
  const auto in_one_piece = [](const ParameterPlacement& parameter) { return parameter.outer == 1; };
  return bytes >= kWorthAMessage * layout_.parameters.size() && std::ranges::all_of(layout_.parameters, in_one_piece);
}

void UnitParameters::prefetch() {
  if (is_unsharded() || all_gather_.active()) return;
  const AllocatesFor purpose(MemoryPurpose::gathered);
  if (!sharded()) {  // same layout as the shard
    allocate_storage(full_);
    full_.copy_(shard_, /*non_blocking=*/true);
    return;
  }
  std::vector<at::Tensor> gathered;
  if (skips_copy_out()) {
    allocate_storage(full_);
    for (const ParameterPlacement& parameter : layout_.parameters) {
      if (parameter.chunk() == 0) continue;
      gathered.push_back(layout_.chunks(full_, parameter));
      gathered.back()[groups_.shard_rank].copy_(shard_.narrow(0, parameter.offset, parameter.chunk()),
                                                /*non_blocking=*/true);
    }
  } else {
    all_gather_output_ = at::empty(full_.sizes(), full_.options());
    all_gather_output_.narrow(0, groups_.shard_rank * layout_.shard_size, layout_.shard_size)
        .copy_(shard_, /*non_blocking=*/true);
    gathered = {all_gather_output_};
  }
  all_gather_ = all_gather(groups_.shard, gathered, "the parameters of " + name_);
}

void UnitParameters::unshard() {
  prefetch();
  all_gather_.wait();
  if (!all_gather_output_.defined()) return;
  const AllocatesFor purpose(MemoryPurpose::gathered);
  allocate_storage(full_);
  const at::Tensor by_rank = all_gather_output_.view({layout_.ranks, layout_.shard_size});
  for (const ParameterPlacement& parameter : layout_.parameters)
    for (const auto& [in_full, in_shards] : layout_.shard_views(layout_.full(full_, parameter), by_rank, parameter))
      in_full.copy_(in_shards);
  free_storage(std::exchange(all_gather_output_, {}));
}

void UnitParameters::reshard() {
  all_gather_.wait();  // in case a prefetched all-gather was not used
  if (all_gather_output_.defined()) free_storage(std::exchange(all_gather_output_, {}));
  if (frees_full() && is_unsharded()) free_storage(full_);
}

void UnitParameters::refresh() {
  if (master_.defined()) shard_.copy_(master_, /*non_blocking=*/true);
  if (!frees_full() && full_.defined()) full_.copy_(shard_);
}

void UnitParameters::begin_step(bool in_place) {
  in_place_ = in_place;
  gradient_.reset();
  all_reduce_started_ = false;
  for (ParameterPlacement& parameter : layout_.parameters) parameter.registered.mutable_grad().reset();
}

void UnitParameters::accumulate_unsharded() {
  if (!sharded()) return accumulate_gradients();
  const AllocatesFor purpose(MemoryPurpose::unreduced_gradients);
  if (!unsharded_gradients_.defined())
    unsharded_gradients_ = at::zeros({layout_.ranks * layout_.shard_size}, on_device_);
  for (ParameterPlacement& parameter : layout_.parameters)
    if (const at::Tensor grad = std::exchange(parameter.registered.mutable_grad(), {}); grad.defined())
      layout_.full(unsharded_gradients_, parameter).add_(grad);
}

void UnitParameters::start_reduction() {
  if (!sharded()) return accumulate_gradients();
  if (unsharded_gradients_.defined()) accumulate_unsharded();
  const AllocatesFor purpose(MemoryPurpose::unreduced_gradients);
  TORCH_INTERNAL_ASSERT(!reduce_scatter_.active());
  reduce_scatter_input_ = at::empty({layout_.ranks * layout_.shard_size}, on_device_);
  const at::Tensor by_rank = reduce_scatter_input_.view({layout_.ranks, layout_.shard_size});
  for (ParameterPlacement& parameter : layout_.parameters) {
    if (parameter.chunk() == 0) continue;
    at::Tensor grad = std::exchange(parameter.registered.mutable_grad(), {});
    if (unsharded_gradients_.defined()) grad = layout_.full(unsharded_gradients_, parameter);
    if (!grad.defined()) {
      by_rank.narrow(1, parameter.offset, parameter.chunk()).zero_();
      continue;
    }
    for (const auto& [in_full, in_shards] : layout_.shard_views(grad.contiguous(), by_rank, parameter))
      in_shards.copy_(in_full);
    layout_.clear_padding(by_rank, parameter);
  }
  if (unsharded_gradients_.defined()) free_storage(std::exchange(unsharded_gradients_, {}));
  {
    const AllocatesFor stays(MemoryPurpose::gradients);
    reduce_scatter_output_ = at::empty({layout_.shard_size}, on_device_);
  }
  reduce_scatter_ =
      reduce_scatter(groups_.shard, reduce_scatter_output_, reduce_scatter_input_, "the gradients of " + name_);
}

void UnitParameters::accumulate_gradients() {
  if (in_place_) {
    for (const ParameterPlacement& parameter : layout_.parameters) own_gradient(parameter.registered);
    return;
  }
  const AllocatesFor purpose(MemoryPurpose::gradients);
  const bool first = !gradient_.defined();
  if (first) gradient_ = at::empty({layout_.shard_size}, on_device_);
  int64_t written = 0;
  for (ParameterPlacement& parameter : layout_.parameters) {
    const at::Tensor grad = std::exchange(parameter.registered.mutable_grad(), {});
    if (!first) {
      if (grad.defined()) layout_.full(gradient_, parameter).add_(grad);
      continue;
    }
    const int64_t begin = layout_.ranks * parameter.offset;
    if (begin > written) gradient_.narrow(0, written, begin - written).zero_();  // alignment padding
    const at::Tensor sum = layout_.full(gradient_, parameter);
    grad.defined() ? sum.copy_(grad) : sum.zero_();
    written = begin + parameter.elements();
  }
  if (first) gradient_.narrow(0, written, layout_.shard_size - written).zero_();
}

void UnitParameters::finish_reduction(bool last) {
  if (reduce_scatter_.active()) {
    reduce_scatter_.wait();
    gradient_ = gradient_.defined() ? gradient_.add_(reduce_scatter_output_) : reduce_scatter_output_;
    reduce_scatter_output_.reset();
    free_storage(std::exchange(reduce_scatter_input_, {}));
  }
  if (!last || all_reduce_started_ || in_place_) return;
  const AllocatesFor purpose(MemoryPurpose::gradients);
  all_reduce_started_ = true;
  if (!gradient_.defined()) gradient_ = at::zeros({layout_.shard_size}, on_device_);
  if (groups_.replicate && layout_.shard_size > 0)
    all_reduce_ = all_reduce(groups_.replicate, gradient_, "the gradients of " + name_);
}

void UnitParameters::finish_step() {
  finish_reduction(/*last=*/true);
  all_reduce_.wait();
}

}  // namespace modular
