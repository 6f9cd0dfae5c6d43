#include "checks/execute/trace.h"

#include <algorithm>
#include <map>

namespace modular::execute {
namespace {

bool is_close(const Tensor& found, const Tensor& expected, double tolerance) {
  if (found.sizes() != expected.sizes()) return false;
  if (expected.numel() == 0) return true;
  const Tensor wide = expected.to(at::kDouble);
  return (found.to(at::kDouble) - wide).abs().max().item<double>() <=
         tolerance * (1.0 + wide.abs().max().item<double>());
}

/// The dimension along which the parts make up `full`; nullopt if there is none, or several.
std::optional<int64_t> find_split(const Tensor& full, const std::vector<Tensor>& parts) {
  std::optional<int64_t> split;
  for (int64_t dim = 0; dim < full.dim(); ++dim) {
    int64_t size = 0;
    for (const Tensor& part : parts) size += part.size(dim);
    if (parts[0].size(dim) == full.size(dim)) continue;
    if (split || size != full.size(dim)) return {};
    split = dim;
  }
  return split;
}

/// Whether `parts`, one per rank, may be what ranks hold of `full`. Says yes where their relation is not known.
bool may_be_parts(const Tensor& full, const std::vector<Tensor>& parts, double tolerance) {
  for (const Tensor& part : parts)
    if (part.dim() != full.dim() || part.scalar_type() != full.scalar_type()) return true;
  const bool have_its_shape = parts[0].sizes() == full.sizes();
  Tensor sum = at::zeros_like(parts[0], at::kDouble);
  bool all_full = true;
  for (const Tensor& part : parts) {
    if (part.sizes() != parts[0].sizes()) return true;
    all_full = all_full && have_its_shape && is_close(part, full, tolerance);
    sum += part.to(at::kDouble);
  }
  if (all_full) return true;
  if (have_its_shape) return parts.size() > 1 && full.is_floating_point() && is_close(sum, full, tolerance);
  const std::optional<int64_t> split = find_split(full, parts);
  // The parts of a fused layer alternate: compare sums, which do not depend on the order.
  return !split || is_close(sum.sum(*split), full.to(at::kDouble).sum(*split), tolerance);
}

/// Values that the parts of a batch or of a sequence may make up: their concatenation along a dimension where it has
/// the size of `full`, or else each of them if they are equal, or their sum. Empty if they fit nothing.
std::vector<Tensor> combinations(const Tensor& full, const std::vector<Tensor>& parts, double tolerance) {
  if (parts.size() == 1) return parts;
  for (const Tensor& part : parts)
    if (part.dim() != full.dim()) return {};
  std::vector<Tensor> found;
  for (int64_t dim = 0; dim < full.dim(); ++dim) {
    int64_t size = 0;
    bool fit = true;
    for (const Tensor& part : parts) {
      size += part.size(dim);
      for (int64_t other = 0; other < full.dim(); ++other)
        fit = fit && (other == dim || part.size(other) == parts[0].size(other));
    }
    if (fit && size == full.size(dim)) found.push_back(at::cat(parts, dim));
  }
  if (!found.empty()) return found;
  const auto are_all = [&](auto&& holds) { return std::ranges::all_of(parts, holds); };
  if (!are_all([&](const Tensor& part) { return part.sizes() == parts[0].sizes(); })) return found;
  if (are_all([&](const Tensor& part) { return is_close(part, parts[0], tolerance); })) found.push_back(parts[0]);
  if (full.is_floating_point()) found.push_back(at::stack(parts).sum(0));
  return found;
}

/// Whether parts[rank] may be what ranks hold of `full`. Says yes where their relation is not known.
bool may_be_held(const Tensor& full, const std::vector<std::vector<Tensor>>& parts, double tolerance) {
  std::vector<std::vector<Tensor>> by_rank;
  for (const std::vector<Tensor>& own : parts) by_rank.push_back(combinations(full, own, tolerance));
  size_t count = by_rank[0].size();
  for (const std::vector<Tensor>& own : by_rank) count = std::min(count, own.size());
  for (size_t number = 0; number < count; ++number) {
    std::vector<Tensor> combined;
    for (const std::vector<Tensor>& own : by_rank) combined.push_back(own[number]);
    if (may_be_parts(full, combined, tolerance)) return true;
  }
  return count == 0;
}

}  // namespace

void record(int line, const Tensor& value) {
  TracedTensor& traced = tracing->emplace_back();
  traced.line = line;
  traced.value = value.detach().clone();
  if (value.requires_grad() && at::GradMode::is_enabled())
    value.register_hook([&traced](const Tensor& gradient) { traced.gradient = gradient.detach().clone(); });
}

std::optional<TraceDifference> first_difference(const Trace& alone, const std::vector<std::deque<Trace>>& ranks,
                                                double tolerance) {
  // A tensor is identified by its line and the number of earlier tensors of that line: ranks skip lines of other
  // stages.
  using Key = std::pair<int, int>;
  const auto by_key = [](const Trace& trace) {
    std::vector<std::pair<Key, const TracedTensor*>> found;
    std::map<int, int> seen;
    for (const TracedTensor& traced : trace) found.push_back({{traced.line, seen[traced.line]++}, &traced});
    return found;
  };
  using Parts = std::vector<std::vector<const TracedTensor*>>;
  std::map<Key, Parts> parts;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Trace& part : ranks[rank])
      for (const auto& [key, traced] : by_key(part)) {
        Parts& of_key = parts[key];
        of_key.resize(ranks.size());
        of_key[rank].push_back(traced);
      }
  std::vector<std::pair<const TracedTensor*, const Parts*>> compared;
  for (const auto& [key, traced] : by_key(alone)) {
    const auto found = parts.find(key);
    if (found == parts.end()) continue;
    bool is_complete = true;
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      is_complete = is_complete && !ranks[rank].empty() && found->second[rank].size() == ranks[rank].size();
    if (is_complete) compared.emplace_back(traced, &found->second);
  }
  const auto differs = [&](const auto& pair, Tensor TracedTensor::* member) {
    const Tensor& full = pair.first->*member;
    std::vector<std::vector<Tensor>> by_rank;
    for (const auto& own : *pair.second) {
      by_rank.emplace_back();
      for (const TracedTensor* part : own)
        if ((part->*member).defined()) by_rank.back().push_back(part->*member);
      if (by_rank.back().size() != own.size()) return false;
    }
    return full.defined() && !may_be_held(full, by_rank, tolerance);
  };
  for (const auto& pair : compared)
    if (differs(pair, &TracedTensor::value)) return TraceDifference{pair.first->line, false};
  for (auto pair = compared.rbegin(); pair != compared.rend(); ++pair)
    if (differs(*pair, &TracedTensor::gradient)) return TraceDifference{pair->first->line, true};
  return {};
}

}  // namespace modular::execute
