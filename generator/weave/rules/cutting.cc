// Rules of operations that split, select and concatenate values.
#include <algorithm>
#include <iterator>

#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

Value list_value(Value element) {
  Value list;
  list.kind = Value::Kind::list;
  list.elements = {std::move(element)};
  return list;
}

Value tuple_value(std::vector<Value> elements) {
  Value tuple;
  tuple.kind = Value::Kind::tuple;
  tuple.elements = std::move(elements);
  return tuple;
}

bool is_split_within_parts(const Value& x, std::optional<int64_t> dim) {
  return is_split(x) && !x.type.parts.empty() && dim == x.type.dim;
}

/// A piece of a fused value that consists of the consecutive `parts`.
Value take_piece(const Value& x, const std::vector<std::string>& parts) {
  const bool is_one = parts.size() == 1;
  Value piece = like(x, is_one ? sharded(x.type.dim) : sharded(x.type.dim, parts));
  piece.split_size = is_one ? parts.front() : "";
  if (from_end(x) == -1) piece.last_size = piece.split_size;
  if (!from_end(x)) piece.last_size.clear();
  return piece;
}

/// The parts of a fused value, each split like the output of a separate layer.
Value take_parts(const Value& x) {
  std::vector<Value> parts;
  for (const std::string& size : x.type.parts) parts.push_back(take_piece(x, {size}));
  return tuple_value(std::move(parts));
}

/// The pieces of a fused value by `sizes`, each of which is the size of one part or the sum of consecutive parts; empty
/// if they do not match the parts.
std::optional<std::vector<Value>> take_runs(const Value& x, const std::vector<Value>& sizes) {
  std::vector<Value> pieces;
  std::vector<std::string> named;
  for (const Value& size : sizes) {
    const std::vector<std::string> run = get_terms(size.count);
    if (!size.count.is_share || run.empty()) return std::nullopt;
    named.insert(named.end(), run.begin(), run.end());
    pieces.push_back(take_piece(x, run));
    if (!size.counts.empty()) pieces.back().counts = size.counts;
  }
  return named == x.type.parts ? std::optional(std::move(pieces)) : std::nullopt;
}

/// x.chunk(n, dim)
Value chunk(Operation& op) {
  const Value& x = op.values[0];
  const auto dim = dimension(op, 2, 0);
  if (is_split_within_parts(x, dim)) {
    const std::vector<std::string>& parts = x.type.parts;
    if (op.number(1) != static_cast<int64_t>(parts.size()) ||
        std::any_of(parts.begin(), parts.end(), [&](const std::string& part) { return part != parts.front(); }))
      return op.reject("chunks of a value that is " + describe(x) + ", which are not its parts",
                       "split it with split_with_sizes by the sizes of its parts");
    return take_parts(x);
  }
  Value part = full_dimension(op, dim, quoted(op));
  return part.kind == Value::Kind::failed ? part : list_value(std::move(part));
}

/// x.split(size or sizes, dim), x.split_with_sizes(sizes, dim)
Value split(Operation& op) {
  const Value& x = op.values[0];
  const auto dim = dimension(op, 2, 0);
  const bool listed = op.operands.size() > 1 && op.operands[1]->kind == Expr::Kind::list;
  if (is_split_within_parts(x, dim)) {
    const std::vector<std::string>& parts = x.type.parts;
    const std::string wanted =
        "use the sizes of its parts, " + listed_parts(parts) + ", each with a TP_LOCAL count if the part is split";
    if (!listed && op.values.size() > 1) {
      const bool equal =
          std::all_of(parts.begin(), parts.end(), [&](const std::string& part) { return part == parts.front(); });
      if (equal && op.values[1].count.is_share && product_text(op.values[1].count) == parts.front())
        return list_value(take_parts(x).elements[0]);
      return op.reject("a split of a value that is " + describe(x) + " by one size that is not its parts'", wanted);
    }
    std::optional<std::vector<Value>> pieces;
    if (listed) pieces = take_runs(x, op.values[1].elements);
    if (!pieces)
      return op.reject("a split of a value that is " + describe(x) + " by other sizes than its parts'", wanted);
    return tuple_value(std::move(*pieces));
  }
  Value part = full_dimension(op, dim, quoted(op));
  if (part.kind == Value::Kind::failed) return part;
  const auto is_local = [](const Value& size) { return !size.is_invariant(); };
  if (std::any_of(op.values.begin() + 1, op.values.end(), is_local))
    return op.reject("a split by a tp-local count, of a dimension that is full: " + describe(x),
                     "mark the layer that computes it TP_COLWISE_PARTS, or drop the count's TP_LOCAL");
  if (!listed) return list_value(std::move(part));
  return tuple_value(std::vector<Value>(op.values[1].elements.size(), part));
}

/// The first operand without dimension `axis`.
Value without_dimension(Operation& op, std::optional<int64_t> axis, const std::string& what) {
  Value full = full_dimension(op, axis, what);
  if (full.kind == Value::Kind::failed) return full;
  const Value& x = op.values[0];
  if (!x.rank) return is_split(x) ? unproven(op, x) : full;
  return moved(op, *x.rank - 1, [&](int64_t dim) { return dim > *axis ? dim - 1 : dim; });
}

Value select(Operation& op) { return without_dimension(op, dimension(op, 1, 0), "select"); }

/// x.unbind(dim)
Value unbind(Operation& op) {
  Value part = without_dimension(op, dimension(op, 1, 0), "unbind");
  return part.kind == Value::Kind::failed ? part : list_value(std::move(part));
}

Value index(Operation& op) {
  const Value& x = op.values[0];
  if (op.values[1].count.is_share)
    return op.reject("an index that is a tp-local count: it names another element than on a single process",
                     "compute the index in the constructor, where counts are global");
  if (x.kind == Value::Kind::list) return x.elements[0];
  if (x.kind == Value::Kind::tuple) {
    const auto i = op.number(1);
    if (i) return *i >= 0 && *i < static_cast<int64_t>(x.elements.size()) ? x.elements[*i] : unproven(op, x);
    if (!op.values[1].is_invariant()) return unproven(op, op.values[1]);
    Value any;  // the index is unknown: join all elements
    for (const Value& element : x.elements) any = join(any, element);
    return any.kind == Value::Kind::mismatch ? op.reject("this is " + any.text, "make the elements the same") : any;
  }
  if (!is_tensor(x)) return x.is_invariant() ? make_invariant(op.expr->type, true) : unproven(op, x);
  if (op.values[1].kind != Value::Kind::number || (is_split(x) && !x.rank))
    return is_split(x) || !op.values[1].is_invariant()
               ? unproven(op, is_split(x) ? x : op.values[1])
               : like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  if (is_split(x) && x.type.dim == 0) return op.reject("an element of dimension 0, which is split over tp");
  return moved(op, x.rank ? std::optional(*x.rank - 1) : std::nullopt, [](int64_t dim) { return dim - 1; });
}

Value slice(Operation& op) {
  for (size_t i = 1; i < op.values.size(); ++i)
    if (!op.values[i].is_invariant())
      return op.reject(quoted(op) + " by a tp-local count, of a value that is " + describe(op.values[0]));
  const Value& x = op.values[0];
  const std::optional<int64_t> dim = dimension(op, 1, 0);
  Value result = full_dimension(op, dim, quoted(op));
  if (is_tensor(result) && dim && *dim >= 0 && x.rank)
    std::ranges::copy_if(x.ones, std::back_inserter(result.ones), [&](int64_t one) { return one != *dim - *x.rank; });
  return result;
}

/// torch::stack(values, dim) of values like `value`, which is split: a new dimension is inserted at `dim`.
Value stacked(Operation& op, const Value& value) {
  const auto at = number_or(op, 1, 0);
  if (!at || !value.rank || value.type.dim < 0) return unproven(op, value);
  const int64_t axis = *at < 0 ? *at + *value.rank + 1 : *at;
  return Value::tensor(sharded(value.type.dim + (axis <= value.type.dim), value.type.parts), value.gradient,
                       *value.rank + 1);
}

Value cat(Operation& op) {
  if (op.values[0].elements.empty())
    return op.values[0].is_invariant() ? Value::tensor(kInvariant, true, std::nullopt) : unproven(op, op.values[0]);
  Operation each = op;
  each.values = op.values[0].elements;
  for (const Value& value : each.values)
    if (!is_tensor(value)) return unproven(op, value);
  for (const Value& value : each.values)
    if (value.type != each.values[0].type)
      return op.reject(quoted(op) + " of values that are " + describe(each.values[0]) + " and " + describe(value));
  Value result = each.values[0];
  // cat leaves out empty tensors of one dimension.
  for (const Value& value : each.values)
    if (value.rank != result.rank) result.rank.reset();
  result.gradient = any_gradient(each);
  result.ones.clear();
  result.last_size.clear();
  if (is_split(result) && quoted(op) == "stack") return stacked(op, result);
  if (is_split(result)) {
    const auto at = number_or(op, 1, 0), dim = at ? same_count(result, *at) : std::nullopt;
    if (!dim) return unproven(op, result);
    if (*dim == result.type.dim)
      return op.reject("cat along dimension " + std::to_string(*dim) +
                       ", which is split over tp: the slices would interleave");
  }
  if (quoted(op) == "stack") result.rank = result.rank ? std::optional(*result.rank + 1) : std::nullopt;
  return result;
}

/// x.repeat_interleave(count, dim): the elements of each shard stay together and in order. Without `dim` the tensor is
/// flattened.
Value repeat_interleave(Operation& op) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return unproven(op, x);
  const bool by_dimension = op.values.size() == 3 && op.values[2].kind == Value::Kind::number;
  const bool by_number =
      op.values.size() > 1 && op.values[1].kind == Value::Kind::number && !op.values[1].count.is_share;
  if (is_split(x) && !(by_dimension && by_number && op.number(2) && x.type.parts.empty())) return unproven(op, x);
  Value result = Value::tensor(x.type, any_gradient(op), by_dimension ? x.rank : std::nullopt);
  if (op.values.size() == 2) result.rank = 1;
  return result;
}

/// x.flip({dim}): along a dimension that is not split.
Value flip(Operation& op) { return full_dimension(op, dimension(op, 1, 0), quoted(op)); }

/// x.roll(shift, dim): along a dimension that is not split. Without `dim` the tensor is flattened.
Value roll(Operation& op) {
  return full_dimension(op, op.values.size() > 2 ? dimension(op, 2, 0) : std::nullopt, quoted(op));
}

/// at::constant_pad_nd(x, {before, after, …}, value): pads the last dimensions with a number.
Value pad(Operation& op) {
  const Value& x = op.values[0];
  if (!is_tensor(x) || op.values[1].kind != Value::Kind::tuple || !op.values[1].is_invariant() || is_partial(x) ||
      is_replicated(x))
    return unproven(op, x);
  const auto padded = static_cast<int64_t>(op.values[1].elements.size() / 2);
  if (is_split(x) && !from_end(x)) return unproven(op, x);
  if (is_split(x) && *from_end(x) >= -padded)
    return op.reject(quoted(op) + " of a dimension that is split over tp: each rank sees only its slice");
  return Value::tensor(x.type, x.gradient, x.rank);
}

/// x.gather(dim, index): elements of each rank's slice, by an index that is split in the same way. The result has the
/// index's shape, so an index that is full has all heads' entries where x has a rank's.
Value gather(Operation& op) {
  const Value &x = op.values[0], &index = op.values[2];
  if (!is_tensor(x) || !is_tensor(index) || is_replicated(x) || !(is_full(index) || is_split(index)))
    return unproven(op, is_tensor(x) && !is_replicated(x) ? index : x);
  if (!is_split(x) && !is_split(index)) return like(Value::tensor(kInvariant, x.gradient, x.rank), x.type);
  const auto dim = is_split(x) ? dimension(op, 1, 0) : std::nullopt;
  if (is_split(x) && !dim) return unproven(op, x);
  if (is_split(x) && *dim == x.type.dim)
    return op.reject("gather along dimension " + std::to_string(*dim) +
                     ", which is split over tp: each rank sees only its slice");
  const auto split = from_end(x), of_index = from_end(index);
  if (!is_split(x) || !is_split(index) || !split || split != of_index || x.type.parts != index.type.parts)
    return op.reject("gather from a value that is " + describe(x) + ", by an index that is " + describe(index),
                     "split both the same way: expand the index to a TP_LOCAL count of heads");
  // An index may be smaller than the value: a rank's slices would not start at the same element.
  const bool is_same_size = !x.split_size.empty() && x.split_size == index.split_size;
  if (!is_same_size && !is_as_long(x, index))
    return op.reject(
        "unproven: gather by an index that is not known to have as many elements as the value where "
        "both are split over tp",
        "expand the index to the TP_LOCAL count by which the value was viewed");
  return Value::tensor(x.type, x.gradient, x.rank);
}

}  // namespace

const RuleTable& cutting_rules() {
  static const RuleTable table = {
      {".chunk", chunk},
      {"chunk", chunk},
      {".split", split},
      {"split", split},
      {".split_with_sizes", split},
      {"split_with_sizes", split},
      {".unbind", unbind},
      {"unbind", unbind},
      {".select", select},
      {".slice", slice},
      {".narrow", slice},
      {".flip", flip},
      {".roll", roll},
      {".repeat_interleave", repeat_interleave},
      {".gather", gather},
      {"gather", gather},
      {"constant_pad_nd", pad},
      {"cat", cat},
      {"stack", cat},
      {"op []", index},
  };
  return table;
}

}  // namespace modgen
