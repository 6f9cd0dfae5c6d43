#include "runtime/train/evaluation.h"

#include <algorithm>

namespace modular {

StepResult evaluate_samples(ParallelModel& model, const BatchSource& source, int64_t samples) {
  const int64_t count = samples > 0 ? std::min(samples, source.samples()) : source.samples();
  StepResult total;
  for (auto& batches : source.first(count)) {
    to_device(batches, model.mesh().device());
    const auto result = model.evaluate(batches);
    total.loss += result.loss * static_cast<double>(result.target_count);
    total.target_count += result.target_count;
  }
  if (total.target_count > 0) total.loss /= static_cast<double>(total.target_count);
  return total;
}

int64_t data_parallel_rank(const Mesh& mesh) {
  return mesh.coordinate(Axis::dp_replicate) * mesh.size(Axis::dp_shard) + mesh.coordinate(Axis::dp_shard);
}

void to_device(std::vector<Batch>& batches, const at::Device& device) {
  for (auto& batch : batches)
    batch.tensors([&](at::Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.to(device);
    });
}

}  // namespace modular
