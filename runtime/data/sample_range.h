// A contiguous part of a run's samples, which hides the others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "runtime/data/samples.h"

namespace modular {

class SampleRange final : public Samples {
 public:
  /// Samples [first, first + count) of `all`.
  SampleRange(std::unique_ptr<Samples> all, int64_t first, int64_t count)
      : all_(std::move(all)), first_(first), count_(count) {}

  int64_t count() const override { return count_; }
  int64_t tokens() const override { return all_->tokens(); }
  Batch read(std::span<const SamplePosition> positions, int64_t rows) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override { return all_->length(first_ + sample); }

 private:
  std::unique_ptr<Samples> all_;
  int64_t first_, count_;
};

/// Number of validation samples: the last `part` (from 0 to 1) of `samples`; at least one, and 0 if there are fewer
/// than two samples.
int64_t count_validation_samples(int64_t samples, double part);

}  // namespace modular
