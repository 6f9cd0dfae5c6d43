#include "runtime/data/sample_range.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace modular {

Batch SampleRange::read(std::span<const SamplePosition> positions, int64_t rows) const {
  std::vector<SamplePosition> moved(positions.begin(), positions.end());
  for (SamplePosition& position : moved) position.sample += first_;
  return all_->read(moved, rows);
}

Batch SampleRange::cut(Batch batch, std::span<const int64_t> step) const {
  std::vector<int64_t> moved(step.begin(), step.end());
  for (int64_t& sample : moved) sample += first_;
  return all_->cut(std::move(batch), moved);
}

int64_t count_validation_samples(int64_t samples, double part) {
  if (samples < 2) return 0;
  return std::clamp<int64_t>(std::llround(part * static_cast<double>(samples)), 1, samples - 1);
}

}  // namespace modular
