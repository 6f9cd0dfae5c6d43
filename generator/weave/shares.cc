// Shared by the sources of the reading of sequence parallelism: see shares.h.
#include "generator/weave/shares.h"

namespace modgen {

void collect_parts(const Expr* expr, Value& value, bool (*matches)(const Value&), std::vector<OperandPart>& found) {
  if (matches(value)) return found.push_back({expr, &value});
  const bool is_listed = expr && expr->kind == Expr::Kind::list && expr->operands.size() == value.elements.size();
  for (size_t i = 0; i < value.elements.size(); ++i)
    collect_parts(is_listed ? &expr->operands[i] : nullptr, value.elements[i], matches, found);
  for (auto& [name, member] : value.members) collect_parts(nullptr, member, matches, found);
}

std::vector<OperandPart> collect_parts(const std::vector<const Expr*>& operands, std::vector<Value>& values,
                                       bool (*matches)(const Value&)) {
  std::vector<OperandPart> found;
  for (size_t i = 0; i < values.size(); ++i)
    collect_parts(i < operands.size() ? operands[i] : nullptr, values[i], matches, found);
  return found;
}

bool any_part(const std::vector<OperandPart>& parts, bool (*matches)(const Value&)) {
  return std::ranges::any_of(parts, [&](const OperandPart& part) { return matches(*part.value); });
}

std::optional<int64_t> find_positions(const Value& x, const Value& share) {
  if (!x.rank || !share.rank || share.type.dim < 0 || share.outer.is_known()) return std::nullopt;
  const Count& positions = share.sizes[share.type.dim];
  std::optional<int64_t> found;
  for (int64_t i = 0; positions.is_known() && i < *x.rank; ++i) {
    if (x.sizes[i] != positions) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

SequenceCall call_on(SequenceCall::Kind kind, int64_t dim, std::optional<int64_t> rank) {
  const bool is_usual = rank && dim >= 0 && dim - *rank == SequenceCall::kBeforeFeatures;
  return {kind, is_usual ? SequenceCall::kBeforeFeatures : dim};
}

Value whole_of(const Value& share) {
  Value whole = share;
  set_storage(whole, Storage());  // of another tensor, in which a change would be lost
  if (share.outer.is_known()) {
    whole.is_gathered = true;
  } else {
    whole.type = kInvariant;
    whole.axis = Axis::tp;
  }
  return whole;
}

Value share_of(const Value& whole, int64_t dim) {
  Value share = whole;
  set_storage(share, Storage());
  share.type = sharded(dim);
  share.axis = Axis::sequence;
  return share;
}

}  // namespace modgen
