#include "runtime/parallel/tensor_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A process group inside an autograd node: the graph may outlive the model, never the group.
using Group = ProcessGroup;

Tensor summed(const Group& group, const Tensor& value, const char* what) {
  // A copy: the caller's tensor may be saved for a backward, or be the gradient of several values.
  Tensor sum = value.detach().clone(at::MemoryFormat::Contiguous);
  all_reduce(group, sum, what).wait();
  return sum;
}

/// Whether all of `values` are at least 0 and below `limit`. A GPU is not waited for: there a failed assertion on the
/// device ends the process, as in the operations on one rank.
bool all_below(const Tensor& values, int64_t limit) {
  const Tensor right = values.ge(0).logical_and(values.lt(limit)).all();
  if (values.is_cpu()) return right.item<bool>();
  at::_assert_async(right, "an index is out of bounds");
  return true;
}

/// Refuses a target beyond the vocabulary in the sentence of the operation on one rank. All ranks see the same targets.
void check_targets(const Tensor& targets, int64_t classes) {
  const Tensor counted = targets.masked_select(targets.ne(kIgnoredTarget));
  if (all_below(counted, classes)) return;
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
    return {summed(group, gradients[0], "the gradient of what enters a tensor parallel region"), Tensor()};
  }
};

struct Reduce : torch::autograd::Function<Reduce> {
  static Tensor forward(AutogradContext*, const Tensor& partial, const Group& group) {
    return summed(group, partial, "partial sums");
  }
  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0], Tensor()}; }
};

struct Gather : torch::autograd::Function<Gather> {
  static Tensor forward(AutogradContext* context, const Tensor& shard, const Group& group, int64_t dim) {
    dim = dim < 0 ? dim + shard.dim() : dim;
    context->saved_data["dim"] = dim;
    context->saved_data["start"] = group->getRank() * shard.size(dim);
    context->saved_data["length"] = shard.size(dim);
    // The group concatenates along a new first dimension; moving that before `dim` makes the two one.
    auto shape = shard.sizes().vec();
    shape.insert(shape.begin(), group->getSize());
    Tensor all = at::empty(shape, shard.options());
    all[group->getRank()].copy_(shard.detach());
    all_gather(group, {all}, "shards").wait();
    return all.movedim(0, dim).flatten(dim, dim + 1).contiguous();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor own = gradients[0].narrow(context->saved_data["dim"].toInt(), context->saved_data["start"].toInt(),
                                           context->saved_data["length"].toInt());
    return {own, Tensor(), Tensor()};
  }
};

/// Cross entropy over a vocabulary of which each rank holds the slice [first, first + logits.size(-1)). Keeps the
/// exponentials in one float32 copy of the shard, which the backward turns into the gradient.
struct VocabularyCrossEntropy : torch::autograd::Function<VocabularyCrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets, const Group& group) {
    const int64_t local_size = logits.size(-1);
    const int64_t first = group->getRank() * local_size;
    const Tensor flat = logits.detach().reshape({-1, local_size});
    const Tensor flat_targets = targets.reshape({-1});
    check_targets(flat_targets, local_size * group->getSize());

    Tensor largest = flat.amax(-1, /*keepdim=*/true).to(at::kFloat);  // [tokens, 1]
    all_reduce(group, largest, "the largest logits", c10d::ReduceOp::MAX).wait();
    Tensor shifted = flat.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).sub_(largest);  // [tokens, local]

    const Tensor local_target = flat_targets - first;
    const Tensor is_local = local_target.ge(0).logical_and(local_target.lt(local_size));
    const Tensor index = local_target.where(is_local, at::zeros({}, local_target.options())).unsqueeze(-1);
    // Row 0: the target's shifted logit; row 1: the sum of the exponentials. One reduction for both.
    Tensor totals = at::empty({2, flat.size(0)}, shifted.options());
    totals[0].copy_(shifted.gather(-1, index).squeeze(-1).mul_(is_local));
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
                "the vocabulary-parallel cross entropy can be differentiated once");
    Tensor gradient = context->saved_data["exponentials"].toTensor();  // [tokens, local]
    context->saved_data.erase("exponentials");
    const Tensor scale = gradients[0].to(at::kFloat) * counts;  // [tokens]; 0 for ignored targets
    gradient.mul_((scale / total).unsqueeze(-1));
    gradient.scatter_add_(-1, index, (scale * is_local).neg().unsqueeze(-1));
    return {gradient.to(context->saved_data["type"].toScalarType()).view(context->saved_data["shape"].toIntVector()),
            Tensor(), Tensor()};
  }
};

class GroupTensorParallel final : public tp::TensorParallel {
 public:
  explicit GroupTensorParallel(Group group) : group_(std::move(group)) {}
  int64_t size() const override { return group_->getSize(); }
  int64_t rank() const override { return group_->getRank(); }
  Tensor enter(const Tensor& x) override { return Enter::apply(x, group_); }
  Tensor reduce(const Tensor& partial) override { return Reduce::apply(partial, group_); }
  Tensor gather(const Tensor& shard, int64_t dim) override { return Gather::apply(shard, group_, dim); }

  Tensor embedding(const Tensor& ids, const Tensor& table_shard, std::optional<int64_t> padding_idx) override {
    const int64_t rows = table_shard.size(0);
    TORCH_CHECK_INDEX(all_below(ids, rows * size()), "index out of range in self");
    const Tensor local = ids - rank() * rows;
    const Tensor elsewhere = local.lt(0).logical_or(local.ge(rows));
    // -1 means "no padding row"; a row that another rank holds does not exist here.
    const int64_t padding = padding_idx.value_or(-1) - rank() * rows;
    const Tensor found = at::embedding(table_shard, local.masked_fill(elsewhere, 0),
                                       padding_idx && padding >= 0 && padding < rows ? padding : -1);
    return reduce(found.masked_fill(elsewhere.unsqueeze(-1), 0));
  }

  Tensor cross_entropy(const Tensor& logits_shard, const Tensor& targets) override {
    return VocabularyCrossEntropy::apply(logits_shard, targets, group_);
  }

 private:
  Group group_;
};

}  // namespace

std::unique_ptr<tp::TensorParallel> make_tensor_parallel(ProcessGroup group) {
  return std::make_unique<GroupTensorParallel>(std::move(group));
}

}  // namespace modular
