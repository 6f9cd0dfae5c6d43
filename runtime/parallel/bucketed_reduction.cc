#include "runtime/parallel/bucketed_reduction.h"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <unordered_map>

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
                                     const ProcessGroup& replicas) {
  const std::vector<bool> sparse(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap}, sparse);
  std::ranges::reverse(buckets);  // the backward reaches the last parameters first
  std::unordered_map<size_t, std::string> name_of;
  for (size_t i = 0; i < names.size(); ++i) name_of.emplace(i, names[i]);
  reducer_ = std::make_unique<c10d::Reducer>(
      parameters, std::move(buckets), replicas, sparse, c10d::kDefaultBucketBytesCap, /*find_unused_parameters=*/false,
      /*gradient_as_bucket_view=*/true, std::move(name_of), c10d::kDefaultFirstBucketBytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>());
  reducer_->register_comm_hook(std::make_unique<SumHook>(replicas));
}

BucketedReduction::~BucketedReduction() = default;

void BucketedReduction::begin_step() { reducer_->rebuild_buckets(); }

void BucketedReduction::begin_last_backward() { reducer_->prepare_for_backward({}); }

}  // namespace modular
