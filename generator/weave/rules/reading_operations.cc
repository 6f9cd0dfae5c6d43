// Rules of operations for values that are split by the rows of the batch or by positions, where the tp axis has no rule
// or another one: parameters are full, and their gradients are summed over ranks in any case.
#include "generator/weave/rules/readings.h"

namespace modgen {
namespace {

// ---- Views ----

/// Whether the sizes after `rest`, which is -1, divide what each row or position of `x` has: then the rest is a number
/// of parts of each. Otherwise it would join parts of several.
bool divide_each(const Operation& op, const std::vector<Value>& sizes, size_t rest) {
  const Value& x = op.values[0];
  Count after = literal_count(1), each = literal_count(1);
  for (size_t i = rest + 1; i < sizes.size(); ++i) after = product_of(after, sizes[i].count);
  if (after.literal() == 1) return true;
  for (int64_t i = x.type.dim; x.rank && x.type.dim >= 0 && i < *x.rank; ++i) {
    std::optional<Count> size = x.sizes[i];
    size->is_share = false;
    if (i == x.type.dim) {  // what else is in that dimension
      size = without_factors(*size, field_count(op.axis == Axis::rows ? "#batch" : "#seq"));
      if (size && x.outer.is_known()) size = without_factors(*size, x.outer);
    }
    if (size && size->product()) each = product_of(each, *size);
  }
  return without_factors(each, after).has_value();
}

/// Where a view by `sizes` leaves what is split: its dimension, and the sizes before it in that dimension. Empty if the
/// sizes do not keep it together.
std::optional<std::pair<int64_t, Count>> find_split(const Operation& op, const std::vector<Value>& sizes) {
  const Value& x = op.values[0];
  const auto leading = leading_size(x);
  const auto shares = std::ranges::count_if(sizes, has_share);
  Count before = literal_count(1);
  for (size_t i = 0; leading && shares < 2 && i < sizes.size(); ++i) {
    const Count& size = sizes[i].count;
    const bool is_rest = shares == 0 && size.literal() == -1;
    if (!size.is_share && !is_rest) {
      before = product_of(before, size);
      continue;
    }
    const std::optional<Count> inside = before == *leading ? literal_count(1) : without_factors(*leading, before);
    if (!inside || (is_rest && !divide_each(op, sizes, i))) return std::nullopt;
    if (inside->literal() == 1) return std::pair(static_cast<int64_t>(i), Count());
    if (is_rest ? i + 1 < sizes.size() : !without_factors(size, *inside)) return std::nullopt;
    return std::pair(static_cast<int64_t>(i), *inside);
  }
  return std::nullopt;
}

/// x.view({…}): the product of the sizes before what is split stays the same.
Value view(Operation& op) {
  const Value& x = op.values[0];
  if (!is_tensor(x) || op.values.size() != 2 || op.values[1].kind != Value::Kind::tuple) return unproven(op, x);
  const std::vector<Value>& sizes = op.values[1].elements;
  const auto rank = static_cast<int64_t>(sizes.size());
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i].count.literal() == 1) result.ones.push_back(i - rank);
  if (!is_split(x)) return std::ranges::any_of(op.values, has_share) ? unproven(op, x) : like(result, x.type);
  const auto split = find_split(op, sizes);
  if (!split)
    return op.reject(
        "a view of a value that is " + describe(x) +
            ", whose sizes before that dimension are not known to be the value's own, or that joins several of them",
        "write the value's own sizes first, as in x.view({x.size(0), …})");
  result = like(result, sharded(split->first));
  result.outer = split->second;
  return result;
}

/// x.size(dim), x.numel()
Value read_size(Operation& op) {
  Value size = find_rule(op.name)(op);
  size.may_be_one = size.count.is_share && op.values[0].may_be_one;
  return size;
}

/// x.sizes(), as a list of numbers.
Value list_sizes(Operation& op) {
  const Value& x = op.values[0];
  if (!is_split(x) || !x.rank) return unproven(op, x);
  Value sizes = Value::tuple(Value::number(), static_cast<size_t>(*x.rank));
  for (int64_t i = 0; i < *x.rank; ++i) {
    Value& size = sizes.elements[static_cast<size_t>(i)];
    size.count = x.sizes[i];
    size.count.is_share = i == x.type.dim;
    if (size.count.is_share) size.outer = x.outer, size.may_be_one = x.may_be_one;
  }
  return sizes;
}

/// x.flatten(begin, end)
Value flatten(Operation& op) {
  const Value& x = op.values[0];
  const auto begin = dimension(op, 1, 0), end = dimension(op, 2, -1);
  const bool merges = is_split(x) && x.rank && begin && end && x.type.dim > *begin && x.type.dim <= *end;
  if (!merges) {
    Value result = find_rule(".flatten")(op);
    result.outer = x.outer;
    return result;
  }
  Count outer = x.outer.is_known() ? x.outer : literal_count(1);
  for (int64_t i = *begin; i < x.type.dim; ++i) outer = product_of(outer, x.sizes[i]);
  if (!outer.product()) return unproven(op, x);
  Value result = Value::tensor(sharded(*begin), x.gradient, *x.rank - (*end - *begin));
  if (outer.literal() != 1) result.outer = std::move(outer);
  return result;
}

/// torch::zeros({batch, 1}): a constant has rows like any other value.
Value created(Operation& op) {
  const bool listed = !op.operands.empty() && op.operands[0]->kind == Expr::Kind::list;
  if (!listed || std::ranges::count_if(op.values[0].elements, has_share) != 1 ||
      std::any_of(op.values.begin() + 1, op.values.end(), [](const Value& value) { return !value.is_invariant(); }))
    return op.reject("a tensor whose number of elements is " + describe(Value::number(true)));
  const std::vector<Value>& sizes = op.values[0].elements;
  const auto rank = static_cast<int64_t>(sizes.size()), split = std::ranges::find_if(sizes, has_share) - sizes.begin();
  Value result = Value::tensor(sharded(split), false, rank);
  result.outer = sizes[split].outer;
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i].count.literal() == 1) result.ones.push_back(i - rank);
  return result;
}

/// x.index({Slice(), 0, Slice(1)}): slices and numbers, the first of which is a full slice of what is split.
Value index(Operation& op) {
  const Value& x = op.values[0];
  if (op.operands[1]->kind != Expr::Kind::list || !op.values[1].is_invariant()) return unproven(op, x);
  const std::vector<Expr>& indices = op.operands[1]->operands;
  if (!is_split(x) || !x.rank || static_cast<int64_t>(indices.size()) > *x.rank) return unproven(op, x);
  int64_t split = x.type.dim, rank = *x.rank;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Expr* index = &indices[i];
    while (index->operands.size() == 1 && index->type.find("TensorIndex") != std::string::npos)
      index = index->operands.data();
    const bool is_slice = index->type == "at::indexing::Slice";
    const bool is_number = index->type == "int" || index->type == "long";  // not "..." or a flag
    const bool is_split_one = static_cast<int64_t>(i) == x.type.dim;
    if (!(is_slice || is_number) || (is_split_one && !(is_slice && index->operands.empty())))
      return op.reject(quoted(op) + " by other than full slices of a dimension that is split over tp");
    if (is_number && static_cast<int64_t>(i) < x.type.dim) --split;
    if (is_number) --rank;
  }
  return Value::tensor(sharded(split), x.gradient, rank);
}

// ---- Along a dimension ----

/// x.topk(k, dim), x.sort(dim): values and indices.
template <size_t kDim>
Value values_and_indices(Operation& op) {
  Value result = full_dimension(op, dimension(op, kDim, -1), quoted(op));
  return is_tensor(result) ? Value::tuple(std::move(result), 2) : result;
}

/// x.argsort(dim)
Value ordered(Operation& op) { return full_dimension(op, dimension(op, 1, -1), quoted(op)); }

constexpr const char* kOtherIndex = ", by an index that is not known to have as many elements there";

/// x.scatter(dim, index, source): all split along another dimension, in the same way.
Value scatter(Operation& op) {
  const Value& x = op.values[0];
  const Value result = full_dimension(op, dimension(op, 1, 0), quoted(op));
  if (!is_split(result)) return is_tensor(result) ? unproven(op, op.values[2]) : result;
  for (size_t i = 2; i < op.values.size(); ++i) {
    const Value& value = op.values[i];
    if (value.kind == Value::Kind::number && !value.count.is_share) continue;
    if (!is_as_long(x, value))
      return op.reject("unproven: " + quoted(op) + " into a value that is " + describe(x) + kOtherIndex);
  }
  return result;
}

/// x.index_select(dim, index), by an index that is the same for all rows.
Value select_indices(Operation& op) {
  if (!op.values[2].is_invariant()) return unproven(op, op.values[2]);
  return full_dimension(op, dimension(op, 1, 0), quoted(op));
}

/// x.unflatten(dim, sizes): of another dimension than the one that is split.
Value unflatten(Operation& op) {
  const Value& x = op.values[0];
  const auto dim = dimension(op, 1, 0);
  const bool listed = op.operands.size() > 2 && op.operands[2]->kind == Expr::Kind::list;
  if (!is_split(x) || !x.rank || !dim || !listed || *dim == x.type.dim || !op.values[2].is_invariant())
    return unproven(op, x);
  const auto more = static_cast<int64_t>(op.values[2].elements.size()) - 1;
  return Value::tensor(sharded(x.type.dim + (*dim < x.type.dim ? more : 0)), x.gradient, *x.rank + more);
}

/// x.repeat({1, 2}): along other dimensions than the one that is split.
Value repeat(Operation& op) {
  const Value& x = op.values[0];
  const auto times = sizes_from(op, 1);
  const auto rank = static_cast<int64_t>(times.size());
  const auto split = is_split(x) ? from_end(x) : std::nullopt;
  if (!split || -*split > rank || times[rank + *split].second.count.literal() != 1) return unproven(op, x);
  return Value::tensor(sharded(rank + *split), x.gradient, rank);
}

/// x.expand_as(other), x.view_as(other), where both are split along the same dimension.
Value shaped_like(Operation& op) {
  const Value &x = op.values[0], &other = op.values[1];
  const bool is_same = is_split(x) && is_split(other) && x.rank && x.rank == other.rank && x.type == other.type;
  return is_same ? Value::tensor(x.type, x.gradient, x.rank) : unproven(op, is_split(x) ? other : x);
}

/// at::one_hot(x, classes)
Value one_hot(Operation& op) {
  const Value& x = op.values[0];
  if (!is_split(x) || x.type.dim < 0) return unproven(op, x);
  if (op.values.size() < 2 || op.number(1) == -1)
    return op.reject(quoted(op) + " without a number of classes, which then follows from all rows");
  return Value::tensor(x.type, false, x.rank ? std::optional(*x.rank + 1) : std::nullopt);
}

/// x.gather(dim, index): as many rows or positions of both.
Value gather(Operation& op) {
  const Value &x = op.values[0], &index = op.values[2];
  const Value along = full_dimension(op, dimension(op, 1, 0), quoted(op));
  if (!is_split(along)) return is_tensor(along) ? unproven(op, index) : along;
  if (!is_as_long(x, index)) return op.reject("unproven: gather from a value that is " + describe(x) + kOtherIndex);
  return Value::tensor(x.type, x.gradient, x.rank);
}

/// std::get<i>(values): which element is not known.
Value get_element(Operation& op) {
  Value any;
  for (const Value& element : op.values[0].elements) any = join(any, element);
  return op.values[0].kind == Value::Kind::tuple && any.kind != Value::Kind::mismatch ? any
                                                                                      : unproven(op, op.values[0]);
}

// ---- Layers ----

/// A layer over the last dimension.
Value linear_layer(Operation& op) {
  const Value& x = op.values[1];
  if (is_partial(x)) return op.reject("a layer reads a partial sum over tp");
  if (!is_split(x) || !from_end(x)) return unproven(op, x);
  if (*from_end(x) == -1)
    return op.reject("a layer over a dimension that is split over tp: each rank sees only its slice");
  Value result = Value::tensor(x.type, true, x.rank);
  for (const int64_t one : x.ones)
    if (one != -1) result.ones.push_back(one);
  return result;
}

/// A table's rows for the ids in operand 1.
Value embedding(Operation& op) {
  const Value& ids = op.values[1];
  if (!op.values[0].is_invariant() && op.values[0].kind != Value::Kind::module) return unproven(op, op.values[0]);
  if (!is_split(ids) || !ids.rank) return unproven(op, ids);
  Value result = Value::tensor(ids.type, true, *ids.rank + 1);
  for (const int64_t one : ids.ones) result.ones.push_back(one - 1);
  return result;
}

/// A convolution over images or sequences [rows, channels, …].
Value convolution_layer(Operation& op) {
  const Value& x = op.values[1];
  const int64_t rank = op.name == "Conv1d layer" ? 3 : 4;  // without rows, dimension 0 are the channels
  if (!is_split(x) || x.type.dim != 0 || x.rank != rank) return unproven(op, x);
  return Value::tensor(sharded(0), true, x.rank);
}

/// Whether the runtime knows which positions of context-parallel ranks are rows of `x`: of [batch, seq, features],
/// [batch * seq, features], and of [batch, features], which is the same on all of them.
bool has_known_rows(const Value& x) {
  if (!is_split(x)) return is_full(x) && x.rank == 2;
  const bool is_compound = x.type.dim == 0 && x.rank == 2 && x.outer == field_count("#batch");
  return is_compound || (x.type.dim == 1 && x.rank == 3 && !x.outer.is_known());
}

/// The mask depends on the row's number in the batch, which is dimension 0, and on the position.
Value dropout_layer(Operation& op) {
  const Value& x = op.values[1];
  if (op.axis == Axis::context && !has_known_rows(x))
    return op.reject("unproven: dropout of a value that is " + describe(x),
                     "apply it to a value [batch, seq, features], or to one per row, [batch, features]");
  if (is_split(x) && op.axis == Axis::rows && (x.type.dim != 0 || x.outer.is_known()))
    return op.reject("unproven: dropout of a value that is " + describe(x),
                     "apply it where the rows of the batch are dimension 0");
  return elementwise(op, Algebra::linear, 1, 2);
}

Value elementwise_layer(Operation& op) { return elementwise(op, Algebra::non_linear, 1, 2); }

Value function_of_first(Operation& op) { return elementwise_of_first(op, Algebra::non_linear, 1); }
Value function_of_all(Operation& op) { return elementwise(op, Algebra::non_linear); }

/// Applies the rule that a method of the same name has.
Value as_method(Operation& op) { return find_rule("." + quoted(op))(op); }
/// Other reductions, and other operations along one dimension.
Value as_extreme(Operation& op) { return find_rule(".amax")(op); }
Value as_sums(Operation& op) { return find_rule(".cumsum")(op); }
Value as_transpose(Operation& op) { return find_rule(".transpose")(op); }
Value as_matmul(Operation& op) { return find_rule("matmul")(op); }

// ---- Woven calls that a spec writes itself ----

Value unchanged(Operation& op) { return op.values[0]; }

}  // namespace

const ReadingRules& operation_readings() {
  static const ReadingRules table = [] {
    ReadingRules rules = {
        {".view", {view}},
        {".reshape", {view}},
        {".flatten", {flatten}},
        {".size", {read_size}},
        {".numel", {read_size}},
        {".sizes", {list_sizes}},
        {"zeros", {created}},
        {"ones", {created}},
        {"empty", {created}},
        {"full", {created}},
        {".index", {index}},
        {".topk", {values_and_indices<2>}},
        {"topk", {values_and_indices<2>}},
        {".sort", {values_and_indices<1>}},
        {"sort", {values_and_indices<1>}},
        {".argsort", {ordered}},
        {"argsort", {ordered}},
        {".scatter", {scatter}},
        {".scatter_add", {scatter}},
        {"scatter", {scatter}},
        {".index_select", {select_indices}},
        {"index_select", {select_indices}},
        {".unflatten", {unflatten}},
        {".repeat", {repeat}},
        {".expand_as", {shaped_like}},
        {".view_as", {shaped_like}},
        {".swapaxes", {as_transpose}},
        {".swapdims", {as_transpose}},
        {".mm", {as_matmul}},
        {"mm", {as_matmul}},
        {"one_hot", {one_hot}},
        {".gather", {gather}},
        {"gather", {gather}},
        {"std::get", {get_element}},
        {"linear layer", {linear_layer}},
        {"embedding layer", {embedding}},
        {"embedding", {embedding}},
        {"Conv1d layer", {convolution_layer}},
        {"Conv2d layer", {convolution_layer}},
        {"Dropout layer", {dropout_layer, {}, true}},
        {"modular::tp::enter", {unchanged}},
        {"modular::tp::gather", {unchanged}},
        {"modular::same_labels", {unchanged}},
        {"modular::quick_gelu", {function_of_first}},
    };
    for (const char* name : {"CELU layer", "ELU layer", "Hardshrink layer", "Hardtanh layer", "LeakyReLU layer",
                             "LogSigmoid layer", "Mish layer", "ReLU6 layer", "SELU layer", "Sigmoid layer",
                             "Softplus layer", "Softshrink layer", "Softsign layer"})
      rules[name] = {elementwise_layer};
    for (const char* name :
         {"acos",     "acosh",      "asin",      "asinh",     "atan",   "atanh",      "bitwise_not", "ceil",
          "cosh",     "deg2rad",    "digamma",   "erfc",      "erfinv", "fix",        "frac",        "hardshrink",
          "i0",       "isfinite",   "lgamma",    "log10",     "log2",   "logit",      "nan_to_num",  "negative",
          "positive", "rad2deg",    "sgn",       "signbit",   "sinc",   "sinh",       "softshrink",  "softsign",
          "tan",      "tanhshrink", "threshold", "trunc",     "elu",    "leaky_relu", "hardtanh",    "log_sigmoid",
          "softplus", "isnan",      "isinf",     "reciprocal"})
      rules[name] = {function_of_first};
    for (const char* name :
         {".acos",   ".acosh",   ".asin",    ".asinh", ".atan",       ".atanh",    ".bitwise_not", ".ceil",
          ".cosh",   ".deg2rad", ".digamma", ".erfc",  ".erfinv",     ".fix",      ".frac",        ".isfinite",
          ".lgamma", ".log10",   ".log2",    ".logit", ".nan_to_num", ".negative", ".positive",    ".rad2deg",
          ".sgn",    ".signbit", ".sinc",    ".sinh",  ".tan",        ".trunc"})
      rules[name] = {function_of_first};
    for (const char* name :
         {".remainder",     "remainder",   ".fmod",        "fmod",        ".floor_divide", "floor_divide",
          ".true_divide",   "atan2",       ".bitwise_and", ".bitwise_or", ".bitwise_xor",  "hypot",
          ".lerp",          "lerp",        ".logical_xor", "logaddexp",   ".greater",      ".less",
          ".greater_equal", ".less_equal", ".not_equal",   "copysign",    "xlogy",         ".multiply",
          ".divide",        ".subtract",   "addcmul",      ".addcmul",    "op &",          "op |",
          "op ^",           "op !",        "op ~"})
      rules[name] = {function_of_all};
    for (const char* name : {".prod", ".argmin", ".count_nonzero", ".nansum", ".nanmean", "argmin", "prod"})
      rules[name] = {as_extreme};
    for (const char* name : {".cumprod", ".cummax", ".cummin", ".logcumsumexp", "cumprod"}) rules[name] = {as_sums};
    for (const char* name : {"amax", "amin", "logsumexp", "argmax", "max", "min", "all", "any"})
      rules[name] = {as_method};
    return rules;
  }();
  return table;
}

}  // namespace modgen
