// Rules of reductions and matmuls.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

// ---- Reductions ----

/// Arguments of a reduction other than its tensor.
struct Reduction {
  bool over_all = true;
  std::vector<std::optional<int64_t>> dims;  // reduced dimensions unless `over_all`; empty optionals are unknown
  bool dims_known = true;                    // whether the number of dimensions is known
  std::optional<bool> keeps = false;         // whether reduced dimensions are kept with size 1; empty if unknown
};

/// Reads the dimensions from operand `first`, and keepdim from operand `keeps`.
Reduction read_reduction(const Operation& op, size_t first, size_t keeps) {
  Reduction reduction;
  if (op.values.size() > keeps) {
    const std::string& name = op.operands[keeps]->name;
    const bool is_literal = op.operands[keeps]->kind == Expr::Kind::literal;
    reduction.keeps = is_literal && name == "true"    ? std::optional(true)
                      : is_literal && name == "false" ? std::optional(false)
                                                      : std::nullopt;
  }
  if (op.values.size() <= first) return reduction;
  const Value& dims = op.values[first];
  const bool is_flag = op.operands[first]->type == "bool";  // x.var(/*unbiased=*/false)
  if (dims.kind == Value::Kind::number && !is_flag) {
    reduction.over_all = false;
    reduction.dims = {dims.count.literal()};
  } else if (dims.kind == Value::Kind::tuple) {
    reduction.over_all = dims.elements.empty();
    for (const Value& dim : dims.elements) reduction.dims.push_back(dim.count.literal());
  } else if (!is_flag && op.operands[first]->type.find("ScalarType") == std::string::npos) {
    reduction.over_all = reduction.dims_known = false;
  }
  return reduction;
}

/// Reduces a value that is not split.
Value reduce_unsplit(const Value& x, const Reduction& over) {
  Value result = like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  if (!over.keeps || !over.dims_known) return result;
  if (!*over.keeps) {
    const auto count = static_cast<int64_t>(over.dims.size());
    if (over.over_all) result.rank = 0;
    if (!over.over_all && x.rank) result.rank = *x.rank - count;
    return result;
  }
  result.rank = x.rank;
  result.ones = x.ones;
  for (const auto& dim : over.dims)
    if (dim && (*dim < 0 || x.rank)) result.ones.push_back(*dim < 0 ? *dim : *dim - *x.rank);
  return result;
}

Value reduced(Operation& op, bool adds, size_t first = 1, size_t keeps = 2) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return x.is_invariant() ? make_invariant(op.expr->type, x.carries_gradient()) : unproven(op, x);
  if (is_partial(x) && !adds)
    return op.reject(quoted(op) + " is not linear, and meets a partial sum over tp", kMissingSum);
  const Reduction over = read_reduction(op, first, keeps);
  if (!is_split(x)) return reduce_unsplit(x, over);
  int64_t split = x.type.dim, before = 0, after = 0;  // reduced dimensions before the split one, and after it
  bool is_reduced = over.over_all;
  if (!over.dims_known) return unproven(op, x);
  for (const auto& given : over.dims) {
    const auto dim = given ? same_count(x, *given) : std::nullopt;
    if (!dim) return unproven(op, x);
    is_reduced = is_reduced || *dim == split;
    ++(*dim < split ? before : after);
  }
  if (is_reduced) {
    if (!adds) return op.reject(quoted(op) + " over a dimension that is split over tp: each rank sees only its slice");
    return Value::tensor(kPartial, x.gradient, std::nullopt);
  }
  if (!over.keeps) return unproven(op, x);
  if (*over.keeps) {
    Value result = x;
    result.last_size.clear();
    return result;
  }
  split += split < 0 ? after : -before;
  return Value::tensor(sharded(split, x.type.parts), x.gradient,
                       x.rank ? std::optional(*x.rank - before - after) : std::nullopt);
}

Value sum(Operation& op) {
  if (is_partial(op.values[0]))
    for (size_t i = 1; i < op.values.size(); ++i)
      if (!keeps_fractions(op, i))
        return op.reject(quoted(op) + " of a partial sum over tp, in a type that is not known to be a floating type",
                         kMissingSum);
  return reduced(op, true);
}
Value reduction(Operation& op) { return reduced(op, false); }

/// x.max() over all elements, or the elementwise maximum of two tensors.
Value extreme(Operation& op) {
  return op.values.size() == 2 && is_tensor(op.values[1]) ? elementwise(op, Algebra::non_linear) : reduction(op);
}

/// x.var(dim, unbiased, keepdim)
Value spread(Operation& op) { return reduced(op, false, 1, 3); }

/// x.norm(p, dim, keepdim)
Value norm(Operation& op) { return reduced(op, false, 2, 3); }

/// Operations along one dimension that keep the shape: softmax, cumulative sums.
Value along(Operation& op) {
  if (is_partial(op.values[0]))
    return op.reject(quoted(op) + " is not linear, and meets a partial sum over tp", kMissingSum);
  Value result = full_dimension(op, dimension(op, 1, -1), quoted(op));
  if (is_tensor(result)) result.ones = op.values[0].ones, result.last_size = op.values[0].last_size;
  return result;
}

// ---- Matmuls ----

/// The parts within which an operand is split; null if it is not split.
const std::vector<std::string>* get_parts(const Value& value) { return is_split(value) ? &value.type.parts : nullptr; }

std::optional<int64_t> product_rank(const Value& a, const Value& b) {
  if (!a.rank || !b.rank) return std::nullopt;
  // A vector has no rows, or no columns.
  return std::max<int64_t>({*a.rank, *b.rank, 2}) - (*a.rank == 1) - (*b.rank == 1);
}

/// Whether the value is known to have at least two dimensions.
bool has_rows(const Value& value) {
  return value.rank ? *value.rank >= 2
                    : (is_split(value) && (value.type.dim < -1 || value.type.dim > 0)) ||
                          std::any_of(value.ones.begin(), value.ones.end(), [](int64_t dim) { return dim < -1; });
}

Value matmul(Operation& op) {
  const Value &a = op.values[0], &b = op.values[1];
  if (!is_tensor(a) || !is_tensor(b)) return unproven(op, is_tensor(a) ? b : a);
  if (is_partial(a) && is_partial(b))
    return op.reject("a product of two partial sums over tp is not a partial sum of the product", kMissingSum);
  const auto rank = product_rank(a, b);
  const bool gradient = a.gradient || b.gradient;
  if (is_partial(a) || is_partial(b)) {
    const Value& factor = is_partial(a) ? b : a;
    if (factor.type != kInvariant || factor.gradient)
      return op.reject("a partial sum over tp meets a factor that is " + describe(factor), kMissingSum);
    return Value::tensor(kPartial, gradient, rank);
  }
  if (!is_split(a) && !is_split(b)) {
    Value result = elementwise(op, Algebra::product);
    result.rank = rank;
    result.ones.clear();
    result.last_size.clear();
    return result;
  }
  if (a.rank == 1 || b.rank == 1) return unproven(op, is_split(a) ? a : b);
  // Counted from the end; 0 if the operand is not split.
  const int64_t left = is_split(a) ? from_end(a).value_or(0) : 0, right = is_split(b) ? from_end(b).value_or(0) : 0;
  if ((is_split(a) && left == 0) || (is_split(b) && right == 0)) return unproven(op, is_split(a) ? a : b);
  if (left != 0 && right != 0 && *get_parts(a) != *get_parts(b))
    return op.reject("a matmul of values that are split over tp within different parts");
  if (left == -1 || right == -2) {
    if (left == -1 && right == -2) return Value::tensor(kPartial, gradient, rank);
    return op.reject("a matmul over a dimension of which only one side is split over tp");
  }
  if (left != 0 && right != 0) {
    if (left != right) return op.reject("a matmul of values that are split over tp along different dimensions");
    return Value::tensor(sharded(left, a.type.parts), gradient, rank);
  }
  if ((left == -2 || right == -1) && !has_rows(b)) return unproven(op, is_split(a) ? a : b);
  const int64_t split = left != 0 ? left : right;
  const Value& full = left != 0 ? b : a;
  if (split < -2 && !(full.rank && *full.rank < -split) && !has_one(full, split))
    return op.reject("a value that is full on every tp rank meets one that is split over tp",
                     "split both the same way");
  const std::vector<std::string> parts = left != 0 ? a.type.parts : b.type.parts;
  op.enter(left != 0 ? 1 : 0);
  return Value::tensor(sharded(split, parts), gradient, rank);
}

/// torch::addmm(bias, a, b)
Value addmm(Operation& op) {
  Operation product = op;
  product.values = {op.values[1], op.values[2]};
  const Value result = matmul(product);
  if (!product.message.empty()) return op.reject(product.message, product.advice);
  for (const size_t i : product.entered) op.entered.push_back(i + 1);
  Operation sum = op;
  sum.name = "op +";
  sum.entered.clear();
  sum.values = {op.values[0], result};
  Value total = elementwise(sum, Algebra::sum);
  if (!sum.message.empty()) return op.reject(sum.message, sum.advice);
  for (const size_t i : sum.entered) {
    if (i == 0) op.entered.push_back(0);
    if (i == 1) op.enter(1), op.enter(2);  // the matmul's operands
  }
  return total;
}

/// at::linear(x, weight, bias): the weight is [out, in].
Value linear_function(Operation& op) {
  const Value &x = op.values[0], &weight = op.values[1];
  if (!is_tensor(x) || !is_tensor(weight)) return unproven(op, is_tensor(x) ? weight : x);
  const bool has_bias = op.values.size() > 2 && is_tensor(op.values[2]);
  if (is_partial(weight) || is_replicated(weight)) return unproven(op, weight);
  const bool is_matrix = weight.rank ? weight.rank == 2 : weight.type.dim == -2;
  if (!is_matrix && (is_split(weight) || is_split(x))) return unproven(op, is_split(x) ? x : weight);
  const bool is_by_output = is_split(weight) && (weight.type.dim == 0 || weight.type.dim == -2);
  if (is_by_output) {
    if (is_split(x) || is_partial(x))
      return op.reject("a weight that is split by output feature meets a value that is " + describe(x));
    const bool fits = has_bias && is_split(op.values[2]) && from_end(op.values[2]) == -1 &&
                      op.values[2].type.parts == weight.type.parts;
    if (has_bias && !fits) return op.reject("a weight that is split by output feature with a bias that is not");
    op.enter(0);
    return Value::tensor(sharded(-1, weight.type.parts), true, x.rank);
  }
  if (is_split(weight)) {
    if (!is_split(x) || from_end(x) != -1 || x.type.parts != weight.type.parts)
      return op.reject("a weight that is split by input feature meets a value that is " + describe(x));
    if (has_bias)
      return op.reject("a bias is added to a partial sum over tp: it would count once for every rank", kMissingSum);
    return Value::tensor(kPartial, true, x.rank);
  }
  if (is_split(x)) {
    if (!from_end(x)) return unproven(op, x);
    if (from_end(x) == -1)
      return op.reject("a weight that is full on every tp rank meets a value that is " + describe(x));
    if (has_bias && (is_split(op.values[2]) || is_partial(op.values[2])))
      return op.reject("a weight that is full on every tp rank with a bias that is " + describe(op.values[2]));
    op.enter(1);
    if (has_bias) op.enter(2);
    Value result = x;
    result.gradient = any_gradient(op);
    result.last_size.clear();
    std::erase(result.ones, -1);
    return result;
  }
  if (is_partial(x)) return op.reject("a layer of a partial sum over tp", kMissingSum);
  Value result = elementwise(op, Algebra::non_linear);
  result.rank = is_matrix ? x.rank : std::nullopt;
  result.ones.clear();
  result.last_size.clear();
  return result;
}

}  // namespace

const RuleTable& matmul_rules() {
  static const RuleTable table = {
      {".sum", sum},
      {"sum", sum},
      {".mean", reduction},
      {"mean", reduction},
      {".amax", reduction},
      {".amin", reduction},
      {".max", extreme},
      {".min", extreme},
      {".var", spread},
      {".std", spread},
      {".norm", norm},
      {".logsumexp", reduction},
      {".argmax", reduction},
      {".all", reduction},
      {".any", reduction},
      {".softmax", along},
      {".log_softmax", along},
      {".cumsum", along},
      {"softmax", along},
      {"log_softmax", along},
      {"cumsum", along},
      {"matmul", matmul},
      {".matmul", matmul},
      {"bmm", matmul},
      {".bmm", matmul},
      {"addmm", addmm},
      {"linear", linear_function},
  };
  return table;
}

}  // namespace modgen
