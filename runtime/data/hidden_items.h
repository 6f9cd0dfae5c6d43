// Sessions with hidden items as prediction targets, in the way of Transformers4Rec (Sun et al., BERT4Rec).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/data/samples.h"

namespace modular {

/// Training and evaluation samples for prediction of hidden items: labels stay only at the hidden items.
class HiddenItems final : public Samples {
 public:
  /// `sessions` have a label at each item. With a `probability`, each item of a session of two or more is hidden with
  /// this probability, at least one and not all of them; the choice depends only on `seed` and the sample's position in
  /// the run's order. Without a probability, the last item is hidden.
  HiddenItems(std::unique_ptr<Samples> sessions, std::optional<double> probability, uint64_t seed)
      : sessions_(std::move(sessions)), probability_(probability), seed_(seed) {}

  int64_t count() const override { return sessions_->count(); }
  int64_t tokens() const override { return sessions_->tokens(); }
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;
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

/// `sessions` with one more position, which is hidden: the next item, which the model predicts. Sessions of `longest`
/// items lose their first one. Items are marked by attention_mask, or else have an id other than 0; each row's items
/// move to its beginning.
Batch with_next_hidden(const Batch& sessions, int64_t longest);

}  // namespace modular
