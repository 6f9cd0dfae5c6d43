#include "runtime/parallel/tensor/tensor_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/parameters/sharded_parameter.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A process group inside an autograd node. The graph may outlive the model but not the group.
using Group = ProcessGroup;

Tensor summed(const Group& group, const Tensor& value, const char* what) {
  // A copy: the caller's tensor may be saved for a backward, or be the gradient of several values.
  Tensor sum = value.detach().clone(at::MemoryFormat::Contiguous);
  all_reduce(group, sum, what).wait();
  return sum;
}

/// Whether all `values` are at least 0 and below `limit`. On a GPU it does not wait: a failed device assertion ends the
/// process, like in the single-rank operations.
template <class Limit>  // a number, or a tensor with one element
bool all_below(const Tensor& values, const Limit& limit) {
  const Tensor right = values.ge(0).logical_and(values.lt(limit)).all();
  if (values.is_cpu()) return right.item<bool>();
  at::_assert_async(right, "an index is out of bounds");
  return true;
}

/// Throws for a target beyond the vocabulary, with the error message of the single-rank operation. All ranks see the
/// same targets.
void check_targets(const Tensor& targets, const Tensor& classes) {
  // Masked instead of selected: the size of a selection would require a GPU sync.
  const Tensor counted = targets.masked_fill(targets.eq(kIgnoredTarget), 0);
  if (all_below(counted, classes) || !values_are_known) return;
  const Tensor wrong = counted.masked_select(counted.lt(0).logical_or(counted.ge(classes)));
  TORCH_CHECK_INDEX(false, "Target ", wrong[0].item<int64_t>(), " is out of bounds.");
}

struct Enter : torch::autograd::Function<Enter> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Group& group) {
    context->saved_data["group"] = group;
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    return {summed(group, gradients[0], "the gradient of the input of a tensor-parallel region"), Tensor()};
  }
};

struct Reduce : torch::autograd::Function<Reduce> {
  static Tensor forward(AutogradContext*, const Tensor& partial, const Group& group) {
    return summed(group, partial, "partial sums");
  }
  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0], Tensor()}; }
};

struct SumBothWays : torch::autograd::Function<SumBothWays> {
  static Tensor forward(AutogradContext* context, const Tensor& partial, const Group& group) {
    context->saved_data["group"] = group;
    return summed(group, partial, "sums over a KV replication group");
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    return {summed(group, gradients[0], "the gradient of sums over a KV replication group"), Tensor()};
  }
};

/// Infers the length of each rank's slice from the length `own` of this rank's slice.
std::vector<int64_t> infer_lengths(const Group& group, int64_t own, const std::vector<int64_t>& uneven) {
  const int64_t ranks = group->getSize(), rank = group->getRank();
  std::vector<int64_t> lengths(static_cast<size_t>(ranks), own);
  const auto size = std::ranges::find_if(
      uneven, [&](int64_t candidate) { return to_part_slice({.size = candidate}, ranks, rank).size == own; });
  if (size != uneven.end())
    for (int64_t other = 0; other < ranks; ++other)
      lengths[static_cast<size_t>(other)] = to_part_slice({.size = *size}, ranks, other).size;
  return lengths;
}

/// All-gathers the lengths of the ranks' slices.
std::vector<int64_t> gather_lengths(const Group& group, int64_t own, const at::TensorOptions& options) {
  Tensor lengths = at::zeros({group->getSize()}, options.dtype(at::kLong));
  lengths[group->getRank()].fill_(own);
  all_gather(group, {lengths}, "the sizes of shards").wait();
  lengths = lengths.cpu();
  return {lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel()};
}

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* context, const Tensor& shard, const Group& group, int64_t dim,
                        const std::vector<int64_t>& lengths) {
    const int64_t own = shard.size(dim), rank = group->getRank();
    context->saved_data["dim"] = dim;
    context->saved_data["start"] = std::accumulate(lengths.begin(), lengths.begin() + rank, int64_t{0});
    context->saved_data["length"] = own;
    // The group gathers along a new first dimension, which is then moved before `dim` and merged with it. The last
    // ranks' slices may be shorter: their padding is cut off.
    auto shape = shard.sizes().vec();
    shape[static_cast<size_t>(dim)] = std::ranges::max(lengths);
    shape.insert(shape.begin(), group->getSize());
    Tensor all = at::empty(shape, shard.options());
    all[rank].narrow(dim, 0, own).copy_(shard.detach());
    all_gather(group, {all}, "shards").wait();
    const int64_t full_size = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    return all.movedim(0, dim).flatten(dim, dim + 1).narrow(dim, 0, full_size).contiguous();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor own = gradients[0].narrow(context->saved_data["dim"].toInt(), context->saved_data["start"].toInt(),
                                           context->saved_data["length"].toInt());
    return {own, Tensor(), Tensor(), Tensor()};
  }
};

/// Cross entropy over a vocabulary of which each rank holds a slice of size logits.size(-1); the last ranks may hold
/// fewer classes or none. Keeps the exponentials in one float32 copy of the shard, which the backward turns into the
/// gradient in place.
struct VocabularyCrossEntropy : torch::autograd::Function<VocabularyCrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets, const Group& group) {
    const int64_t local_size = logits.size(-1), ranks = group->getSize(), rank = group->getRank();
    const Tensor flat_targets = targets.reshape({-1});
    const int64_t tokens = flat_targets.numel();
    Tensor flat = logits.detach().flatten(0, -2);
    // A rank with an empty slice uses one dummy class with the lowest logit, which no target selects.
    if (local_size == 0) flat = at::full({tokens, 1}, plain::lowest(flat.scalar_type()), flat.options());

    // Maximum logits followed by the slice sizes, so that the start of this rank's slice is known without waiting.
    const Tensor gathered = at::zeros({tokens + ranks}, flat.options().dtype(at::kFloat));
    const Tensor largest = gathered.narrow(0, 0, tokens), sizes = gathered.narrow(0, tokens, ranks);
    largest.copy_(flat.amax(-1));
    sizes[rank].fill_(local_size);
    all_reduce(group, gathered, "the largest logits", c10d::ReduceOp::MAX).wait();
    const Tensor first = sizes.narrow(0, 0, rank).to(at::kLong).sum();
    check_targets(flat_targets, sizes.to(at::kLong).sum());
    Tensor shifted =
        flat.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).sub_(largest.unsqueeze(-1));  // [tokens, local]

    const Tensor local_target = flat_targets - first;
    const Tensor is_local = local_target.ge(0).logical_and(local_target.lt(local_size));
    const Tensor index = local_target.where(is_local, at::zeros({}, local_target.options())).unsqueeze(-1);
    // Row 0: the target's shifted logit; row 1: the sum of the exponentials. One reduction for both.
    Tensor totals = at::empty({2, flat.size(0)}, shifted.options());
    totals[0].copy_(shifted.gather(-1, index).squeeze(-1).masked_fill_(is_local.logical_not(), 0));
    shifted.exp_();
    totals[1].copy_(shifted.sum(-1));
    all_reduce(group, totals, "the sums of the cross entropy").wait();

    const Tensor counts = flat_targets.ne(kIgnoredTarget);
    const Tensor loss = totals[1].log().sub_(totals[0]).mul_(counts).sum();
    context->save_for_backward({totals[1], index, is_local, counts});
    context->saved_data["exponentials"] = shifted;
    context->saved_data["shape"] = logits.sizes();
    context->saved_data["type"] = logits.scalar_type();
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &total = saved[0], &index = saved[1], &is_local = saved[2], &counts = saved[3];
    TORCH_CHECK(context->saved_data.count("exponentials"),
                "the vocabulary-parallel cross entropy can be differentiated only once");
    Tensor gradient = context->saved_data["exponentials"].toTensor();  // [tokens, local]
    context->saved_data.erase("exponentials");
    const Tensor scale = gradients[0].to(at::kFloat) * counts;  // [tokens]; 0 for ignored targets
    gradient.mul_((scale / total).unsqueeze(-1));
    gradient.scatter_add_(-1, index, (scale * is_local).neg().unsqueeze(-1));
    const auto shape = context->saved_data["shape"].toIntVector();
    gradient = gradient.narrow(-1, 0, shape.back()).to(context->saved_data["type"].toScalarType());
    return {gradient.view(shape), Tensor(), Tensor()};
  }
};

class GroupTensorParallel final : public tp::TensorParallel {
 public:
  GroupTensorParallel(Group group, std::map<int64_t, Group> kv_groups, std::optional<std::vector<int64_t>> uneven)
      : group_(std::move(group)), kv_groups_(std::move(kv_groups)), uneven_(std::move(uneven)) {}
  int64_t size() const override { return group_->getSize(); }
  int64_t rank() const override { return group_->getRank(); }
  Tensor enter(const Tensor& x) override { return Enter::apply(x, group_); }
  Tensor reduce(const Tensor& partial) override { return Reduce::apply(partial, group_); }
  Tensor sum_over_kv_group(const Tensor& partial, int64_t ranks) override {
    return SumBothWays::apply(partial, kv_groups_.at(ranks));
  }
  Tensor gather(const Tensor& shard, int64_t dim) override {
    dim = dim < 0 ? dim + shard.dim() : dim;
    const int64_t own = shard.size(dim);
    return Gather::apply(shard, group_, dim,
                         uneven_ ? infer_lengths(group_, own, *uneven_) : gather_lengths(group_, own, shard.options()));
  }

  Tensor embedding(const Tensor& ids, const Tensor& table_shard, int64_t rows,
                   std::optional<int64_t> padding_idx) override {
    TORCH_CHECK_INDEX(all_below(ids, rows), "index out of range in self");
    const PartSlice own = to_part_slice({.size = rows}, size(), rank());
    const Tensor local = ids - own.begin;
    const Tensor elsewhere = local.lt(0).logical_or(local.ge(own.size));
    // -1 means "no padding row"; a row on another rank does not exist here.
    const int64_t padding = padding_idx.value_or(-1) - own.begin;
    // A rank without rows looks up a row of zeros, so that its graph leads to the table on every rank.
    const Tensor table = own.size > 0 ? table_shard : at::constant_pad_nd(table_shard, {0, 0, 0, 1});
    const Tensor found = at::embedding(table, local.masked_fill(elsewhere, 0),
                                       padding_idx && padding >= 0 && padding < own.size ? padding : -1);
    return reduce(found.masked_fill(elsewhere.unsqueeze(-1), 0));
  }

  Tensor cross_entropy(const Tensor& logits_shard, const Tensor& targets) override {
    return VocabularyCrossEntropy::apply(logits_shard, targets, group_);
  }

 private:
  Group group_;
  std::map<int64_t, Group> kv_groups_;
  std::optional<std::vector<int64_t>> uneven_;
};

}  // namespace

std::unique_ptr<tp::TensorParallel> make_tensor_parallel(ProcessGroup group, std::map<int64_t, ProcessGroup> kv_groups,
                                                         std::optional<std::vector<int64_t>> uneven) {
  return std::make_unique<GroupTensorParallel>(std::move(group), std::move(kv_groups), std::move(uneven));
}

namespace {

struct GatherRows : torch::autograd::Function<GatherRows> {
  static Tensor forward(AutogradContext* context, const Tensor& rows, const ProcessGroup& group) {
    context->saved_data["group"] = group;
    std::vector<int64_t> shape = rows.sizes().vec();
    shape.insert(shape.begin(), group->getSize());
    Tensor all = at::empty(shape, rows.options());
    all[group->getRank()].copy_(rows.detach());
    all_gather(group, {all}, "the rows of data-parallel ranks").wait();
    return all.flatten(0, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    const Tensor all = gradients[0].contiguous();
    std::vector<int64_t> shape = all.sizes().vec();
    shape[0] /= group->getSize();
    Tensor own = at::empty(shape, all.options());
    reduce_scatter(group, own.flatten(), all.flatten(), "the gradients of rows of data-parallel ranks").wait();
    return {own, Tensor()};
  }
};

class GroupDataParallel final : public dp::DataParallel {
 public:
  explicit GroupDataParallel(ProcessGroup group) : group_(std::move(group)) {}
  int64_t rank() const override { return group_->getRank(); }
  Tensor gather(const Tensor& rows) override { return GatherRows::apply(rows, group_); }

 private:
  ProcessGroup group_;
};

}  // namespace

std::unique_ptr<dp::DataParallel> make_data_parallel(ProcessGroup group) {
  return std::make_unique<GroupDataParallel>(std::move(group));
}

}  // namespace modular
