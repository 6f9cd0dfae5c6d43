#include "runtime/data/masking.h"

#include <algorithm>
#include <vector>

#include "runtime/data/data_formats.h"
#include "runtime/model/tasks.h"
#include "runtime/model/tensors.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

/// Uniform in [0, 1).
double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Samples which of `items` items are hidden, as a function of `key`.
std::vector<bool> sample_hidden(int64_t items, double probability, uint64_t key) {
  std::vector<bool> hidden(static_cast<size_t>(items));
  if (items < 2) return hidden;
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = uniform(mixed(mixed(key) + i)) < probability;
  const auto count = std::ranges::count(hidden, true);
  const auto forced = static_cast<size_t>(mixed(key + 1) % static_cast<uint64_t>(items));
  if (count == 0) hidden[forced] = true;
  if (count == items) hidden[forced] = false;
  return hidden;
}

at::Tensor get_items(const Batch& batch) {
  return (batch.attention_mask.defined() ? batch.attention_mask : batch.input_ids).ne(0);
}

}  // namespace

void mask_tokens(std::span<int64_t> tokens, std::span<int64_t> labels, const Masking& masking, int64_t vocab_size,
                 uint64_t key) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint64_t chosen = mixed(mixed(key) + i), kind = mixed(chosen), replacement = mixed(kind);
    const bool is_target = uniform(chosen) < masking.probability;
    labels[i] = is_target ? tokens[i] : kIgnoredTarget;
    if (!is_target) continue;
    if (uniform(kind) < 0.8)
      tokens[i] = masking.token;
    else if (uniform(kind) < 0.9)
      tokens[i] = static_cast<int64_t>(replacement % static_cast<uint64_t>(vocab_size));
  }
}

std::optional<Masking> find_masking(const Task& task, const DataOptions& options) {
  if (task.tokens != Task::Tokens::masked_targets) return {};
  return Masking{options.mask_probability, options.mask_token};
}

Batch HiddenItems::read(std::span<const SamplePosition> positions, int64_t samples) const {
  Batch batch = sessions_->read(positions, samples);
  batch.labels = batch.labels.clone();
  auto labels = batch.labels.accessor<int64_t, 2>();
  for (int64_t row = 0; row < static_cast<int64_t>(positions.size()); ++row) {
    std::vector<int64_t> items;  // by position
    for (int64_t position = 0; position < labels.size(1); ++position)
      if (labels[row][position] != kIgnoredTarget) items.push_back(position);
    const auto count = static_cast<int64_t>(items.size());
    std::vector<bool> hidden(items.size());
    if (probability_)
      hidden = sample_hidden(count, *probability_,
                             mixed(seed_) + static_cast<uint64_t>(positions[static_cast<size_t>(row)].position));
    else if (count > 1)
      hidden.back() = true;
    for (size_t i = 0; i < items.size(); ++i)
      if (!hidden[i]) labels[row][items[i]] = kIgnoredTarget;
  }
  return batch;
}

std::unique_ptr<Dataset> hide_items(std::unique_ptr<Dataset> samples, const DatasetRequest& request) {
  if (request.model.entry->task != "masked-item") return samples;
  const bool trains = request.split == Split::training;
  return std::make_unique<HiddenItems>(std::move(samples),
                                       trains ? std::optional(request.options.mask_probability) : std::nullopt,
                                       static_cast<uint64_t>(request.seed));
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
    const at::Tensor result = at::zeros(shape, values.options());
    for (int64_t row = 0; row < rows; ++row) {
      const at::Tensor row_values = values[row].index({items[row]});
      const int64_t kept = std::min(row_values.size(0), width - 1);
      result[row].narrow(0, 0, kept).copy_(row_values.narrow(0, row_values.size(0) - kept, kept));
    }
    return result;
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
