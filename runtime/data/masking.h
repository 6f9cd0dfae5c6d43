// Targets that hide a part of the input: masked tokens of texts (Devlin et al., BERT) and hidden items of sessions, in
// the way of Transformers4Rec (Sun et al., BERT4Rec). Both are sampled again each time that a sample is seen (Liu et
// al., RoBERTa).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "runtime/data/dataset.h"
#include "runtime/data/files.h"

namespace modular {

struct DatasetRequest;
struct Task;

struct Masking {
  double probability = 0.15;  // fraction of the tokens that become targets
  int64_t token = -1;         // [MASK], which replaces a masked token
};

/// Chooses targets among the `tokens` of one sample and writes them into `labels`, with kIgnoredTarget elsewhere. Of
/// the targets, 80 % become the mask token, 10 % a token below `vocab_size`, and 10 % stay. The choice depends only on
/// `key`, so that every mesh and a resumed run choose the same.
void mask_tokens(std::span<int64_t> tokens, std::span<int64_t> labels, const Masking& masking, int64_t vocab_size,
                 uint64_t key);

/// Masking for a task; nullopt if its targets are not masked tokens.
std::optional<Masking> find_masking(const Task& task, const DataOptions& options);

/// Training and evaluation samples for prediction of hidden items: labels stay only at the hidden items.
class HiddenItems final : public Dataset {
 public:
  /// `sessions` have a label at each item. With a `probability`, each item of a session of two or more is hidden with
  /// this probability, at least one and not all of them; the choice depends only on `seed` and the sample's position in
  /// the run's order. Without a probability, the last item is hidden.
  HiddenItems(std::unique_ptr<Dataset> sessions, std::optional<double> probability, uint64_t seed)
      : sessions_(std::move(sessions)), probability_(probability), seed_(seed) {}

  int64_t count() const override { return sessions_->count(); }
  int64_t tokens() const override { return sessions_->tokens(); }
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override {
    return sessions_->cut(std::move(batch), step);
  }
  int64_t length(int64_t sample) const override { return sessions_->length(sample); }
  const PartitionOrder* partition_order() const override { return sessions_->partition_order(); }
  void validate() const override { sessions_->validate(); }
  const Examples* examples() const override { return sessions_->examples(); }

 private:
  std::unique_ptr<Dataset> sessions_;
  std::optional<double> probability_;
  uint64_t seed_;
};

/// Hides items of `samples`, rows without labels, if the model's task is to predict hidden items.
std::unique_ptr<Dataset> hide_items(std::unique_ptr<Dataset> samples, const DatasetRequest& request);

/// `sessions` with one more position, which is hidden: the next item, which the model predicts. Sessions of `longest`
/// items lose their first one. Items are marked by attention_mask, or else have an id other than 0; each row's items
/// move to its beginning.
Batch with_next_hidden(const Batch& sessions, int64_t longest);

}  // namespace modular
