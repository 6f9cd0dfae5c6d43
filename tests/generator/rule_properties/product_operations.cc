// Reductions and matmuls.
#include <algorithm>

#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

// ---- Reductions ----

/// Arguments of a reduction other than its tensor.
struct Options {
  std::optional<std::vector<int64_t>> dims;  // all dimensions if empty
  bool keeps = false;
  bool further = false;  // the option between them: `unbiased`
};

using Reduction = Tensor (*)(const Tensor& x, const Options& options);

enum Forms : unsigned {
  of_all = 1,       // x.sum()
  of_lists = 2,     // x.sum({0, 1})
  with_type = 4,    // x.sum(torch::kDouble), x.sum(dim, keepdim, torch::kDouble)
  with_flag = 8,    // x.var(dim, unbiased, keepdim), x.var(unbiased)
  with_power = 16,  // x.norm(2, dim, keepdim), x.norm(2)
};

SampleOperation reduction(unsigned forms, Reduction function, Elements elements = Elements::any) {
  return [=](Sampler& sampler) {
    const Shape shape = sampler.shape(1, 4);
    const auto rank = static_cast<int64_t>(shape.size());
    std::vector<Operand> operands = {sampler.tensor(shape, sampler.type_for(shape), elements)};
    if ((forms & with_power) && sampler.chance(0.9)) operands.push_back(sampler.literal(2));
    const size_t first = operands.size();
    size_t flag_at = 0;
    if ((forms & of_all) && sampler.chance(0.25)) {
      if ((forms & with_type) && sampler.chance(0.3)) {
        operands.push_back(sampler.option("c10::kDouble", "c10::ScalarType"));
      } else if ((forms & with_flag) && sampler.chance(0.5)) {
        operands.push_back(sampler.flag(sampler.chance(0.5)));
        return application(std::move(operands), [=](const Arguments& a) {
          return function(a[0].tensor, {std::nullopt, false, a[1].flag()});
        });
      }
      return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, {}); });
    }
    if (first == 1 && (forms & with_power))
      return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, {}); });
    const int64_t dim = sampler.integer(0, rank - 1);
    if ((forms & of_lists) && sampler.chance(0.25)) {
      std::vector<Operand> dims;
      for (int64_t i = 0; i < rank; ++i)
        if (sampler.chance(0.5)) dims.push_back(sampler.literal(sampler.chance(0.5) ? i : i - rank));
      operands.push_back(sampler.list(std::move(dims)));
    } else {
      operands.push_back(sampler.dim(dim, rank, (forms & of_lists) != 0));
    }
    const bool is_list = operands.back().value.kind == Value::Kind::tuple;
    if ((forms & with_flag) && sampler.chance(0.7)) {
      flag_at = operands.size();
      operands.push_back(sampler.flag(sampler.chance(0.5)));
    }
    size_t keeps_at = 0;
    if ((!(forms & with_flag) || flag_at > 0) && sampler.chance(0.6)) {
      keeps_at = operands.size();
      operands.push_back(sampler.flag(sampler.chance(0.6)));
      if ((forms & with_type) && sampler.chance(0.2))
        operands.push_back(sampler.option("c10::kDouble", "c10::ScalarType"));
    }
    return application(std::move(operands), [=](const Arguments& a) {
      Options options;
      options.dims = is_list ? a[first].integers() : std::vector{a[first].integer()};
      options.keeps = keeps_at > 0 && a[keeps_at].flag();
      options.further = flag_at == 0 || a[flag_at].flag();
      return function(a[0].tensor, options);
    });
  };
}

Tensor sum(const Tensor& x, const Options& s) { return s.dims ? x.sum(*s.dims, s.keeps) : x.sum(); }
Tensor mean(const Tensor& x, const Options& s) { return s.dims ? x.mean(*s.dims, s.keeps) : x.mean(); }

/// x.max(), x.max(other)
SampleOperation extreme(Tensor (*of_all_elements)(const Tensor&), Tensor (*of_two)(const Tensor&, const Tensor&)) {
  return [=](Sampler& sampler) {
    if (sampler.chance(0.5)) return of_one(sampler.tensor(sampler.shape(1, 4)), of_all_elements);
    return application(sampler.tensors(sampler.broadcasting(2)),
                       [=](const Arguments& a) { return of_two(a[0].tensor, a[1].tensor); });
  };
}

/// softmax(x, dim), softmax(x, dim, type)
SampleOperation along(Tensor (*function)(const Tensor&, int64_t)) {
  return [=](Sampler& sampler) {
    const Shape shape = sampler.shape(1, 4);
    const auto rank = static_cast<int64_t>(shape.size());
    std::vector<Operand> operands = {sampler.tensor(shape), sampler.dim(sampler.integer(0, rank - 1), rank)};
    if (sampler.chance(0.2)) operands.push_back(sampler.option("c10::kDouble", "c10::ScalarType"));
    return application(std::move(operands), [=](const Arguments& a) { return function(a[0].tensor, a[1].integer()); });
  };
}

// ---- Matmuls ----

/// Types of the two factors of a matmul: chosen so that the result is split, partial or full, or arbitrary.
std::pair<ShardType, ShardType> product_types(Sampler& sampler, const Shape& a, const Shape& b) {
  const auto at = [](const Shape& shape, int64_t from_end, const std::vector<std::string>& parts = {}) {
    return sharded(from_end + static_cast<int64_t>(shape.size()), parts);
  };
  const auto rank = static_cast<int64_t>(a.size()), other_rank = static_cast<int64_t>(b.size());
  switch (sampler.integer(0, 6)) {
    case 0:
      if (a.back().size % 4 == 0) {
        const std::vector<std::string> parts = sampler.chance(0.3) ? a.back().parts : std::vector<std::string>();
        return {at(a, -1, parts), at(b, other_rank == 1 ? -1 : -2, parts)};
      }
      break;
    case 1:
      if (rank > 1 && a[a.size() - 2].size % 4 == 0) return {at(a, -2), kInvariant};
      break;
    case 2:
      if (other_rank > 1 && b.back().size % 4 == 0)
        return {sampler.chance(0.5) ? kInvariant : kReplicated,
                at(b, -1, sampler.chance(0.3) ? b.back().parts : std::vector<std::string>())};
      break;
    case 3:
      if (rank > 2 && a[a.size() - 3].size % 4 == 0)
        return {at(a, -3), other_rank > 2 && b[b.size() - 3].size == a[a.size() - 3].size ? at(b, -3) : kInvariant};
      if (other_rank > 2 && b[b.size() - 3].size % 4 == 0) return {kInvariant, at(b, -3)};
      break;
    case 4:
      return {kPartial, kInvariant};
    case 5:
      return {kInvariant, kInvariant};
    default:
      break;
  }
  return {sampler.type_for(a), sampler.type_for(b)};
}

SampleOperation product(bool in_batches, Tensor (*function)(const Tensor&, const Tensor&)) {
  return [=](Sampler& sampler) {
    Shape a = in_batches ? sampler.shape(3, 3) : sampler.shape(1, 4), b;
    const Dimension inner = sampler.dimension(), columns = sampler.dimension();
    a.back() = inner;
    if (in_batches || sampler.chance(0.5)) {
      b.assign(a.begin(), a.end() - std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(a.size())));
      if (!in_batches) b = sampler.broadcast_to(b);
    }
    b.push_back(inner);
    if (b.size() > 1 || in_batches || sampler.chance(0.8)) b.push_back(columns);  // otherwise a vector
    const auto [left, right] = product_types(sampler, a, b);
    return application({sampler.tensor(a, left), sampler.tensor(b, right)},
                       [=](const Arguments& x) { return function(x[0].tensor, x[1].tensor); });
  };
}

/// torch::addmm(bias, a, b)
Application addmm(Sampler& sampler) {
  const Dimension rows = sampler.dimension(), inner = sampler.dimension(), columns = sampler.dimension();
  const Shape a = {rows, inner}, b = {inner, columns};
  const auto [left, right] = product_types(sampler, a, b);
  const Shape bias = sampler.chance(0.7) ? Shape{columns} : Shape{rows, columns};
  ShardType of_bias = sampler.type_for(bias);
  if (sampler.chance(0.7)) {
    const bool by_column = right.kind == ShardType::Kind::sharded && right.dim == 1;
    const bool by_row = left.kind == ShardType::Kind::sharded && left.dim == 0 && bias.size() == 2;
    of_bias = by_column ? sharded(static_cast<int64_t>(bias.size()) - 1, right.parts)
              : by_row  ? sharded(0)
                        : kInvariant;
  }
  return application({sampler.tensor(bias, of_bias), sampler.tensor(a, left), sampler.tensor(b, right)},
                     [](const Arguments& x) { return at::addmm(x[0].tensor, x[1].tensor, x[2].tensor); });
}

/// at::linear(x, weight, bias)
Application linear(Sampler& sampler) {
  Shape x = sampler.shape(1, 4);
  const Dimension in = sampler.dimension(), out = sampler.dimension();
  x.back() = in;
  Shape weight = {out, in};
  if (sampler.chance(0.1)) weight.erase(weight.begin());  // a vector
  ShardType of_x = sampler.type_for(x), of_weight = kInvariant, of_bias = kInvariant;
  const auto last = static_cast<int64_t>(x.size()) - 1;
  switch (sampler.integer(0, 3)) {
    case 0:
      if (out.size % 4 == 0 && weight.size() == 2) {
        of_weight = of_bias = sharded(0, sampler.chance(0.3) ? out.parts : std::vector<std::string>());
        if (sampler.chance(0.7)) of_x = sampler.chance(0.7) ? kInvariant : kReplicated;
      }
      break;
    case 1:
      if (in.size % 4 == 0) {
        of_weight = sharded(static_cast<int64_t>(weight.size()) - 1,
                            sampler.chance(0.3) ? in.parts : std::vector<std::string>());
        if (sampler.chance(0.8)) of_x = sharded(last, of_weight.parts);
      }
      break;
    case 2:
      of_weight = sampler.type_for(weight);
      of_bias = sampler.type_for({out});
      break;
    default:
      break;
  }
  std::vector<Operand> operands = {sampler.tensor(x, of_x), sampler.tensor(weight, of_weight)};
  if (sampler.chance(0.5))
    operands.push_back(sampler.chance(0.9) ? sampler.tensor({out}, of_bias) : sampler.undefined());
  return application(std::move(operands), [](const Arguments& a) {
    const bool has_bias = a.size() > 2 && a[2].tensor.defined();
    return at::linear(a[0].tensor, a[1].tensor, has_bias ? std::optional(a[2].tensor) : std::nullopt);
  });
}

}  // namespace

const OperationTable& matmul_operations() {
  const SampleOperation all = reduction(of_all, [](const Tensor& x, const Options& s) {
    return s.dims ? x.to(at::kBool).all((*s.dims)[0], s.keeps) : x.to(at::kBool).all();
  });
  static const OperationTable table = {
      {".sum", reduction(of_all | of_lists | with_type, sum)},
      {"sum", reduction(of_all | of_lists | with_type, sum)},
      {".mean", reduction(of_all | of_lists | with_type, mean)},
      {"mean", reduction(of_all | of_lists | with_type, mean)},
      {".amax",
       reduction(of_all | of_lists,
                 [](const Tensor& x, const Options& s) { return s.dims ? x.amax(*s.dims, s.keeps) : x.amax(); })},
      {".amin",
       reduction(of_all | of_lists,
                 [](const Tensor& x, const Options& s) { return s.dims ? x.amin(*s.dims, s.keeps) : x.amin(); })},
      {".max",
       extreme([](const Tensor& x) { return x.max(); }, [](const Tensor& a, const Tensor& b) { return a.max(b); })},
      {".min",
       extreme([](const Tensor& x) { return x.min(); }, [](const Tensor& a, const Tensor& b) { return a.min(b); })},
      {".var", reduction(of_all | of_lists | with_flag,
                         [](const Tensor& x, const Options& s) {
                           return s.dims ? x.var(at::OptionalIntArrayRef(*s.dims), s.further, s.keeps)
                                         : x.var(s.further);
                         })},
      {".std", reduction(of_all | of_lists | with_flag,
                         [](const Tensor& x, const Options& s) {
                           return s.dims ? x.std(at::OptionalIntArrayRef(*s.dims), s.further, s.keeps)
                                         : x.std(s.further);
                         })},
      {".norm", reduction(of_all | of_lists | with_power,
                          [](const Tensor& x, const Options& s) {
                            return s.dims ? x.norm(2, at::IntArrayRef(*s.dims), s.keeps) : x.norm(2);
                          })},
      {".logsumexp",
       reduction(of_lists, [](const Tensor& x, const Options& s) { return x.logsumexp(*s.dims, s.keeps); })},
      {".argmax",
       reduction(of_all, [](const Tensor& x,
                            const Options& s) { return s.dims ? x.argmax((*s.dims)[0], s.keeps) : x.argmax(); })},
      {".all", all},
      {".any", reduction(of_all,
                         [](const Tensor& x, const Options& s) {
                           return s.dims ? x.gt(1.0).any((*s.dims)[0], s.keeps) : x.gt(1.0).any();
                         })},
      {".softmax", along([](const Tensor& x, int64_t dim) { return x.softmax(dim); })},
      {".log_softmax", along([](const Tensor& x, int64_t dim) { return x.log_softmax(dim); })},
      {".cumsum", along([](const Tensor& x, int64_t dim) { return x.cumsum(dim); })},
      {"softmax", along([](const Tensor& x, int64_t dim) { return at::softmax(x, dim); })},
      {"log_softmax", along([](const Tensor& x, int64_t dim) { return at::log_softmax(x, dim); })},
      {"cumsum", along([](const Tensor& x, int64_t dim) { return at::cumsum(x, dim); })},
      {"matmul", product(/*in_batches=*/false, [](const Tensor& a, const Tensor& b) { return at::matmul(a, b); })},
      {".matmul", product(/*in_batches=*/false, [](const Tensor& a, const Tensor& b) { return a.matmul(b); })},
      {"bmm", product(/*in_batches=*/true, [](const Tensor& a, const Tensor& b) { return at::bmm(a, b); })},
      {".bmm", product(/*in_batches=*/true, [](const Tensor& a, const Tensor& b) { return a.bmm(b); })},
      {"addmm", addmm},
      {"linear", linear},
  };
  return table;
}

}  // namespace modgen::rule_properties
