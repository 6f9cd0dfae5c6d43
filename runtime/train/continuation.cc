#include "runtime/train/continuation.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

int64_t find_size(const Continuation::Text& text) { return static_cast<int64_t>(text.size()); }

const Continuation::Text& text_at(const std::vector<Continuation::Text>& texts, int64_t row) {
  return texts[static_cast<size_t>(row)];
}

/// The last `size` tokens of the texts [rows, size], left-padded with 0.
at::Tensor gather_last_tokens(const std::vector<Continuation::Text>& texts, const std::vector<int64_t>& rows,
                              int64_t size) {
  const at::Tensor tokens = at::zeros({static_cast<int64_t>(rows.size()), size}, at::kLong);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& text = text_at(texts, rows[i]);
    const int64_t count = std::min(find_size(text), size);
    std::copy(text.end() - count, text.end(),
              tokens.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * size + size - count);
  }
  return tokens;
}

/// Whether they differ by more than rounding, including that of bfloat16.
bool differ(const at::Tensor& logits, const at::Tensor& expected) {
  return !((logits - expected).norm() <= 0.1 * (expected - expected.mean()).norm()).item<bool>();
}

}  // namespace

Continuation::Continuation(ParallelModel& model, int64_t context, int64_t longest)
    : model_(model), context_(context), expected_(std::min(context, longest)) {}

at::Tensor Continuation::logits(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  if (!std::exchange(began_, true)) groups_.push_back({.rows = rows, .may_cache = model_.can_cache()});
  std::map<int64_t, at::Tensor> found;
  const auto find = [&](const std::vector<int64_t>& of, const at::Tensor& logits) {
    for (size_t i = 0; i < of.size(); ++i) found[of[i]] = logits[static_cast<int64_t>(i)];
  };
  // Once the context slides, every token in it changes its position.
  if (const auto sliding = leave(texts, rows); !sliding.empty()) find(sliding, whole(texts, sliding));
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::vector<Group> divided;
    if (const auto logits = get_logits(groups_[i], texts, divided)) {
      if (groups_[i].rows == rows) return *logits;
      find(groups_[i].rows, *logits);
    }
    if (divided.empty()) continue;
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i--));
    std::ranges::move(divided, std::back_inserter(groups_));
  }
  std::vector<at::Tensor> in_order;
  for (const int64_t row : rows) in_order.push_back(found.at(row));
  return at::stack(in_order);
}

std::vector<int64_t> Continuation::leave(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  std::vector<int64_t> staying, sliding;
  for (const int64_t row : rows) (find_size(text_at(texts, row)) > context_ ? sliding : staying).push_back(row);
  for (Group& group : groups_) {
    std::vector<int64_t> kept, indices;
    for (size_t i = 0; i < group.rows.size(); ++i)
      if (std::ranges::binary_search(staying, group.rows[i]))
        kept.push_back(group.rows[i]), indices.push_back(static_cast<int64_t>(i));
    if (kept.size() == group.rows.size()) continue;
    group.rows = kept;
    const at::Tensor at = at::tensor(indices, at::kLong);
    if (group.cache && !kept.empty()) group.cache->keep_rows(at);
    if (group.padding.defined()) group.padding = group.padding.index_select(0, at);
  }
  std::erase_if(groups_, [](const Group& group) { return group.rows.empty(); });
  return sliding;
}

std::optional<at::Tensor> Continuation::get_logits(Group& group, const std::vector<Text>& texts,
                                                   std::vector<Group>& divided) {
  const auto length = [&](int64_t row) { return find_size(text_at(texts, row)); };
  const auto [shortest, longest] = std::ranges::minmax_element(group.rows, {}, length);
  const bool one_length = length(*shortest) == length(*longest);
  const auto divide = [&]() -> std::optional<at::Tensor> {
    std::map<int64_t, std::vector<int64_t>> by_length;
    for (const int64_t row : group.rows) by_length[length(row)].push_back(row);
    for (const auto& [size, rows] : by_length) divided.push_back({.rows = rows, .may_cache = group.may_cache});
    return std::nullopt;
  };
  if (!group.may_cache) return one_length ? whole(texts, group.rows) : divide();
  const bool goes_on = group.cache.has_value();
  at::Tensor logits = goes_on ? go_on(group, texts) : begin(group, texts);
  if (any_rank(group.cache->spoiled())) {
    group.cache.reset(), group.padding = at::Tensor();
    if (!one_length) return divide();
    if (goes_on) return get_logits(group, texts, divided);  // e.g. if rotary tables depend on the length
    group.may_cache = false;
    return whole(texts, group.rows);
  }
  // A spec may mix positions in functions that do not support caches, which the first cached token reveals, or padding,
  // which the padded prompt reveals.
  if (goes_on ? std::exchange(group.is_compared, true) : one_length) return logits;
  const auto index = std::ranges::find(group.rows, *shortest) - group.rows.begin();
  const at::Tensor expected = whole(texts, {*shortest})[0];
  if (!any_rank(model_.mesh().rank() == 0 && differ(logits[index], expected))) return logits;
  group.cache.reset(), group.padding = at::Tensor();
  group.is_compared = false;
  if (!one_length) return divide();
  group.may_cache = false;
  return group.rows.size() == 1 ? expected.unsqueeze(0) : whole(texts, group.rows);
}

at::Tensor Continuation::begin(Group& group, const std::vector<Text>& texts) {
  const auto length = [&](int64_t row) { return find_size(text_at(texts, row)); };
  const auto [shortest, longest] = std::ranges::minmax(group.rows, {}, length);
  const int64_t size = length(longest);
  group.cache.emplace(expected_ + size - length(shortest));
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, group.rows, size);
  if (size > length(shortest)) {
    std::vector<at::Tensor> present;
    for (const int64_t row : group.rows) present.push_back(at::arange(size) >= size - length(row));
    batch.attention_mask = group.padding = at::stack(present);
  }
  return run(std::move(batch), &*group.cache);
}

at::Tensor Continuation::go_on(Group& group, const std::vector<Text>& texts) {
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, group.rows, 1);
  if (group.padding.defined()) {
    group.padding = at::constant_pad_nd(group.padding, {0, 1}, true);
    batch.attention_mask = group.padding;
  }
  return run(std::move(batch), &*group.cache);
}

at::Tensor Continuation::whole(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, rows, std::min(find_size(text_at(texts, rows.front())), context_));
  return run(std::move(batch), nullptr);
}

at::Tensor Continuation::run(Batch batch, cache::Cache* cache) {
  for_each_tensor(batch, [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(model_.mesh().device());
  });
  return model_.logits(batch, cache).select(1, -1).to(at::kCPU, at::kFloat);
}

bool Continuation::any_rank(bool value) {
  return modular::any_rank(model_.mesh().control(), value, "whether a cache is of use");
}

}  // namespace modular
