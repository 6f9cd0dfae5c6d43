#include "runtime/parallel/bucketed_reduction.h"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <unordered_map>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Sums a bucket. (The Reducer's own reduction would average it, and the loss is normalized over the whole mesh
/// already.)
class SumHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors = {bucket.getBufferRef()};
    return state_->allreduce(tensors)->getFuture();
  }
};

}  // namespace

BucketedReduction::BucketedReduction(const std::vector<at::Tensor>& parameters, const std::vector<std::string>& names,
                                     const ProcessGroup& replicas)
    : parameters_(parameters), names_(names), replicas_(replicas) {}

void BucketedReduction::make_reducer() {
  std::vector<at::Tensor> used;
  std::unordered_map<size_t, std::string> name_of;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].grad().defined()) continue;
    name_of.emplace(used.size(), names_[i]);
    used.push_back(parameters_[i]);
  }
  const std::vector<bool> sparse(used.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      used, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}, sparse);
  std::ranges::reverse(buckets);  // the backward reaches the last parameters first
  reducer_ = std::make_unique<c10d::Reducer>(
      used, std::move(buckets), replicas_, sparse, c10d::kDefaultBucketBytesCap, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, std::move(name_of), c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>());
  reducer_->register_comm_hook(std::make_unique<SumHook>(replicas_));
}

BucketedReduction::~BucketedReduction() = default;

void BucketedReduction::begin_step() {
  if (reducer_) reducer_->rebuild_buckets();
}

void BucketedReduction::begin_last_backward() {
  if (reducer_) reducer_->prepare_for_backward({});
}

void BucketedReduction::end_step() {
  if (reducer_) return;
  std::vector<Pending> sums;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (at::Tensor& gradient = parameters_[i].mutable_grad(); gradient.defined())
      sums.push_back(all_reduce(replicas_, gradient, "the gradient of " + names_[i]));
  for (Pending& sum : sums) sum.wait();
  make_reducer();
}

}  // namespace modular
