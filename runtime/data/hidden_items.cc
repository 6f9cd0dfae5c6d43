#include "runtime/data/hidden_items.h"

#include <algorithm>
#include <vector>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

/// Which of `items` items are hidden. `key` decides.
std::vector<bool> sample_hidden(int64_t items, double probability, uint64_t key) {
  std::vector<bool> hidden(static_cast<size_t>(items));
  if (items < 2) return hidden;
  for (size_t i = 0; i < hidden.size(); ++i)
    hidden[i] = static_cast<double>(mixed(mixed(key) + i) >> 11) * 0x1p-53 < probability;
  const auto count = std::ranges::count(hidden, true);
  const auto one = static_cast<size_t>(mixed(key + 1) % static_cast<uint64_t>(items));
  if (count == 0) hidden[one] = true;
  if (count == items) hidden[one] = false;
  return hidden;
}

at::Tensor get_items(const Batch& batch) {
  return (batch.attention_mask.defined() ? batch.attention_mask : batch.input_ids).ne(0);
}

}  // namespace

Batch HiddenItems::read(std::span<const SamplePosition> places, int64_t samples) const {
  Batch batch = sessions_->read(places, samples);
  batch.labels = batch.labels.clone();
  auto labels = batch.labels.accessor<int64_t, 2>();
  for (int64_t row = 0; row < static_cast<int64_t>(places.size()); ++row) {
    std::vector<int64_t> items;  // by position
    for (int64_t position = 0; position < labels.size(1); ++position)
      if (labels[row][position] != kIgnoredTarget) items.push_back(position);
    const auto count = static_cast<int64_t>(items.size());
    std::vector<bool> hidden(items.size());
    if (probability_)
      hidden = sample_hidden(count, *probability_,
                             mixed(seed_) + static_cast<uint64_t>(places[static_cast<size_t>(row)].position));
    else if (count > 1)
      hidden.back() = true;
    for (size_t i = 0; i < items.size(); ++i)
      if (!hidden[i]) labels[row][items[i]] = kIgnoredTarget;
  }
  return batch;
}

Batch with_next_hidden(const Batch& sessions, int64_t longest) {
  const at::Tensor items = get_items(sessions), counts = items.sum(1);
  const int64_t rows = sessions.input_ids.size(0), width = std::min(sessions.input_ids.size(1) + 1, longest);
  Batch batch;
  batch.want_logits = sessions.want_logits;
  batch.labels = at::full({rows, width}, kIgnoredTarget, at::kLong);
  batch.attention_mask = at::zeros({rows, width}, at::kLong);
  const auto moved = [&](const at::Tensor& values) {
    if (!values.defined()) return values;
    std::vector<int64_t> shape = values.sizes().vec();
    shape[1] = width;
    const at::Tensor made = at::zeros(shape, values.options());
    for (int64_t row = 0; row < rows; ++row) {
      const at::Tensor of_row = values[row].index({items[row]});
      const int64_t kept = std::min(of_row.size(0), width - 1);
      made[row].narrow(0, 0, kept).copy_(of_row.narrow(0, of_row.size(0) - kept, kept));
    }
    return made;
  };
  batch.input_ids = moved(sessions.input_ids);
  batch.feature_ids = moved(sessions.feature_ids);
  batch.feature_values = moved(sessions.feature_values);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t kept = std::min(counts[row].item<int64_t>(), width - 1);
    batch.attention_mask[row].narrow(0, 0, kept + 1).fill_(1);
    batch.labels[row][kept] = 0;
  }
  return batch;
}

}  // namespace modular
