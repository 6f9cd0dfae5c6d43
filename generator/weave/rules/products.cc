// Rules of reductions and of products of matrices.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

// ---- Reductions ----

Value reduced(Operation& op, bool adds) {
  const Value& x = op.values[0];
  if (!is_tensor(x)) return x.is_invariant() ? invariant_of(op.expr->type, x.gradient) : unproven(op, x);
  const bool keeps = op.values.size() > 2 && op.operands[2]->name == "true";
  if (is_partial(x) && !adds)
    return op.refuse(quoted(op) + " is not linear, and meets a partial sum over tp", kForgottenExit);
  if (!is_split(x)) {
    Value result = like(Value::tensor(kInvariant, x.gradient, keeps ? x.rank : std::nullopt), x.type);
    const auto dim = op.number(1);
    if (keeps && dim && (*dim < 0 || x.rank)) result.ones.push_back(*dim < 0 ? *dim : *dim - *x.rank);
    return result;
  }
  const bool over_all = op.values.size() == 1;
  const auto dim = over_all ? x.type.dim : op.number(1) ? same_count(x, *op.number(1)) : std::nullopt;
  if (!dim) return unproven(op, x);
  if (*dim == x.type.dim) {
    if (!adds) return op.refuse(quoted(op) + " over a dimension that is split over tp: each rank sees only its slice");
    return Value::tensor(kPartial, x.gradient, std::nullopt);
  }
  if (keeps) {
    Value result = x;
    result.last_size.clear();
    return result;
  }
  return moved(op, x.rank ? std::optional(*x.rank - 1) : std::nullopt,
               [&](int64_t at) { return at > *dim ? at - 1 : at; });
}

/// x.norm(p, dim, keepdim): as a reduction of x with what stands behind p.
Value norm(Operation& op) {
  Operation reduction = op;
  if (op.values.size() > 1) {
    reduction.values.erase(reduction.values.begin() + 1);
    reduction.operands.erase(reduction.operands.begin() + 1);
  }
  const Value result = reduced(reduction, false);
  op.message = reduction.message, op.advice = reduction.advice;
  return result;
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

/// The parts within which an operand is split; null where it is not split.
const std::vector<std::string>* parts_of(const Value& value) { return is_split(value) ? &value.type.parts : nullptr; }

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
  if (!is_split(a) && !is_split(b)) {
    Value result = elementwise(op, Algebra::product);
    result.rank = rank;
    result.ones.clear();
    return result;
  }
  if (a.rank == 1 || b.rank == 1) return unproven(op, is_split(a) ? a : b);
  // Counted from the end; 0 where the operand is not split.
  const int64_t left = is_split(a) ? from_end(a).value_or(0) : 0, right = is_split(b) ? from_end(b).value_or(0) : 0;
  if ((is_split(a) && left == 0) || (is_split(b) && right == 0)) return unproven(op, is_split(a) ? a : b);
  if (left != 0 && right != 0 && *parts_of(a) != *parts_of(b))
    return op.refuse("a product of matrices that are split over tp within different parts");
  if (left == -1 || right == -2) {
    if (left == -1 && right == -2) return Value::tensor(kPartial, gradient, rank);
    return op.refuse("a product of matrices over a dimension of which only one side is split over tp");
  }
  if (left != 0 && right != 0) {
    if (left != right) return op.refuse("a product of matrices that are split over tp along different dimensions");
    return Value::tensor(sharded(left, a.type.parts), gradient, rank);
  }
  const int64_t split = left != 0 ? left : right;
  const Value& whole = left != 0 ? b : a;
  if (split < -2 && !(whole.rank && *whole.rank < -split) &&
      std::find(whole.ones.begin(), whole.ones.end(), split) == whole.ones.end())
    return op.refuse("a value that is whole on every tp rank meets one that is split over tp", "split both alike");
  const std::vector<std::string> parts = left != 0 ? a.type.parts : b.type.parts;
  op.enter(left != 0 ? 1 : 0);
  return Value::tensor(sharded(split, parts), gradient, rank);
}

/// torch::addmm(bias, a, b)
Value addmm(Operation& op) {
  Operation product = op;
  product.values = {op.values[1], op.values[2]};
  const Value result = matmul(product);
  if (!product.message.empty()) return op.refuse(product.message, product.advice);
  for (const size_t i : product.entered) op.entered.push_back(i + 1);
  Operation sum = op;
  sum.name = "op +";
  sum.entered.clear();
  sum.values = {op.values[0], result};
  Value total = elementwise(sum, Algebra::sum);
  if (!sum.message.empty()) return op.refuse(sum.message, sum.advice);
  if (std::find(sum.entered.begin(), sum.entered.end(), 0U) != sum.entered.end()) op.entered.push_back(0);
  return total;
}

/// at::linear(x, weight, bias): the weight is [out, in].
Value linear_function(Operation& op) {
  const Value &x = op.values[0], &weight = op.values[1];
  if (!is_tensor(x) || !is_tensor(weight)) return unproven(op, is_tensor(x) ? weight : x);
  const bool has_bias = op.values.size() > 2 && is_tensor(op.values[2]);
  if (is_partial(weight) || is_replicated(weight)) return unproven(op, weight);
  if (is_split(weight) && weight.type.dim == 0) {
    if (is_split(x) || is_partial(x))
      return op.refuse("a weight that is split by output feature meets a value that is " + describe(x));
    if (has_bias && !(is_split(op.values[2]) && op.values[2].type == weight.type))
      return op.refuse("a weight that is split by output feature with a bias that is not");
    op.enter(0);
    return Value::tensor(sharded(-1, weight.type.parts), true, x.rank);
  }
  if (is_split(weight)) {
    if (!is_split(x) || from_end(x) != -1 || x.type.parts != weight.type.parts)
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
    Value result = x;
    result.last_size.clear();
    return result;
  }
  if (is_partial(x)) return op.refuse("a layer of a partial sum over tp", kForgottenExit);
  Value result = elementwise(op, Algebra::non_linear);
  result.rank = x.rank;
  result.ones.clear();
  return result;
}

}  // namespace

const RuleTable& product_rules() {
  static const RuleTable table = {
      {".sum", sum},
      {"sum", sum},
      {".mean", reduction},
      {"mean", reduction},
      {".amax", reduction},
      {".amin", reduction},
      {".max", reduction},
      {".min", reduction},
      {".var", reduction},
      {".std", reduction},
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
