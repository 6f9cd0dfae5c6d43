// Arithmetic and elementwise functions.
#include <cmath>

#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

Tensor to_tensor(const Concrete& value) {
  return value.tensor.defined() ? value.tensor : at::scalar_tensor(value.number, at::kDouble);
}

// ---- Tensors ----

using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

/// Two tensors, or one and a number.
SampleOperation binary(Binary function, Elements elements = Elements::any) {
  return [=](Sampler& sampler) {
    std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(2), elements);
    if (sampler.chance(0.25)) {
      const bool first = sampler.chance(0.3);
      operands[first ? 0 : 1] = sampler.chance(0.5) ? sampler.real(1.5) : sampler.literal(3);
    }
    return application(std::move(operands),
                       [=](const Arguments& a) { return function(to_tensor(a[0]), to_tensor(a[1])); });
  };
}

/// The same as a method of a tensor.
SampleOperation method(Binary function, Elements elements = Elements::any) {
  return [=](Sampler& sampler) {
    std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(2), elements);
    if (sampler.chance(0.25)) operands[1] = sampler.chance(0.5) ? sampler.real(1.5) : sampler.literal(3);
    return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, to_tensor(a[1])); });
  };
}

SampleOperation unary(Unary function, Elements elements = Elements::any) {
  return [=](Sampler& sampler) {
    const Shape shape = sampler.shape(0, 4);
    return of_one(sampler.tensor(shape, sampler.type_for(shape), elements), function);
  };
}

/// x.add(y, alpha)
SampleOperation scaled(Tensor (*function)(const Tensor&, const Tensor&, const at::Scalar&)) {
  return [=](Sampler& sampler) {
    std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(2));
    if (sampler.chance(0.3)) operands.push_back(sampler.real(0.5));
    return application(std::move(operands), [=](const Arguments& a) {
      return function(a[0].tensor, a[1].tensor, a.size() > 2 ? a[2].number : 1.0);
    });
  };
}

/// x.div(y, "floor")
SampleOperation division() {
  return [](Sampler& sampler) {
    std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(2), Elements::positive);
    if (sampler.chance(0.25)) operands[1] = sampler.real(1.5);
    if (sampler.chance(0.2)) operands.push_back(sampler.text(sampler.chance(0.5) ? "floor" : "trunc"));
    return application(std::move(operands), [](const Arguments& a) {
      return a.size() > 2 ? a[0].tensor.div(to_tensor(a[1]), a[2].text) : a[0].tensor.div(to_tensor(a[1]));
    });
  };
}

/// A value, and options that are numbers.
SampleOperation with_options(std::vector<double> options, Tensor (*function)(const Arguments&)) {
  return [=](Sampler& sampler) {
    const Shape shape = sampler.shape(0, 4);
    std::vector<Operand> operands = {sampler.tensor(shape)};
    for (const double option : options) operands.push_back(sampler.real(option));
    return application(std::move(operands), [=](const Arguments& a) { return function(a); });
  };
}

/// A condition and two values: torch::where(condition, x, y), or x.where(condition, y) as a method.
SampleOperation choice(bool is_method) {
  return [=](Sampler& sampler) {
    const auto typed = sampler.broadcasting(3);
    std::vector<Operand> operands = {sampler.constant(typed[0].shape, typed[0].type, Elements::flags),
                                     sampler.tensor(typed[1].shape, typed[1].type),
                                     sampler.tensor(typed[2].shape, typed[2].type)};
    if (sampler.chance(0.2)) operands[2] = sampler.real(0.5);
    if (is_method) std::swap(operands[0], operands[1]);
    return application(std::move(operands), [=](const Arguments& a) {
      return at::where(a[is_method ? 1 : 0].tensor, a[is_method ? 0 : 1].tensor, to_tensor(a[2]));
    });
  };
}

Application masked_fill(Sampler& sampler) {
  const auto typed = sampler.broadcasting(2);
  std::vector<Operand> operands = {sampler.tensor(typed[0].shape, typed[0].type),
                                   sampler.constant(typed[1].shape, typed[1].type, Elements::flags),
                                   sampler.real(-1.0)};
  if (sampler.chance(0.2)) operands[2] = sampler.tensor({}, kInvariant);
  return application(std::move(operands),
                     [](const Arguments& a) { return a[0].tensor.masked_fill(a[1].tensor, to_tensor(a[2])); });
}

/// x.clamp(least, most), by numbers or by tensors.
Application clamp(Sampler& sampler) {
  std::vector<Operand> operands = sampler.tensors(sampler.broadcasting(3));
  if (sampler.chance(0.5)) operands[1] = sampler.real(-0.5), operands[2] = sampler.real(0.5);
  return application(std::move(operands), [](const Arguments& a) {
    return at::clamp(a[0].tensor, std::optional(to_tensor(a[1])), std::optional(to_tensor(a[2])));
  });
}

/// x.to(type), x.to(other)
Application converted(Sampler& sampler) {
  const Shape shape = sampler.shape(0, 4);
  Operand x = sampler.tensor(shape);
  switch (sampler.integer(0, 3)) {
    case 0:
      return application({x, sampler.option("c10::kDouble", "c10::ScalarType")},
                         [](const Arguments& a) { return a[0].tensor.to(at::kDouble); });
    case 1:
      return application({x, sampler.option("c10::kLong", "c10::ScalarType")},
                         [](const Arguments& a) { return a[0].tensor.to(at::kLong); });
    case 2:
      return application({x, sampler.option("c10::kBool", "c10::ScalarType")},
                         [](const Arguments& a) { return a[0].tensor.to(at::kBool); });
    default:
      return application({x, sampler.tensor(sampler.shape(0, 3))},
                         [](const Arguments& a) { return a[0].tensor.to(a[1].tensor.options()); });
  }
}

Application with_type_like(Sampler& sampler) {
  return application({sampler.tensor(sampler.shape(0, 4)), sampler.tensor(sampler.shape(0, 3))},
                     [](const Arguments& a) { return a[0].tensor.type_as(a[1].tensor); });
}

/// Comparisons of numbers that are often 0 or 1, so that they are equal in some cases.
SampleOperation comparison(Binary function) {
  return [=](Sampler& sampler) {
    const auto typed = sampler.broadcasting(2);
    const bool zeros_and_ones = sampler.chance(0.5);
    std::vector<Operand> operands;
    for (const auto& one : typed)
      operands.push_back(zeros_and_ones && one.type.kind != ShardType::Kind::partial
                             ? sampler.constant(one.shape, one.type, Elements::indices)
                             : sampler.tensor(one.shape, one.type));
    if (sampler.chance(0.25)) operands[1] = sampler.literal(1);
    return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, to_tensor(a[1])); });
  };
}

SampleOperation logical(Binary function) {
  return [=](Sampler& sampler) {
    std::vector<Operand> operands;
    for (const auto& one : sampler.broadcasting(2))
      operands.push_back(one.type.kind == ShardType::Kind::partial
                             ? sampler.tensor(one.shape, one.type)
                             : sampler.constant(one.shape, one.type, Elements::flags));
    return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, a[1].tensor); });
  };
}

// ---- Numbers ----

/// A count, a tp-local count, a literal, or a size.
Operand any_number(Sampler& sampler) {
  static const std::vector<std::string> counts = {"a", "b", "a * d", "2 * b", "a * e"}, others = {"d", "e", "d * e"};
  switch (sampler.integer(0, 5)) {
    case 0:
      return sampler.literal(sampler.integer(1, 4));
    case 1:
      return sampler.variable(sampler.integer(1, 4));
    case 2:
      return sampler.count(sampler.one_of(others), false);
    case 3: {  // a sum of counts
      Operand sum = sampler.variable(12);
      sum.value.count =
          sampler.chance(0.5) ? sum_of(field_count("a"), field_count("b")) : sum_of(field_count("b"), field_count("a"));
      sum.value.count.is_share = sampler.chance(0.5);
      return sum;
    }
    default:
      return sampler.count(sampler.one_of(counts), sampler.chance(0.6));
  }
}

using Numbers = double (*)(int64_t, int64_t);

/// An operator on tensors and numbers: `function` is for numbers, `sample_tensors` for tensors.
SampleOperation operator_of_both(Numbers function, const std::string& type, SampleOperation sample_tensors) {
  return [=](Sampler& sampler) {
    if (sampler.chance(0.6)) return sample_tensors(sampler);
    Application numbers = application({any_number(sampler), any_number(sampler)},
                                      [=](const Arguments& a) { return function(a[0].integer(), a[1].integer()); });
    numbers.type = type;
    return numbers;
  };
}

SampleOperation minus() {
  const SampleOperation both = operator_of_both([](int64_t a, int64_t b) { return static_cast<double>(a - b); }, "long",
                                                binary([](const Tensor& a, const Tensor& b) { return a - b; }));
  return [=](Sampler& sampler) {
    if (sampler.chance(0.8)) return both(sampler);
    if (sampler.chance(0.5)) return of_one(sampler.tensor(sampler.shape(0, 4)), [](const Tensor& x) { return -x; });
    Application negative =
        application({any_number(sampler)}, [](const Arguments& a) { return static_cast<double>(-a[0].integer()); });
    negative.type = "long";
    return negative;
  };
}

SampleOperation op(Numbers numbers, const std::string& type, Binary tensors) {
  return operator_of_both(numbers, type, binary(tensors, Elements::positive));
}

SampleOperation op_compare(Numbers numbers, Binary tensors) {
  return operator_of_both(numbers, "bool", comparison(tensors));
}

}  // namespace

const OperationTable& arithmetic_operations() {
  static const OperationTable table = {
      {"op +", op([](int64_t a, int64_t b) { return static_cast<double>(a + b); }, "long",
                  [](const Tensor& a, const Tensor& b) { return a + b; })},
      {"op -", minus()},
      {"op *", op([](int64_t a, int64_t b) { return static_cast<double>(a * b); }, "long",
                  [](const Tensor& a, const Tensor& b) { return a * b; })},
      {"op /", op([](int64_t a, int64_t b) { return static_cast<double>(a / b); }, "long",
                  [](const Tensor& a, const Tensor& b) { return a / b; })},
      {"op %", op([](int64_t a, int64_t b) { return static_cast<double>(a % b); }, "long",
                  [](const Tensor& a, const Tensor& b) { return at::remainder(a, b); })},
      {"op ==", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a == b); },
                           [](const Tensor& a, const Tensor& b) { return a == b; })},
      {"op !=", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a != b); },
                           [](const Tensor& a, const Tensor& b) { return a != b; })},
      {"op <", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a < b); },
                          [](const Tensor& a, const Tensor& b) { return a < b; })},
      {"op >", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a > b); },
                          [](const Tensor& a, const Tensor& b) { return a > b; })},
      {"op <=", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a <= b); },
                           [](const Tensor& a, const Tensor& b) { return a <= b; })},
      {"op >=", op_compare([](int64_t a, int64_t b) { return static_cast<double>(a >= b); },
                           [](const Tensor& a, const Tensor& b) { return a >= b; })},
      {"add", scaled([](const Tensor& a, const Tensor& b, const at::Scalar& s) { return at::add(a, b, s); })},
      {".add", scaled([](const Tensor& a, const Tensor& b, const at::Scalar& s) { return a.add(b, s); })},
      {"sub", scaled([](const Tensor& a, const Tensor& b, const at::Scalar& s) { return at::sub(a, b, s); })},
      {".sub", scaled([](const Tensor& a, const Tensor& b, const at::Scalar& s) { return a.sub(b, s); })},
      {"mul", binary([](const Tensor& a, const Tensor& b) { return at::mul(a, b); })},
      {".mul", method([](const Tensor& a, const Tensor& b) { return a.mul(b); })},
      {"div", division()},
      {".div", division()},
      {"neg", unary([](const Tensor& x) { return at::neg(x); })},
      {".neg", unary([](const Tensor& x) { return x.neg(); })},
      {".to", converted},
      {".contiguous", unary([](const Tensor& x) { return x.contiguous(); })},
      {".clone", unary([](const Tensor& x) { return x.clone(); })},
      {".type_as", with_type_like},
      {".detach", unary([](const Tensor& x) { return x.detach(); })},
      {"zeros_like", unary([](const Tensor& x) { return at::zeros_like(x); })},
      {"ones_like", unary([](const Tensor& x) { return at::ones_like(x); })},
      {"full_like", with_options({2.5}, [](const Arguments& a) { return at::full_like(a[0].tensor, a[1].number); })},
      // Nonlinear functions.
      {".masked_fill", masked_fill},
      {"where", choice(/*is_method=*/false)},
      {".where", choice(/*is_method=*/true)},
      {"maximum", binary([](const Tensor& a, const Tensor& b) { return at::maximum(a, b); })},
      {"minimum", binary([](const Tensor& a, const Tensor& b) { return at::minimum(a, b); })},
      {".maximum", method([](const Tensor& a, const Tensor& b) { return a.maximum(b); })},
      {".minimum", method([](const Tensor& a, const Tensor& b) { return a.minimum(b); })},
      {"pow", binary([](const Tensor& a, const Tensor& b) { return at::pow(a, b); }, Elements::positive)},
      {".pow", method([](const Tensor& a, const Tensor& b) { return a.pow(b); }, Elements::positive)},
      {"clamp", clamp},
      {".clamp", clamp},
      {".clamp_min", method([](const Tensor& a, const Tensor& b) { return a.clamp_min(b); })},
      {".clamp_max", method([](const Tensor& a, const Tensor& b) { return a.clamp_max(b); })},
      // Functions of one value; the other operands are options.
      {"silu", unary([](const Tensor& x) { return at::silu(x); })},
      {".silu", unary([](const Tensor& x) { return at::silu(x); })},
      {"gelu", unary([](const Tensor& x) { return at::gelu(x, "tanh"); })},
      {".gelu", unary([](const Tensor& x) { return at::gelu(x); })},
      {"relu", unary([](const Tensor& x) { return at::relu(x); })},
      {".relu", unary([](const Tensor& x) { return x.relu(); })},
      {"sigmoid", unary([](const Tensor& x) { return at::sigmoid(x); })},
      {".sigmoid", unary([](const Tensor& x) { return x.sigmoid(); })},
      {"tanh", unary([](const Tensor& x) { return at::tanh(x); })},
      {".tanh", unary([](const Tensor& x) { return x.tanh(); })},
      {"exp", unary([](const Tensor& x) { return at::exp(x); })},
      {".exp", unary([](const Tensor& x) { return x.exp(); })},
      {"log", unary([](const Tensor& x) { return at::log(x); }, Elements::positive)},
      {".log", unary([](const Tensor& x) { return x.log(); }, Elements::positive)},
      {"softplus",
       with_options({2.0, 20.0},
                    [](const Arguments& a) { return at::softplus(a[0].tensor, a[1].number, a[2].number); })},
      {"log_sigmoid", unary([](const Tensor& x) { return at::log_sigmoid(x); })},
      {"sqrt", unary([](const Tensor& x) { return at::sqrt(x); }, Elements::positive)},
      {".sqrt", unary([](const Tensor& x) { return x.sqrt(); }, Elements::positive)},
      {"rsqrt", unary([](const Tensor& x) { return at::rsqrt(x); }, Elements::positive)},
      {".rsqrt", unary([](const Tensor& x) { return x.rsqrt(); }, Elements::positive)},
      {"square", unary([](const Tensor& x) { return at::square(x); })},
      {".square", unary([](const Tensor& x) { return x.square(); })},
      {"abs", unary([](const Tensor& x) { return at::abs(x); })},
      {".abs", unary([](const Tensor& x) { return x.abs(); })},
      {"cos", unary([](const Tensor& x) { return at::cos(x); })},
      {".cos", unary([](const Tensor& x) { return x.cos(); })},
      {"sin", unary([](const Tensor& x) { return at::sin(x); })},
      {".sin", unary([](const Tensor& x) { return x.sin(); })},
      {"erf", unary([](const Tensor& x) { return at::erf(x); })},
      {".erf", unary([](const Tensor& x) { return x.erf(); })},
      {"hardtanh",
       with_options({-0.5, 0.5},
                    [](const Arguments& a) { return at::hardtanh(a[0].tensor, a[1].number, a[2].number); })},
      {"elu", with_options({0.7}, [](const Arguments& a) { return at::elu(a[0].tensor, a[1].number); })},
      {"leaky_relu", with_options({0.1}, [](const Arguments& a) { return at::leaky_relu(a[0].tensor, a[1].number); })},
      {".reciprocal", unary([](const Tensor& x) { return x.reciprocal(); }, Elements::positive)},
      {"mish", unary([](const Tensor& x) { return at::mish(x); })},
      {"hardswish", unary([](const Tensor& x) { return at::hardswish(x); })},
      {"hardsigmoid", unary([](const Tensor& x) { return at::hardsigmoid(x); })},
      {"selu", unary([](const Tensor& x) { return at::selu(x); })},
      {"celu", unary([](const Tensor& x) { return at::celu(x); })},
      {"relu6", unary([](const Tensor& x) { return at::relu6(x); })},
      {"exp2", unary([](const Tensor& x) { return at::exp2(x); })},
      {"expm1", unary([](const Tensor& x) { return at::expm1(x); })},
      {"floor", unary([](const Tensor& x) { return at::floor(x); })},
      {"round", unary([](const Tensor& x) { return at::round(x); })},
      {"sign", unary([](const Tensor& x) { return at::sign(x); })},
      {".exp2", unary([](const Tensor& x) { return x.exp2(); })},
      {".expm1", unary([](const Tensor& x) { return x.expm1(); })},
      {".floor", unary([](const Tensor& x) { return x.floor(); })},
      {".round", unary([](const Tensor& x) { return x.round(); })},
      {".sign", unary([](const Tensor& x) { return x.sign(); })},
      {"log1p", unary([](const Tensor& x) { return at::log1p(x); }, Elements::positive)},
      {".log1p", unary([](const Tensor& x) { return x.log1p(); }, Elements::positive)},
      // Operations without a gradient.
      {".ge", comparison([](const Tensor& a, const Tensor& b) { return a.ge(b); })},
      {".gt", comparison([](const Tensor& a, const Tensor& b) { return a.gt(b); })},
      {".le", comparison([](const Tensor& a, const Tensor& b) { return a.le(b); })},
      {".lt", comparison([](const Tensor& a, const Tensor& b) { return a.lt(b); })},
      {".eq", comparison([](const Tensor& a, const Tensor& b) { return a.eq(b); })},
      {".ne", comparison([](const Tensor& a, const Tensor& b) { return a.ne(b); })},
      {".logical_and", logical([](const Tensor& a, const Tensor& b) { return a.logical_and(b); })},
      {".logical_or", logical([](const Tensor& a, const Tensor& b) { return a.logical_or(b); })},
      {"logical_and", logical([](const Tensor& a, const Tensor& b) { return at::logical_and(a, b); })},
      {"logical_or", logical([](const Tensor& a, const Tensor& b) { return at::logical_or(a, b); })},
      {".logical_not", unary([](const Tensor& x) { return x.logical_not(); })},
      {"logical_not", unary([](const Tensor& x) { return at::logical_not(x); })},
      {".isnan", unary([](const Tensor& x) { return x.isnan(); })},
      {".isinf", unary([](const Tensor& x) { return x.isinf(); })},
  };
  return table;
}

}  // namespace modgen::rule_properties
