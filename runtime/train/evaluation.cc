#include "runtime/train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace modular {

StepResult evaluate_samples(ParallelModel& model, const BatchSource& source, int64_t samples) {
  const int64_t count = samples > 0 ? std::min(samples, source.samples()) : source.samples();
  StepResult total;
  for (int64_t step = 0; step < source.steps_of(count); ++step) {
    const auto result = model.evaluate(source.step_of_first(count, step));
    total.loss += result.loss * static_cast<double>(result.target_count);
    total.target_count += result.target_count;
  }
  if (total.target_count > 0) total.loss /= static_cast<double>(total.target_count);
  if (!std::isfinite(total.loss))
    throw std::runtime_error(
        fmt::format("the loss on held-out files is {}: the weights, or what they compute, are no "
                    "finite numbers; use an older checkpoint",
                    std::abs(total.loss)));  // whose sign says nothing
  return total;
}

int64_t data_parallel_rank(const Mesh& mesh) {
  return mesh.coordinate(Axis::dp_replicate) * mesh.size(Axis::dp_shard) + mesh.coordinate(Axis::dp_shard);
}

}  // namespace modular
