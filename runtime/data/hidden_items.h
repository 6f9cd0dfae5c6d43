// Sessions of which some items are hidden and to be found, as Transformers4Rec hides them (Sun et al., BERT4Rec).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/data/samples.h"

namespace modular {

/// Where a model that learns to find hidden items is trained and judged: labels stay at the items that are hidden.
class HiddenItems final : public Samples {
 public:
  /// `sessions` have a label at each item. With a `probability` each item of a session of two or more is hidden with
  /// it, at least one of them and not all; which, `seed` and the sample's place in the run's order decide alone.
  /// Without one the last item is hidden.
  HiddenItems(std::unique_ptr<Samples> sessions, std::optional<double> probability, uint64_t seed)
      : sessions_(std::move(sessions)), probability_(probability), seed_(seed) {}

  int64_t count() const override { return sessions_->count(); }
  int64_t tokens() const override { return sessions_->tokens(); }
  Batch read(std::span<const SamplePosition> places, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override {
    return sessions_->cut(std::move(batch), step);
  }
  int64_t length(int64_t sample) const override { return sessions_->length(sample); }
  const PartitionOrder* partition_order() const override { return sessions_->partition_order(); }

 private:
  std::unique_ptr<Samples> sessions_;
  std::optional<double> probability_;
  uint64_t seed_;
};

/// `sessions` with one more position, which is hidden: what a model expects next. Sessions that take all of `longest`
/// positions lose their first item. Items are where attention_mask says, or else the id is not 0; those of a row come
/// to stand at its beginning.
Batch with_next_hidden(const Batch& sessions, int64_t longest);

}  // namespace modular
