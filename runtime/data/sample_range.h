// Some of the samples of a run's data, as if there were no others.
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
  Batch read(std::span<const SamplePosition> places, int64_t rows) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override { return all_->length(first_ + sample); }

 private:
  std::unique_ptr<Samples> all_;
  int64_t first_, count_;
};

/// How many of `samples` are held out as their last `part`, from 0 to 1: at least one, of less than two none.
int64_t count_validation_samples(int64_t samples, double part);

}  // namespace modular
