// The table of rules: what each operation makes of values that are not the same on every rank. An operation that is not
// here is fine where all of its operands are the same on every rank, and is refused as unproven otherwise.
#include <algorithm>

#include "generator/shard_types.h"

namespace modgen {
namespace {

using Kind = ShardType::Kind;

constexpr const char* kForgottenExit =
    "a sum over tp is missing: mark the layer that made it TP_ROWWISE and call it as a layer";

bool is_tensor(const Value& value) { return value.kind == Value::Kind::tensor; }
bool is_kind(const Value& value, Kind kind) { return is_tensor(value) && value.type.kind == kind; }
bool is_split(const Value& value) { return is_kind(value, Kind::sharded); }
bool is_partial(const Value& value) { return is_kind(value, Kind::partial); }

std::string quoted(const Operation& op) {
  const size_t begin = op.name.find_first_not_of(". ");
  return op.name.starts_with("op ") ? op.name.substr(3) : op.name.substr(begin);
}

/// The split dimension counted from the end, where that is known.
std::optional<int64_t> from_end(const Value& value) {
  if (value.type.dim < 0) return value.type.dim;
  return value.rank ? std::optional(value.type.dim - *value.rank) : std::nullopt;
}

/// `dim` of `value` in the same count as its split dimension; nothing where the rank is needed for that and not known.
std::optional<int64_t> same_count(const Value& value, int64_t dim) {
  if (value.rank) return dim < 0 ? dim + *value.rank : dim;
  return (dim < 0) == (value.type.dim < 0) ? std::optional(dim) : std::nullopt;
}

Value like(const Value& value, ShardType type) {
  Value result = value;
  result.type = type;
  if (type.kind != Kind::sharded) result.type.dim = 0;
  return result;
}

Value unproven(Operation& op, const Value& value) {
  return op.refuse("unproven: there is no rule for " + quoted(op) + " of a value that is " + describe(value),
                   "apply it to whole values, or write it with operations that have a rule (docs/language.md)");
}

bool any_gradient(const Operation& op) {
  return std::any_of(op.values.begin(), op.values.end(), [](const Value& value) { return value.carries_gradient(); });
}

// ---- Element by element ----

enum class Algebra { linear, sum, product, non_linear };

Value elementwise(Operation& op, Algebra algebra, size_t first, size_t last) {
  size_t tensors = 0, partials = 0, splits = 0, numbers = 0;
  for (size_t i = first; i < last; ++i) {
    const Value& value = op.values[i];
    if (value.kind == Value::Kind::number) {
      ++numbers;
      if (value.local)
        return op.refuse("a tp rank's share of a count meets a tensor: the result differs from that of one process",
                         "compute the number in the constructor, where counts are global");
    }
    if (!is_tensor(value)) continue;
    ++tensors;
    partials += is_partial(value);
    splits += is_split(value);
  }
  Value result = Value::tensor(kInvariant, any_gradient(op), std::nullopt);
  if (tensors == 0) return result;

  // The rank of the result, and the dimensions of size 1 that all of them have.
  bool ranks_known = true, is_first = true;
  int64_t rank = 0;
  for (size_t i = first; i < last; ++i) {
    const Value& value = op.values[i];
    if (!is_tensor(value)) continue;
    ranks_known = ranks_known && value.rank;
    rank = std::max(rank, value.rank.value_or(0));
    if (is_first)
      result.ones = value.ones;
    else
      std::erase_if(result.ones, [&](int64_t dim) {
        return std::find(value.ones.begin(), value.ones.end(), dim) == value.ones.end();
      });
    is_first = false;
  }
  if (ranks_known) result.rank = rank;

  if (partials > 0) {
    const std::string what = "a partial sum over tp";
    if (algebra == Algebra::non_linear)
      return op.refuse(quoted(op) + " is not linear, and meets " + what, kForgottenExit);
    if (algebra == Algebra::sum && (partials != tensors || numbers > 0)) {
      const auto whole = std::find_if(op.values.begin() + first, op.values.begin() + last,
                                      [](const Value& v) { return !is_partial(v); });
      return op.refuse(
          what + " meets a value that is " + describe(*whole) + ": the sum over tp would count it once for every rank",
          kForgottenExit);
    }
    if (algebra == Algebra::product) {
      if (partials > 1)
        return op.refuse("a product of two partial sums over tp is not a partial sum of the product", kForgottenExit);
      if (quoted(op) == "/" && is_partial(op.values[last - 1])) return op.refuse("division by " + what, kForgottenExit);
      for (size_t i = first; i < last; ++i)
        if (is_tensor(op.values[i]) && !is_partial(op.values[i]) && (is_split(op.values[i]) || op.values[i].gradient))
          return op.refuse(what + " meets a factor that is " + describe(op.values[i]), kForgottenExit);
    }
    result.type = kPartial;
    return result;
  }

  if (splits > 0) {
    std::optional<int64_t> split;
    for (size_t i = first; i < last; ++i) {
      const Value& value = op.values[i];
      if (!is_split(value)) continue;
      const auto dim = from_end(value);
      if (!dim && tensors > 1) return unproven(op, value);
      if (split && split != dim)
        return op.refuse("values that are split over tp along different dimensions meet: " + std::to_string(*split) +
                         " and " + std::to_string(*dim) + " from the end");
      split = dim;
      if (!dim) return like(result, value.type);
    }
    for (size_t i = first; i < last; ++i) {
      const Value& value = op.values[i];
      if (!is_tensor(value) || is_split(value)) continue;
      const bool broadcast = (value.rank && *value.rank < -*split) ||
                             std::find(value.ones.begin(), value.ones.end(), *split) != value.ones.end();
      if (!broadcast)
        return op.refuse("a value that is " + describe(value) + " meets one that is split over tp",
                         "split both alike: is a TP_COLWISE, TP_ROWWISE or TP_LOCAL missing, or one too many?");
      op.enter(i);
    }
    return Value::tensor(sharded(*split), result.gradient, result.rank);
  }

  const bool entered = std::any_of(op.values.begin() + first, op.values.begin() + last,
                                   [](const Value& v) { return is_kind(v, Kind::replicated); });
  if (entered) {
    for (size_t i = first; i < last; ++i) op.enter(i);
    result.type = kReplicated;
  }
  return result;
}

Value elementwise(Operation& op, Algebra algebra) { return elementwise(op, algebra, 0, op.values.size()); }
Value linear_map(Operation& op) { return elementwise(op, Algebra::linear); }
Value sum_of(Operation& op) { return elementwise(op, Algebra::sum); }
Value product_of(Operation& op) { return elementwise(op, Algebra::product); }
Value non_linear(Operation& op) { return elementwise(op, Algebra::non_linear); }

/// Only the first operand is a tensor that flows on: `.to(…)`, `.contiguous()`.
Value first_alone(Operation& op) {
  Value result = op.values[0];
  return is_tensor(result) ? result : unproven(op, result);
}

Value detached(Operation& op) {
  Value result = first_alone(op);
  result.gradient = false;
  if (result.type.kind == Kind::replicated) result.type = kInvariant;
  return result;
}

// ---- Shapes ----

/// A property of a tensor that is the same for every shard of it.
Value property(Operation& op) { return invariant_of(op.expr->type, false); }

Value size_of(Operation& op) {
  const Value& x = op.values[0];
  const auto dim = op.number(1);
  if (!is_split(x)) return Value::number();
  if (!dim) return unproven(op, x);
  const auto counted = same_count(x, *dim);
  if (!counted) return unproven(op, x);
  return Value::number(*counted == x.type.dim);
}

Value number_of_elements(Operation& op) { return Value::number(is_split(op.values[0])); }

/// Sizes as a list or one by one, from operand `first` on.
std::vector<std::pair<const Expr*, Value>> sizes_from(const Operation& op, size_t first) {
  std::vector<std::pair<const Expr*, Value>> sizes;
  if (op.operands.size() == first + 1 && op.operands[first]->kind == Expr::Kind::list) {
    for (size_t i = 0; i < op.operands[first]->operands.size(); ++i)
      sizes.emplace_back(&op.operands[first]->operands[i], op.values[first].elements[i]);
  } else {
    for (size_t i = first; i < op.operands.size(); ++i) sizes.emplace_back(op.operands[i], op.values[i]);
  }
  return sizes;
}

Value view(Operation& op) {
  const Value& x = op.values[0];
  const bool listed = op.operands.size() == 2 && op.operands[1]->kind == Expr::Kind::list;
  if (!listed && is_split(x)) return unproven(op, x);
  if (!listed) return like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  const auto sizes = sizes_from(op, 1);
  const auto rank = static_cast<int64_t>(sizes.size());
  std::optional<int64_t> local;
  for (int64_t i = 0; i < rank; ++i) {
    if (!sizes[i].second.local) continue;
    if (!is_split(x))
      return op.refuse("a view by a tp rank's share of a count, of a value that is " + describe(x),
                       "mark the layer that makes it TP_COLWISE, or drop the count's TP_LOCAL");
    if (local)
      return op.refuse("a view with two shares of counts: one dimension is split over tp", "mark one count TP_LOCAL");
    local = i;
  }
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i].second.known == 1) result.ones.push_back(i - rank);
  if (!is_split(x)) return like(result, x.type);

  if (!x.rank || x.type.dim < 0) return unproven(op, x);
  const int64_t split = x.type.dim;
  if (!local) {
    const bool kept = rank == *x.rank && sizes[split].second.known == -1;
    if (!kept)
      return op.refuse(
          "a view of a value that is " + describe(x) + ", without a tp rank's share of a count in its place",
          "mark the count of heads or parts TP_LOCAL: modgen then reads this rank's share of it here");
    local = split;
  }
  if (*local != split)
    return op.refuse(
        "a view that moves the share of a count to dimension " + std::to_string(*local) + ", of a value that is " +
            describe(x),
        "the count has to be the first of the sizes that dimension " + std::to_string(split) + " is viewed as");
  result.type = sharded(split);
  return result;
}

/// Moves dimension d of the operand to `to(d)`; the split one with it.
template <class Move>
Value moved(Operation& op, std::optional<int64_t> rank, Move&& to) {
  const Value& x = op.values[0];
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  if (!is_split(x)) return like(result, x.type);
  const std::optional<int64_t> dim = to(x.type.dim);
  if (!dim) return op.message.empty() ? unproven(op, x) : Value::failure();
  return Value::tensor(sharded(*dim), x.gradient, rank);
}

Value transpose(Operation& op) {
  const Value& x = op.values[0];
  const auto a = op.number(1), b = op.number(2);
  if (!a || !b) return is_split(x) ? unproven(op, x) : moved(op, x.rank, [](int64_t dim) { return dim; });
  const auto one = same_count(x, *a), other = same_count(x, *b);
  return moved(op, x.rank, [&](int64_t dim) -> std::optional<int64_t> {
    if (!one || !other) return std::nullopt;
    return dim == *one ? *other : dim == *other ? *one : dim;
  });
}

Value permute(Operation& op) {
  const Value& x = op.values[0];
  const auto order = sizes_from(op, 1);
  return moved(op, x.rank, [&](int64_t dim) -> std::optional<int64_t> {
    for (size_t i = 0; i < order.size(); ++i) {
      if (!order[i].second.known) return std::nullopt;
      const auto from = same_count(x, *order[i].second.known);
      if (from && *from == dim) return static_cast<int64_t>(i);
    }
    return std::nullopt;
  });
}

Value flatten(Operation& op) {
  const Value& x = op.values[0];
  if (!x.rank) return moved(op, std::nullopt, [](int64_t) { return std::nullopt; });
  const auto begin = same_count(x, op.values.size() > 1 ? op.number(1).value_or(0) : 0);
  const auto end = same_count(x, op.values.size() > 2 ? op.number(2).value_or(-1) : -1);
  const int64_t merged = *end - *begin;
  return moved(op, *x.rank - merged, [&](int64_t dim) -> std::optional<int64_t> {
    if (dim <= *begin) return dim;
    if (dim > *end) return dim - merged;
    op.refuse("flatten puts dimension " + std::to_string(dim) +
              ", which is split over tp, behind another one: the slices would interleave");
    return std::nullopt;
  });
}

Value unsqueeze(Operation& op) {
  const Value& x = op.values[0];
  const auto at = op.number(1);
  if (!at) return unproven(op, x);
  if (!x.rank) {
    Value result = moved(op, std::nullopt, [&](int64_t dim) -> std::optional<int64_t> {
      if (dim < 0 && *at < 0) return dim < *at ? dim : dim < 0 && dim >= *at + 1 ? dim : dim - 1;
      return std::nullopt;
    });
    if (*at < 0) result.ones.push_back(*at);
    return result;
  }
  const int64_t rank = *x.rank + 1, place = *at < 0 ? *at + rank : *at;
  Value result = moved(op, rank, [&](int64_t dim) { return dim >= place ? dim + 1 : dim; });
  for (const int64_t one : x.ones) result.ones.push_back(one + rank - 1 < place ? one - 1 : one);
  result.ones.push_back(place - rank);
  return result;
}

/// Dimension operand `i`, or `fallback`, as the split dimension of the first operand is counted.
std::optional<int64_t> dimension(const Operation& op, size_t i, int64_t fallback) {
  return same_count(op.values[0], op.number(i).value_or(fallback));
}

Value squeeze(Operation& op) {
  const Value& x = op.values[0];
  if (op.values.size() < 2 || !x.rank)
    return is_split(x) ? unproven(op, x) : moved(op, std::nullopt, [](int64_t dim) { return dim; });
  const auto place = dimension(op, 1, 0);
  return moved(op, *x.rank - 1, [&](int64_t dim) -> std::optional<int64_t> {
    if (dim == *place) return std::nullopt;
    return dim > *place ? dim - 1 : dim;
  });
}

/// Operations that take dimension `dim` apart: not the split one.
Value whole_dimension(Operation& op, std::optional<int64_t> dim, const std::string& what) {
  const Value& x = op.values[0];
  if (is_split(x)) {
    if (!dim) return unproven(op, x);
    if (*dim == x.type.dim)
      return op.refuse(what + " over dimension " + std::to_string(*dim) +
                       ", which is split over tp: each rank sees only its slice");
  }
  Value result = x;
  result.ones.clear();
  return result;
}

Value parts(Operation& op) {
  const Value part = whole_dimension(op, dimension(op, 2, 0), quoted(op));
  if (part.kind == Value::Kind::failed) return part;
  Value list;
  list.kind = Value::Kind::list;
  list.elements = {part};
  return list;
}

Value select(Operation& op) {
  const auto place = dimension(op, 1, 0);
  const Value whole = whole_dimension(op, place, "select");
  if (whole.kind == Value::Kind::failed) return whole;
  const Value& x = op.values[0];
  if (!x.rank) return is_split(x) ? unproven(op, x) : whole;
  return moved(op, *x.rank - 1, [&](int64_t dim) { return dim > *place ? dim - 1 : dim; });
}

Value index(Operation& op) {
  const Value& x = op.values[0];
  if (x.kind == Value::Kind::list) return x.elements[0];
  if (x.kind == Value::Kind::tuple) {
    const auto i = op.number(1);
    return i && *i >= 0 && *i < static_cast<int64_t>(x.elements.size()) ? x.elements[*i] : unproven(op, x);
  }
  if (!is_tensor(x)) return x.is_invariant() ? invariant_of(op.expr->type, true) : unproven(op, x);
  if (op.values[1].kind != Value::Kind::number || (is_split(x) && !x.rank))
    return is_split(x) ? unproven(op, x) : like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  if (is_split(x) && x.type.dim == 0) return op.refuse("an element of dimension 0, which is split over tp");
  return moved(op, x.rank ? std::optional(*x.rank - 1) : std::nullopt, [](int64_t dim) { return dim - 1; });
}

Value slice(Operation& op) { return whole_dimension(op, dimension(op, 1, 0), quoted(op)); }

Value cat(Operation& op) {
  if (op.values[0].elements.empty()) return unproven(op, op.values[0]);
  Operation each = op;
  each.values = op.values[0].elements;
  for (const Value& value : each.values)
    if (!is_tensor(value)) return unproven(op, value);
  for (const Value& value : each.values)
    if (value.type != each.values[0].type)
      return op.refuse(quoted(op) + " of values that are " + describe(each.values[0]) + " and " + describe(value));
  Value result = each.values[0];
  result.gradient = any_gradient(each);
  result.ones.clear();
  if (is_split(result)) {
    const auto dim = same_count(result, op.number(1).value_or(0));
    if (!dim || quoted(op) == "stack") return unproven(op, result);
    if (*dim == result.type.dim)
      return op.refuse("cat along dimension " + std::to_string(*dim) +
                       ", which is split over tp: the slices would interleave");
  }
  if (quoted(op) == "stack") result.rank = result.rank ? std::optional(*result.rank + 1) : std::nullopt;
  return result;
}

Value repeat_interleave(Operation& op) {
  const Value& x = op.values[0];
  if (!is_split(x)) return first_alone(op);
  // Each slice's elements stay together and in order.
  return op.values.size() == 3 && op.values[1].kind == Value::Kind::number && !op.values[1].local && op.number(2)
             ? first_alone(op)
             : unproven(op, x);
}

// ---- Reductions ----

Value reduced(Operation& op, bool adds) {
  const Value& x = op.values[0];
  if (!is_split(x) && !is_partial(x)) return like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  if (is_partial(x))
    return adds ? x : op.refuse(quoted(op) + " is not linear, and meets a partial sum over tp", kForgottenExit);
  const bool over_all = op.values.size() == 1;
  const auto dim = over_all ? x.type.dim : op.number(1) ? same_count(x, *op.number(1)) : std::nullopt;
  if (!dim) return unproven(op, x);
  if (*dim == x.type.dim) {
    if (!adds) return op.refuse(quoted(op) + " over a dimension that is split over tp: each rank sees only its slice");
    return Value::tensor(kPartial, x.gradient, std::nullopt);
  }
  const bool keeps = op.values.size() > 2 && op.operands[2]->name == "true";
  if (keeps) return x;
  return moved(op, x.rank ? std::optional(*x.rank - 1) : std::nullopt,
               [&](int64_t at) { return at > *dim ? at - 1 : at; });
}

Value sum(Operation& op) { return reduced(op, true); }
Value reduction(Operation& op) { return reduced(op, false); }

/// softmax, cumulative sums: same shape, along one dimension.
Value along(Operation& op) {
  if (is_partial(op.values[0]))
    return op.refuse(quoted(op) + " is not linear, and meets a partial sum over tp", kForgottenExit);
  return whole_dimension(op, dimension(op, 1, -1), quoted(op));
}

// ---- Products of matrices ----

Value matmul(Operation& op) {
  const Value &a = op.values[0], &b = op.values[1];
  if (!is_tensor(a) || !is_tensor(b)) return unproven(op, is_tensor(a) ? b : a);
  if (is_partial(a) && is_partial(b))
    return op.refuse("a product of two partial sums over tp is not a partial sum of the product", kForgottenExit);
  const auto rank = a.rank && b.rank ? std::optional(std::max(*a.rank, *b.rank)) : std::nullopt;
  const bool gradient = a.gradient || b.gradient;
  if (is_partial(a) || is_partial(b)) {
    const Value& factor = is_partial(a) ? b : a;
    if (factor.type != kInvariant || factor.gradient)
      return op.refuse("a partial sum over tp meets a factor that is " + describe(factor), kForgottenExit);
    return Value::tensor(kPartial, gradient, rank);
  }
  if (!is_split(a) && !is_split(b)) return elementwise(op, Algebra::product);
  // Counted from the end; 0 where the operand is not split.
  const int64_t left = is_split(a) ? from_end(a).value_or(0) : 0, right = is_split(b) ? from_end(b).value_or(0) : 0;
  if ((is_split(a) && left == 0) || (is_split(b) && right == 0)) return unproven(op, is_split(a) ? a : b);
  if (left == -1 || right == -2) {
    if (left == -1 && right == -2) return Value::tensor(kPartial, gradient, rank);
    return op.refuse("a product of matrices over a dimension of which only one side is split over tp");
  }
  if (left != 0 && right != 0) {
    if (left != right) return op.refuse("a product of matrices that are split over tp along different dimensions");
    return Value::tensor(sharded(left), gradient, rank);
  }
  const int64_t split = left != 0 ? left : right;
  const Value& whole = left != 0 ? b : a;
  if (split < -2 && !(whole.rank && *whole.rank < -split))
    return op.refuse("a value that is whole on every tp rank meets one that is split over tp", "split both alike");
  op.enter(left != 0 ? 1 : 0);
  return Value::tensor(sharded(split), gradient, rank);
}

/// at::linear(x, weight, bias): the weight is [out, in].
Value linear_function(Operation& op) {
  const Value &x = op.values[0], &weight = op.values[1];
  if (!is_tensor(x) || !is_tensor(weight)) return unproven(op, is_tensor(x) ? weight : x);
  const bool has_bias = op.values.size() > 2 && is_tensor(op.values[2]);
  if (is_partial(weight) || is_kind(weight, Kind::replicated)) return unproven(op, weight);
  if (is_split(weight) && weight.type.dim == 0) {
    if (is_split(x) || is_partial(x))
      return op.refuse("a weight that is split by output feature meets a value that is " + describe(x));
    if (has_bias && !(is_split(op.values[2]) && op.values[2].type.dim == 0))
      return op.refuse("a weight that is split by output feature with a bias that is not");
    op.enter(0);
    return Value::tensor(sharded(-1), true, x.rank);
  }
  if (is_split(weight)) {
    if (!is_split(x) || from_end(x) != -1)
      return op.refuse("a weight that is split by input feature meets a value that is " + describe(x));
    if (has_bias)
      return op.refuse("a bias is added to a partial sum over tp: it would count once for every rank", kForgottenExit);
    return Value::tensor(kPartial, true, x.rank);
  }
  if (is_split(x)) {
    if (from_end(x) == -1)
      return op.refuse("a weight that is whole on every tp rank meets a value that is " + describe(x));
    op.enter(1);
    if (has_bias) op.enter(2);
    return x;
  }
  if (is_partial(x)) return op.refuse("a layer of a partial sum over tp", kForgottenExit);
  return elementwise(op, Algebra::non_linear);
}

// ---- Layers, by their annotation. Operand 0 is the layer. ----

Value column_wise(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_split(x))
    return op.refuse("a layer that is split by output feature reads a value that is " + describe(x),
                     "it wants the whole value: mark this layer TP_ROWWISE, or drop the annotation of the layer that "
                     "made the value");
  if (is_partial(x))
    return op.refuse("a layer that is split by output feature reads a partial sum over tp", kForgottenExit);
  if (!x.gradient) return Value::tensor(sharded(-1), true, x.rank);
  op.enter(1);
  return Value::tensor(sharded(-1), true, x.rank);
}

Value row_wise(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (!is_split(x) || from_end(x) != -1)
    return op.refuse("a layer that is split by input feature (TP_ROWWISE) reads a value that is " + describe(x),
                     "it wants a value that is split along its last dimension, as TP_COLWISE layers make it");
  op.call = Call::exit;
  return Value::tensor(kInvariant, true, x.rank);
}

Value vocabulary_rows(Operation& op) {
  const Value& ids = op.values[1];
  if (!is_kind(ids, Kind::invariant))
    return op.refuse("an embedding that is split by vocabulary reads ids that are " + describe(ids));
  op.call = Call::embedding;
  return Value::tensor(kInvariant, true, ids.rank ? std::optional(*ids.rank + 1) : std::nullopt);
}

Value whole_linear(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_split(x))
    return op.refuse("a layer without an annotation reads a value that is " + describe(x),
                     from_end(x) == -1
                         ? "mark the layer TP_ROWWISE, or drop TP_COLWISE of the layers before it"
                         : "its parameters' gradients would be short of the other ranks': apply it to the whole value");
  if (is_partial(x)) return op.refuse("a layer reads a partial sum over tp", kForgottenExit);
  if (x.type == kReplicated) return unproven(op, x);
  return Value::tensor(kInvariant, true, x.rank);
}

Value whole_embedding(Operation& op) {
  const Value& ids = op.values[1];
  if (!is_kind(ids, Kind::invariant)) return unproven(op, ids);
  return Value::tensor(kInvariant, true, ids.rank ? std::optional(*ids.rank + 1) : std::nullopt);
}

// ---- Functions of the prelude ----

Value rms_norm(Operation& op) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_partial(x)) return op.refuse("a norm of a partial sum over tp", kForgottenExit);
  if (is_split(x)) {
    if (from_end(x) == -1)
      return op.refuse("a norm over the last dimension, which is split over tp: each rank sees only its slice");
    if (is_split(op.values[1])) return op.refuse("a norm whose weight is " + describe(op.values[1]));
    op.enter(1);  // every rank's slice gives a part of its gradient
    return x;
  }
  Operation operands = op;
  operands.values.resize(2);
  Value result = elementwise(operands, Algebra::non_linear);
  op.entered = operands.entered, op.message = operands.message, op.advice = operands.advice;
  result.rank = x.rank;
  return result;
}

Value activation(Operation& op) { return elementwise(op, Algebra::non_linear, 1, op.values.size()); }

Value soft_cap(Operation& op) { return elementwise(op, Algebra::non_linear, 0, 1); }

Value rotary(Operation& op) {
  const Value& x = op.values[0];
  if (is_partial(x)) return op.refuse("rotary positions of a partial sum over tp", kForgottenExit);
  if (!is_tensor(x)) return unproven(op, x);
  for (size_t i = 1; i < op.values.size(); ++i) {
    if (!is_kind(op.values[i], Kind::invariant)) return unproven(op, op.values[i]);
    if (op.values[i].gradient && !is_kind(x, Kind::invariant))
      return op.refuse("rotary tables with a gradient meet a value that is " + describe(x));
  }
  if (is_split(x) && !(x.rank == 4 && x.type.dim == 1))
    return op.refuse(
        "rotary positions of a value that is " + describe(x),
        "it wants [batch, heads, seq, head_dim] split by heads: view with the count of heads, then transpose(1, 2)");
  return x;
}

Value attention(Operation& op) {
  const Value* split = nullptr;
  for (size_t i = 0; i < 3; ++i) {
    const Value& value = op.values[i];
    if (is_partial(value)) return op.refuse("attention of a partial sum over tp", kForgottenExit);
    if (!is_tensor(value)) return unproven(op, value);
    if (!is_split(value)) continue;
    if (!(value.rank == 4 && value.type.dim == 1))
      return op.refuse("attention over a value that is " + describe(value),
                       "it wants [batch, heads, seq, head_dim] split by heads");
    split = &value;
  }
  for (size_t i = 3; i < op.values.size(); ++i) {
    if (op.values[i].kind == Value::Kind::nothing || is_kind(op.values[i], Kind::invariant) ||
        (op.values[i].kind == Value::Kind::number && !op.values[i].local) || op.values[i].kind == Value::Kind::object)
      continue;
    return op.values[i].local ? op.refuse(
                                    "attention with a tp rank's share of a count as a number: the result differs from "
                                    "that of one process")
                              : unproven(op, op.values[i]);
  }
  const bool merged = quoted(op) == "attention";  // the prelude's returns [batch, seq, heads * head_dim]
  if (!split) {
    Operation operands = op;
    operands.values.resize(3);
    Value result = elementwise(operands, Algebra::non_linear);
    op.entered = operands.entered;
    if (merged && result.kind == Value::Kind::tensor) result.rank = 3, result.ones.clear();
    return result;
  }
  for (size_t i = 0; i < 3; ++i)
    if (!is_split(op.values[i]))
      return op.refuse(
          "attention over heads that are split over tp and others that are not",
          "mark the layers that make query, key and value alike (TP_COLWISE), and their counts of heads TP_LOCAL");
  return Value::tensor(sharded(merged ? 2 : 1), true, merged ? 3 : 4);
}

Value cross_entropy(Operation& op) {
  const Value &logits = op.values[0], &targets = op.values[1];
  if (is_partial(logits)) return op.refuse("a loss of a partial sum over tp", kForgottenExit);
  if (!is_tensor(logits) || !is_kind(targets, Kind::invariant))
    return unproven(op, is_tensor(logits) ? targets : logits);
  if (is_split(logits)) {
    if (from_end(logits) != -1) return op.refuse("a loss over logits that are " + describe(logits));
    op.call = Call::cross_entropy;
  } else if (logits.type == kReplicated) {
    return unproven(op, logits);
  }
  return Value::tensor(kInvariant, logits.gradient, 0);
}

Value scalar_tensor(Operation& op) {
  if (op.values[0].local)
    return op.refuse("a tensor of a tp rank's share of a count: it differs from that of one process");
  return Value::tensor(kInvariant, false, 0);
}

Value rotary_tables(Operation& op) {
  Value tables = invariant_of("std::pair<at::Tensor, at::Tensor>", false);
  for (const Value& value : op.values)
    if (!value.is_invariant()) return unproven(op, value);
  for (Value& table : tables.elements) table.rank = 3, table.gradient = any_gradient(op);
  return tables;
}

// ---- The woven calls, where a spec writes them itself ----

Value tp_enter(Operation& op) {
  if (!is_kind(op.values[0], Kind::invariant))
    return op.refuse("tp::enter of a value that is " + describe(op.values[0]));
  return like(op.values[0], kReplicated);
}

Value tp_gather(Operation& op) {
  const Value& x = op.values[0];
  if (!is_split(x) || from_end(x) != -1)
    return op.refuse("tp::gather of a value that is " + describe(x),
                     "it wants one that is split along its last dimension");
  return like(x, kInvariant);
}

Value tp_local(Operation& op) {
  if (op.values[0].kind != Value::Kind::number || op.values[0].local)
    return op.refuse("tp::local of what is a tp rank's share already");
  return Value::number(true);
}

// ---- Numbers ----

Value number_product(Operation& op) {
  bool local = false;
  for (const Value& value : op.values) {
    if (value.kind != Value::Kind::number) return Value::number();
    if (value.local && local) return op.refuse("a product of two tp ranks' shares");
    local = local || value.local;
  }
  return Value::number(local);
}

Value number_quotient(Operation& op) {
  if (op.values[0].local == op.values[1].local) return Value::number();
  return op.refuse("unproven: a quotient of a tp rank's share of a count and a count that is not split",
                   "divide counts in the constructor, where they are global");
}

Value number_comparison(Operation& op) {
  if (op.values.size() == 2 && op.values[0].local != op.values[1].local)
    return op.refuse("a tp rank's share of a count meets a number that is not split",
                     "compute it in the constructor, where counts are global");
  Value result = Value::number();
  return result;
}

Value number_sum(Operation& op) {
  if (op.values.size() == 1) {
    Value result = Value::number(op.values[0].local);
    if (op.values[0].known && quoted(op) == "-") result.known = -*op.values[0].known;
    return result;
  }
  if (op.values[0].local != op.values[1].local)
    return op.refuse("a tp rank's share of a count meets a number that is not split",
                     "compute it in the constructor, where counts are global");
  return Value::number(op.values[0].local);
}

bool has_tensor(const Operation& op) {
  return std::any_of(op.values.begin(), op.values.end(),
                     [](const Value& value) { return is_tensor(value) || value.kind == Value::Kind::nothing; });
}

Value op_plus(Operation& op) {
  return has_tensor(op) ? (op.values.size() == 1 ? linear_map(op) : sum_of(op)) : number_sum(op);
}
Value op_times(Operation& op) { return has_tensor(op) ? product_of(op) : number_product(op); }
Value op_divide(Operation& op) { return has_tensor(op) ? product_of(op) : number_quotient(op); }
Value op_compare(Operation& op) { return has_tensor(op) ? non_linear(op) : number_comparison(op); }

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> table = {
      // Layers
      {"tp_colwise", column_wise},
      {"tp_rowwise", row_wise},
      {"tp_vocab linear", column_wise},
      {"tp_vocab embedding", vocabulary_rows},
      {"linear layer", whole_linear},
      {"embedding layer", whole_embedding},
      // The prelude
      {"rms_norm", rms_norm},
      {"activation", activation},
      {"gated_activation", activation},
      {"soft_cap", soft_cap},
      {"rotary", rotary},
      {"rotary_adjacent", rotary},
      {"rotary_tables", rotary_tables},
      {"attention", attention},
      {"scaled_dot_product_attention", attention},
      {"cross_entropy", cross_entropy},
      {"scalar_tensor", scalar_tensor},
      {"tp::enter", tp_enter},
      {"tp::gather", tp_gather},
      {"tp::local", tp_local},
      // Arithmetic
      {"op +", op_plus},
      {"op -", op_plus},
      {"op *", op_times},
      {"op /", op_divide},
      {"op %", op_compare},
      {"op ==", op_compare},
      {"op !=", op_compare},
      {"op <", op_compare},
      {"op >", op_compare},
      {"op <=", op_compare},
      {"op >=", op_compare},
      {"add", sum_of},
      {"sub", sum_of},
      {"mul", product_of},
      {"div", op_divide},
      {".add", sum_of},
      {".sub", sum_of},
      {".mul", product_of},
      {".div", op_divide},
      {".neg", linear_map},
      {"neg", linear_map},
      // Functions of each element
      {"silu", non_linear},
      {"gelu", non_linear},
      {"relu", non_linear},
      {"sigmoid", non_linear},
      {"tanh", non_linear},
      {"exp", non_linear},
      {"softplus", non_linear},
      {".sigmoid", non_linear},
      {".tanh", non_linear},
      {".exp", non_linear},
      {".log", non_linear},
      {".sqrt", non_linear},
      {".rsqrt", non_linear},
      {".square", non_linear},
      {".pow", non_linear},
      {".abs", non_linear},
      {".clamp", non_linear},
      {".cos", non_linear},
      {".sin", non_linear},
      {".ge", non_linear},
      {".gt", non_linear},
      {".le", non_linear},
      {".lt", non_linear},
      {".eq", non_linear},
      {".ne", non_linear},
      {".masked_fill", non_linear},
      {"where", non_linear},
      {".to", first_alone},
      {".contiguous", first_alone},
      {".clone", first_alone},
      {".detach", detached},
      // Shapes
      {".size", size_of},
      {".numel", number_of_elements},
      {".dim", property},
      {".defined", property},
      {".device", property},
      {".dtype", property},
      {".scalar_type", property},
      {".options", property},
      {".is_floating_point", property},
      {".view", view},
      {".reshape", view},
      {".transpose", transpose},
      {".permute", permute},
      {".flatten", flatten},
      {".unsqueeze", unsqueeze},
      {".squeeze", squeeze},
      {".chunk", parts},
      {".split", parts},
      {".select", select},
      {".slice", slice},
      {".narrow", slice},
      {".repeat_interleave", repeat_interleave},
      {"cat", cat},
      {"stack", cat},
      {"op []", index},
      // Reductions
      {".sum", sum},
      {".mean", reduction},
      {".amax", reduction},
      {".max", reduction},
      {".var", reduction},
      {".norm", reduction},
      {".softmax", along},
      {".log_softmax", along},
      {".cumsum", along},
      {"softmax", along},
      {"log_softmax", along},
      // Products of matrices
      {"matmul", matmul},
      {".matmul", matmul},
      {"linear", linear_function},
  };
  return table;
}

}  // namespace

Rule find_rule(std::string_view name) {
  const auto found = rules().find(name);
  return found == rules().end() ? nullptr : found->second;
}

}  // namespace modgen
