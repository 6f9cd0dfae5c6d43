#include "runtime/parallel/tensor/sequence_parallel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns the number of positions of each rank.
int64_t find_share(const ProcessGroup& group, const Tensor& x, int64_t dim) {
  const int64_t ranks = group->getSize();
  TORCH_CHECK(x.size(dim) % ranks == 0, "sequence parallelism divides dimension ", dim, " of a value of shape ",
              x.sizes(), " into ", ranks,
              " equal parts: the number of positions between layers must be that of the batch's tokens; set "
              "parallel.sequence to false");
  return x.size(dim) / ranks;
}

/// This rank's part of `x`, in memory of its own: a view would keep the full value alive.
Tensor take_part(const ProcessGroup& group, const Tensor& x, int64_t dim) {
  const int64_t share = find_share(group, x, dim);
  return x.narrow(dim, group->getRank() * share, share).clone(at::MemoryFormat::Contiguous);
}

Tensor gather_parts(const ProcessGroup& group, const Tensor& part, int64_t dim) {
  std::vector<int64_t> shape = part.sizes().vec();
  shape.insert(shape.begin(), group->getSize());
  const Tensor all = at::empty(shape, part.options());
  all[group->getRank()].copy_(part);
  all_gather(group, {all}, "the positions of tensor-parallel ranks").wait();
  return all.movedim(0, dim).flatten(dim, dim + 1).contiguous();
}

/// This rank's part of the sum of all ranks' `partial`.
Tensor sum_parts(const ProcessGroup& group, const Tensor& partial, int64_t dim) {
  const int64_t share = find_share(group, partial, dim);
  const Tensor by_rank = partial.unflatten(dim, {group->getSize(), share}).movedim(dim, 0).contiguous();
  const Tensor sum = at::empty_like(by_rank[0], at::MemoryFormat::Contiguous);
  reduce_scatter(group, sum, by_rank, "partial sums of tensor-parallel ranks").wait();
  return sum;
}

/// Applies one of the functions above, and another one to the gradient.
template <auto forwards, auto backwards>
struct Collective : torch::autograd::Function<Collective<forwards, backwards>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const ProcessGroup& group, int64_t dim) {
    dim = c10::maybe_wrap_dim(dim, x.dim());
    context->saved_data["group"] = group;
    context->saved_data["dim"] = dim;
    return forwards(group, x.detach(), dim);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    return {backwards(group, gradients[0], context->saved_data["dim"].toInt()), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor SequenceShares::part(const Tensor& x, int64_t dim) {
  return Collective<take_part, gather_parts>::apply(x, tp_, dim);
}
Tensor SequenceShares::whole(const Tensor& share, int64_t dim) {
  return Collective<gather_parts, take_part>::apply(share, tp_, dim);
}
Tensor SequenceShares::enter(const Tensor& share, int64_t dim) {
  const Tensor all = Collective<gather_parts, sum_parts>::apply(share, tp_, dim);
  if (SavedTensors* const saved = SavedTensors::recording())
    saved->record(all, {share}, [tp = tp_, dim = c10::maybe_wrap_dim(dim, share.dim())](const auto& shares) {
      return gather_parts(tp, shares[0], dim);
    });
  return all;
}
Tensor SequenceShares::exit(const Tensor& partial, int64_t dim) {
  return Collective<sum_parts, gather_parts>::apply(partial, tp_, dim);
}

bool SequenceShares::divides(const Batch& batch) const {
  const auto divides_length = [&](const Tensor& ids) {
    return ids.dim() >= 2 && (context_ ? context_->count(ids.size(1)) : ids.size(1)) % tp_->getSize() == 0;
  };
  // A vision tower's positions are made in the model.
  if (!batch.input_ids.defined() || !divides_length(batch.input_ids)) return false;
  const Tensor& of_decoder = batch.decoder_input_ids.defined() ? batch.decoder_input_ids : batch.labels;
  return !two_stacks_ || !of_decoder.defined() || divides_length(of_decoder);
}

void SequenceShares::begin_step(TrainingStep& step) {
  counts_at_ = step.counts.size();
  step.counts.push_back(static_cast<double>(
      std::ranges::count_if(step.micro_batches, [&](const Batch& batch) { return !divides(batch); })));
}

tp::SequenceParallel* SequenceShares::for_step(const TrainingStep& step) {
  in_step_ = step.counts[counts_at_] == 0.0;
  return in_step_ ? this : nullptr;
}

tp::SequenceParallel* SequenceShares::for_batches(std::span<const Batch> batches) {
  return std::ranges::all_of(batches, [&](const Batch& batch) { return divides(batch); }) ? this : nullptr;
}

void SequenceShares::reduce_gradients(std::vector<ShardedParameter>& slices) {
  if (!in_step_) return;
  std::vector<at::Tensor> partial;
  for (const ShardedParameter& slice : slices)
    if (slice.trainable && slice.partial_in_sequence) partial.push_back(slice.grad);
  sum_coalesced(tp_, partial, "the gradients of positions");
}

std::string sequence_error(const Entry& entry, std::optional<bool> wanted) {
  if (!wanted.value_or(false) || !entry.plan->sequence.empty()) return {};
  return fmt::format(
      "parallel.sequence is true, but {} has no layers that run on a part of the positions: leave it out, or set it to "
      "false",
      entry.architecture);
}

}  // namespace modular
