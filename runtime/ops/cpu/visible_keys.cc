#include "runtime/ops/cpu/visible_keys.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/ops/cpu/tensors.h"

namespace modular::cpu {
namespace {

/// Row `row` of a tensor [batch or 1, seq]; null if it is undefined.
template <class T>
const T* get_row(const at::Tensor& tensor, size_t row) {
  if (!tensor.defined()) return nullptr;
  return read<T>(tensor) + (tensor.size(0) == 1 ? 0 : static_cast<int64_t>(row) * tensor.size(1));
}

/// Restricts `ranges` to the span from the first to the last key of each query's document. Returns whether documents
/// are contiguous, so that ranges suffice.
bool narrow_to_documents(const int64_t* documents, std::vector<KeyRange>& ranges) {
  const auto seq = static_cast<int64_t>(ranges.size());
  std::unordered_map<int64_t, KeyRange> extents;
  size_t runs = 0;
  for (int64_t i = 0; i < seq; ++i) {
    runs += i == 0 || documents[i] != documents[i - 1];
    extents.try_emplace(documents[i], KeyRange{i, i}).first->second.last = i + 1;
  }
  for (int64_t i = 0; i < seq; ++i) {
    const KeyRange& own = extents.at(documents[i]);
    KeyRange& range = ranges[static_cast<size_t>(i)];
    range = {std::max(range.first, own.first), std::min(range.last, own.last)};
  }
  return runs == extents.size();
}

/// Trims padding from both ends of each range. Returns whether no padding is left inside a range.
bool narrow_to_present(const bool* present, std::vector<KeyRange>& ranges) {
  const size_t seq = ranges.size();
  std::vector<int64_t> next(seq + 1, static_cast<int64_t>(seq)), last(seq + 1, 0), count(seq + 1, 0);
  for (size_t i = seq; i-- > 0;) next[i] = present[i] ? static_cast<int64_t>(i) : next[i + 1];
  for (size_t i = 0; i < seq; ++i) {
    last[i + 1] = present[i] ? static_cast<int64_t>(i) + 1 : last[i];
    count[i + 1] = count[i] + (present[i] ? 1 : 0);
  }
  bool is_all = true;
  for (KeyRange& range : ranges) {
    range = {next[static_cast<size_t>(range.first)], last[static_cast<size_t>(range.last)]};
    if (range.first < range.last)
      is_all &=
          count[static_cast<size_t>(range.last)] - count[static_cast<size_t>(range.first)] == range.last - range.first;
  }
  return is_all;
}

}  // namespace

VisibleKeys::VisibleKeys(const AttentionMask& mask, int64_t seq, int64_t keys)
    : padding_(mask.padding.defined() ? mask.padding.contiguous() : at::Tensor()),
      documents_(mask.documents.defined() ? mask.documents.contiguous() : at::Tensor()) {
  std::vector<KeyRange> ranges;
  for (int64_t i = 0; i < seq; ++i) {
    const int64_t all = std::max(seq, keys), reach = std::min(mask.reach.value_or(all), all);
    ranges.push_back({std::max<int64_t>(i - reach, 0), std::min(mask.causal ? i + 1 : i + reach + 1, keys)});
  }
  for (const at::Tensor& each : {padding_, documents_})
    rows_.resize(std::max(rows_.size(), each.defined() ? static_cast<size_t>(each.size(0)) : 1));
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i] = {ranges, get_row<bool>(padding_, i), get_row<int64_t>(documents_, i)};
    if (row.documents && narrow_to_documents(row.documents, row.ranges)) row.documents = nullptr;
    if (row.present && narrow_to_present(row.present, row.ranges)) row.present = nullptr;
    for (KeyRange& range : row.ranges)
      if (range.first >= range.last) range = {0, 0};
  }
}

void VisibleKeys::set(AttentionShape& shape, int64_t row) const {
  const Row& own = rows_[rows_.size() == 1 ? 0 : static_cast<size_t>(row)];
  shape.visible = own.ranges.data();
  shape.present = own.present;
  shape.documents = own.documents;
}

}  // namespace modular::cpu
