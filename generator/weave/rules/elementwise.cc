// Helpers that all rules share, broadcasting included. The table of elementwise operations is in arithmetic.cc.
#include "generator/weave/rules/rules.h"

namespace modgen {

std::string quoted(const Operation& op) {
  const size_t begin = op.name.find_first_not_of(". ");
  return op.name.starts_with("op ") ? op.name.substr(3) : op.name.substr(begin);
}

std::optional<int64_t> from_end(const Value& value) {
  if (value.type.dim < 0) return value.type.dim;
  return value.rank ? std::optional(value.type.dim - *value.rank) : std::nullopt;
}

std::optional<int64_t> same_count(const Value& value, int64_t dim) {
  if (value.rank) return dim < 0 ? dim + *value.rank : dim;
  return (dim < 0) == (value.type.dim < 0) ? std::optional(dim) : std::nullopt;
}

bool has_one(const Value& value, int64_t dim) {
  const bool is_one = value.rank && value.sizes[*value.rank + dim].literal() == 1;
  return is_one || std::find(value.ones.begin(), value.ones.end(), dim) != value.ones.end();
}

std::optional<int64_t> number_or(const Operation& op, size_t i, int64_t fallback) {
  return i < op.values.size() ? op.number(i) : fallback;
}

std::optional<int64_t> dimension(const Operation& op, size_t i, int64_t fallback) {
  const auto dim = number_or(op, i, fallback);
  return dim ? same_count(op.values[0], *dim) : std::nullopt;
}

bool keeps_fractions(const Operation& op, size_t i) {
  static constexpr std::string_view floating[] = {"kFloat",   "kDouble",  "kHalf",   "kBFloat16",
                                                  "kFloat16", "kFloat32", "kFloat64"};
  if (is_tensor(op.values[i])) return false;  // its type is not known
  const std::string& type = op.operands[i]->type;
  if (type.find("ScalarType") == std::string::npos && type.find("TypeMeta") == std::string::npos &&
      type.find("Options") == std::string::npos)
    return true;
  const std::string& name = op.operands[i]->name;
  return std::ranges::find(floating, name.substr(name.rfind(':') + 1)) != std::end(floating);
}

Value like(const Value& value, ShardType type) {
  Value result = value;
  result.type = std::move(type);
  return result;
}

bool is_as_long(const Value& x, const Value& other) {
  return is_split(other) && other.rank == x.rank && other.type == x.type && x.sizes[x.type.dim].is_known() &&
         x.sizes[x.type.dim] == other.sizes[x.type.dim];
}

Value unproven(Operation& op, const Value& value) {
  return op.reject("unproven: no rule for " + quoted(op) + " of a value that is " + describe(value), kUseRules);
}

bool any_gradient(const Operation& op) {
  return std::any_of(op.values.begin(), op.values.end(), [](const Value& value) { return value.carries_gradient(); });
}

Value first_alone(Operation& op) {
  Value result = op.values[0];
  return is_tensor(result) ? result : unproven(op, result);
}

Value full_dimension(Operation& op, std::optional<int64_t> dim, const std::string& what) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return x.is_invariant() ? x : unproven(op, x);
  if (is_split(x)) {
    if (!dim) return unproven(op, x);
    if (*dim == x.type.dim)
      return op.reject(what + " over dimension " + std::to_string(*dim) +
                       ", which is split over tp: each rank sees only its slice");
  }
  Value result = x;
  result.ones.clear();
  result.last_size.clear();
  return result;
}

std::vector<std::pair<const Expr*, Value>> sizes_from(const Operation& op, size_t first) {
  std::vector<std::pair<const Expr*, Value>> sizes;
  if (op.operands.size() > first && op.operands[first]->kind == Expr::Kind::list) {
    for (size_t i = 0; i < op.operands[first]->operands.size(); ++i)
      sizes.emplace_back(&op.operands[first]->operands[i], op.values[first].elements[i]);
  } else {
    for (size_t i = first; i < op.operands.size(); ++i) sizes.emplace_back(op.operands[i], op.values[i]);
  }
  return sizes;
}

Value elementwise_of_first(Operation& op, Algebra algebra, size_t count) {
  Operation first = op;
  first.values.resize(count);
  const Value result = elementwise(first, algebra);
  op.entered = first.entered, op.message = first.message, op.advice = first.advice;
  return result;
}

namespace {

/// The size of the last dimension after broadcasting: the size that all operands without a literal size 1 there agree
/// on. A config-defined size may be 1 as well, so a single operand does not determine it.
std::string broadcast_last_size(const std::vector<Value>& tensors) {
  std::optional<std::string> size;
  for (const Value& value : tensors) {
    if (value.rank == 0 || has_one(value, -1)) continue;
    if (size && *size != value.last_size) return "";
    size = value.last_size;
  }
  return size.value_or("");
}

/// The rank of the broadcast result, and the dimensions that have size 1 in all operands.
Value broadcast(const std::vector<Value>& tensors) {
  Value result = Value::tensor(kInvariant, false, std::nullopt);
  bool ranks_known = true;
  int64_t rank = 0;
  result.ones = tensors.front().ones;
  result.last_size = broadcast_last_size(tensors);
  for (const Value& value : tensors) {
    ranks_known = ranks_known && value.rank;
    rank = std::max(rank, value.rank.value_or(0));
    std::erase_if(result.ones, [&](int64_t dim) {
      return std::find(value.ones.begin(), value.ones.end(), dim) == value.ones.end();
    });
  }
  if (ranks_known) result.rank = rank;
  return result;
}

Value combine_partials(Operation& op, Algebra algebra, size_t first, size_t last, Value result) {
  const std::string what = "a partial sum over tp";
  const auto begin = op.values.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = op.values.begin() + static_cast<std::ptrdiff_t>(last);
  if (algebra == Algebra::non_linear) return op.reject(quoted(op) + " is not linear, and meets " + what, kMissingSum);
  if (algebra == Algebra::sum) {
    const auto full = std::find_if(begin, end, [](const Value& value) {
      return (is_tensor(value) || value.kind == Value::Kind::number) && !is_partial(value);
    });
    if (full != end)
      return op.reject(
          what + " meets a value that is " + describe(*full) + ": the sum over tp would count it once for every rank",
          kMissingSum);
  }
  if (algebra == Algebra::product) {
    if (std::count_if(begin, end, is_partial) > 1)
      return op.reject("a product of two partial sums over tp is not a partial sum of the product", kMissingSum);
    for (size_t i = first; i < last; ++i) {
      if (is_split(op.values[i])) return op.reject(what + " meets a factor that is " + describe(op.values[i]));
      op.enter(i);  // each rank's partial sum contributes to the factor's gradient
    }
  }
  result.type = kPartial;
  return result;
}

Value combine_splits(Operation& op, size_t first, size_t last, size_t tensors, const Value& result) {
  std::optional<int64_t> split;
  const std::vector<std::string>* parts = nullptr;
  std::string size;  // empty if the operands disagree
  for (size_t i = first; i < last; ++i) {
    const Value& value = op.values[i];
    if (!is_split(value)) continue;
    const auto dim = from_end(value);
    if (!dim && tensors > 1) return unproven(op, value);
    if (!dim) return like(result, value.type);
    if (split && split != dim)
      return op.reject("operands are split over tp along different dimensions, " + std::to_string(*split) + " and " +
                       std::to_string(*dim));
    if (parts && *parts != value.type.parts)
      return op.reject("values that are split over tp within different parts of their dimension meet",
                       "split both into their parts first");
    size = !split || size == value.split_size ? value.split_size : "";
    split = dim;
    parts = &value.type.parts;
  }
  for (size_t i = first; i < last; ++i) {
    const Value& value = op.values[i];
    if (!is_tensor(value) || is_split(value)) continue;
    const bool stretched = (value.rank && *value.rank < -*split) || has_one(value, *split);
    if (!stretched)
      return op.reject("a value that is " + describe(value) + " meets one that is split over tp",
                       "split both the same way: is a TP_COLWISE, TP_ROWWISE or TP_LOCAL missing, or one too many?");
    op.enter(i);
  }
  Value value = Value::tensor(sharded(*split, *parts), result.gradient, result.rank);
  value.ones = result.ones;
  value.last_size = result.last_size;
  value.split_size = size;
  return value;
}

}  // namespace

Value elementwise(Operation& op, Algebra algebra, size_t first, size_t last) {
  std::vector<Value> tensors;
  for (size_t i = first; i < last; ++i) {
    const Value& value = op.values[i];
    if (value.kind == Value::Kind::number && value.count.is_share)
      return op.reject("a tp-local count is an operand of a tensor operation: the result differs from a single process",
                       "compute the number in the constructor, where counts are global");
    if (is_tensor(value)) tensors.push_back(value);
  }
  if (tensors.empty()) return Value::tensor(kInvariant, any_gradient(op), std::nullopt);
  Value result = broadcast(tensors);
  result.gradient = any_gradient(op);
  const auto has = [&](ShardType::Kind kind) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Value& value) { return is_kind(value, kind); });
  };
  if (has(ShardType::Kind::partial)) return combine_partials(op, algebra, first, last, std::move(result));
  if (has(ShardType::Kind::sharded)) return combine_splits(op, first, last, tensors.size(), result);
  if (has(ShardType::Kind::replicated)) {
    for (size_t i = first; i < last; ++i) op.enter(i);
    result.type = kReplicated;
  }
  return result;
}

}  // namespace modgen
