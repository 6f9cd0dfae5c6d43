// Operations that read a shape, view a value or permute its dimensions.
#include <algorithm>
#include <numeric>

#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

/// A property of a tensor, with that C++ type.
SampleOperation property(const std::string& type, double (*function)(const Tensor&)) {
  return [=](Sampler& sampler) {
    Application asked =
        application({sampler.tensor(sampler.shape(0, 4))}, [=](const Arguments& a) { return function(a[0].tensor); });
    asked.type = type;
    return asked;
  };
}

Application find_size(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  Application size =
      application({sampler.tensor(shape), sampler.dim(sampler.integer(0, rank - 1), rank)},
                  [](const Arguments& a) { return static_cast<double>(a[0].tensor.size(a[1].integer())); });
  size.type = "long";
  return size;
}

// ---- New tensors ----

SampleOperation created(Tensor (*function)(const std::vector<int64_t>&), size_t further, bool random = false) {
  return [=](Sampler& sampler) {
    std::vector<Operand> sizes;
    for (const Dimension& dimension : sampler.shape(0, 3))
      sizes.push_back(!dimension.text.empty() && dimension.text != "u" && sampler.chance(0.5)
                          ? sampler.count(dimension.text, dimension.size % 4 == 0 && sampler.chance(0.3))
                          : sampler.number(dimension.size));
    std::vector<Operand> operands = {sampler.list(std::move(sizes))};
    for (size_t i = 0; i < further; ++i) operands.push_back(sampler.real(0.5));
    Application made = application(std::move(operands), [=](const Arguments& a) { return function(a[0].integers()); });
    made.random = random;
    return made;
  };
}

Application range(Sampler& sampler) {
  return application({sampler.chance(0.5) ? sampler.count("a", sampler.chance(0.3)) : sampler.number(5)},
                     [](const Arguments& a) { return at::arange(a[0].integer(), at::kDouble); });
}

// ---- Views ----

/// Ways to write a size of a view of `x` with global size `size`.
Operand written_size(Sampler& sampler, const Shape& x, const ShardType& type, int64_t size, const std::string& text,
                     bool may_be_local) {
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_full = type.kind != ShardType::Kind::sharded || type.dim != static_cast<int64_t>(i);
    if (x[i].size == size && is_full && sampler.chance(0.6)) return sampler.own_size(size);
  }
  if (!text.empty() && text != "u" && sampler.chance(0.8))
    return sampler.count(text, may_be_local && sampler.chance(0.7));
  if (may_be_local && size % 4 == 0 && sampler.chance(0.5)) {
    Operand share = sampler.variable(size);
    share.value.count.is_share = true;
    return share;
  }
  return sampler.number(size);
}

/// A view of x by sizes derived from its own: factored, merged or moved.
Application view(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const ShardType type = sampler.type_for(shape);
  Shape target = shape;
  for (int64_t changes = sampler.integer(0, 3); changes > 0; --changes) {
    const auto i = static_cast<size_t>(sampler.integer(0, static_cast<int64_t>(target.size()) - 1));
    switch (sampler.integer(0, 5)) {
      case 0:  // a fused dimension as its parts
        if (!target[i].parts.empty()) {
          const auto count = static_cast<int64_t>(target[i].parts.size());
          if (evaluate(target[i].parts[0]) * count != target[i].size) break;
          const Dimension part = {target[i].size / count, target[i].parts[0], {}};
          target[i] = {count, "", {}};
          target.insert(target.begin() + static_cast<std::ptrdiff_t>(i) + 1, part);
        }
        break;
      case 1:
      case 2:  // number and size of heads
        for (const auto& [full, count, each] : {std::tuple{"a * d", "a", "d"}, std::tuple{"a * e", "a", "e"},
                                                std::tuple{"b * e", "b", "e"}, std::tuple{"b", "a", ""}})
          if (target[i].text == full) {
            const bool first = sampler.chance(0.85);
            const Dimension heads = {evaluate(count), count, {}};
            const Dimension size = {target[i].size / heads.size, each, {}};
            target[i] = first ? heads : size;
            target.insert(target.begin() + static_cast<std::ptrdiff_t>(i) + 1, first ? size : heads);
            break;
          }
        break;
      case 3:  // two dimensions merged
        if (i + 1 < target.size()) {
          target[i] = {target[i].size * target[i + 1].size, "", {}};
          target.erase(target.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
        break;
      case 4:
        target.insert(target.begin() + static_cast<std::ptrdiff_t>(i), Dimension{1, "", {}});
        break;
      default:  // at another index: other elements
        if (i > 0 && sampler.chance(0.5)) std::swap(target[i], target[i - 1]);
    }
  }
  std::vector<Operand> sizes;
  for (const Dimension& dimension : target)
    sizes.push_back(written_size(sampler, shape, type, dimension.size, dimension.text, dimension.size % 4 == 0));
  if (sampler.chance(0.35)) {
    const bool last = sampler.chance(0.6);
    sizes[last ? sizes.size() - 1 : static_cast<size_t>(sampler.integer(0, static_cast<int64_t>(sizes.size()) - 1))] =
        sampler.literal(-1);
  }
  Operand x = sampler.tensor(shape, type);
  if (sampler.chance(0.05)) {  // by another tensor's sizes, which are not a list in the source
    Operand other = sampler.option("sizes", "c10::ArrayRef<long>");
    for (const int64_t size : get_sizes(target)) other.full.elements.emplace_back(static_cast<double>(size));
    for (const int64_t size : get_sizes(target)) other.elements.push_back(sampler.variable(size));
    return application({x, other}, [](const Arguments& a) { return a[0].tensor.view(a[1].integers()); });
  }
  return application({x, sampler.list(std::move(sizes))},
                     [](const Arguments& a) { return a[0].tensor.view(a[1].integers()); });
}

Application viewed_as(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 3);
  Shape other = shape;
  std::reverse(other.begin(), other.end());
  if (sampler.chance(0.5)) other = shape;
  return application({sampler.tensor(shape), sampler.tensor(other)},
                     [](const Arguments& a) { return a[0].tensor.view_as(a[1].tensor); });
}

Application expanded_as(Sampler& sampler) {
  const Shape full = sampler.shape(1, 3);
  return application({sampler.tensor(sampler.broadcast_to(full)), sampler.tensor(full)},
                     [](const Arguments& a) { return a[0].tensor.expand_as(a[1].tensor); });
}

Application expand(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const ShardType type = sampler.chance(0.5) ? kInvariant : sampler.type_for(shape);
  std::vector<Operand> sizes;
  for (int64_t more = sampler.chance(0.2) ? 1 : 0; more > 0; --more)
    sizes.push_back(sampler.chance(0.3) ? sampler.count("a", sampler.chance(0.5)) : sampler.number(2));
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dimension& own = shape[i];
    const bool split = type.kind == ShardType::Kind::sharded && type.dim == static_cast<int64_t>(i);
    if (own.size == 1 && sampler.chance(0.6))
      sizes.push_back(sampler.chance(0.7) ? sampler.count("b", sampler.chance(0.6)) : sampler.number(3));
    else if (sampler.chance(0.4))
      sizes.push_back(sampler.literal(-1));
    else
      sizes.push_back(written_size(sampler, shape, type, own.size, own.text, split));
  }
  std::vector<Operand> operands = {sampler.tensor(shape, type), sampler.list(std::move(sizes))};
  if (sampler.chance(0.05)) operands.push_back(sampler.flag(true));
  return application(std::move(operands), [](const Arguments& a) { return a[0].tensor.expand(a[1].integers()); });
}

// ---- Permuted dimensions ----

Application transpose(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  return application({sampler.tensor(shape), sampler.dim(sampler.integer(0, rank - 1), rank),
                      sampler.dim(sampler.integer(0, rank - 1), rank)},
                     [](const Arguments& a) { return a[0].tensor.transpose(a[1].integer(), a[2].integer()); });
}

Application permute(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(sampler.integer(0, static_cast<int64_t>(i) - 1))]);
  std::vector<Operand> dims;
  for (const int64_t dim : order)
    dims.push_back(sampler.chance(0.97) ? sampler.literal(sampler.chance(0.8) ? dim : dim - rank)
                                        : sampler.variable(dim));
  return application({sampler.tensor(shape), sampler.list(std::move(dims))},
                     [](const Arguments& a) { return a[0].tensor.permute(a[1].integers()); });
}

Application flatten(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t begin = sampler.integer(0, rank - 1), end = sampler.integer(begin, rank - 1);
  std::vector<Operand> operands = {sampler.tensor(shape)};
  const int64_t given = sampler.integer(0, 2);
  if (given > 0) operands.push_back(sampler.dim(begin, rank));
  if (given > 1) operands.push_back(sampler.dim(end, rank));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.flatten(a.size() > 1 ? a[1].integer() : 0, a.size() > 2 ? a[2].integer() : -1);
  });
}

Application unsqueeze(Sampler& sampler) {
  const Shape shape = sampler.shape(0, 3);
  const auto rank = static_cast<int64_t>(shape.size());
  return application({sampler.tensor(shape), sampler.dim(sampler.integer(0, rank), rank + 1)},
                     [](const Arguments& a) { return a[0].tensor.unsqueeze(a[1].integer()); });
}

Application squeeze(Sampler& sampler) {
  const Shape shape = sampler.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  if (sampler.chance(0.15)) return of_one(sampler.tensor(shape), [](const Tensor& x) { return x.squeeze(); });
  int64_t dim = sampler.integer(0, rank - 1);
  for (int64_t i = 0; i < rank; ++i)
    if (shape[static_cast<size_t>(i)].size == 1 && sampler.chance(0.6)) dim = i;
  return application({sampler.tensor(shape), sampler.dim(dim, rank)},
                     [](const Arguments& a) { return a[0].tensor.squeeze(a[1].integer()); });
}

SampleOperation triangle(Tensor (*function)(const Tensor&, int64_t)) {
  return [=](Sampler& sampler) {
    std::vector<Operand> operands = {sampler.tensor(sampler.shape(2, 4))};
    if (sampler.chance(0.5)) operands.push_back(sampler.number(sampler.integer(-1, 1)));
    return application(std::move(operands),
                       [=](const Arguments& a) { return function(a[0].tensor, a.size() > 1 ? a[1].integer() : 0); });
  };
}

}  // namespace

const OperationTable& shape_operations() {
  static const OperationTable table = {
      {".size", find_size},
      {".numel", property("long", [](const Tensor& x) { return static_cast<double>(x.numel()); })},
      {".dim", property("long", [](const Tensor& x) { return static_cast<double>(x.dim()); })},
      {".defined", property("bool", [](const Tensor& x) { return static_cast<double>(x.defined()); })},
      {".device", property("c10::Device", [](const Tensor& x) { return static_cast<double>(x.device().type()); })},
      {".dtype", property("caffe2::TypeMeta", [](const Tensor& x) { return static_cast<double>(x.scalar_type()); })},
      {".scalar_type",
       property("c10::ScalarType", [](const Tensor& x) { return static_cast<double>(x.scalar_type()); })},
      {".options",
       property("c10::TensorOptions", [](const Tensor& x) { return static_cast<double>(x.scalar_type()); })},
      {".is_floating_point",
       property("bool", [](const Tensor& x) { return static_cast<double>(x.is_floating_point()); })},
      {".requires_grad", property("bool", [](const Tensor& x) { return static_cast<double>(x.requires_grad()); })},
      {"ones", created([](const std::vector<int64_t>& sizes) { return at::ones(sizes, at::kDouble); }, 0)},
      {"zeros", created([](const std::vector<int64_t>& sizes) { return at::zeros(sizes, at::kDouble); }, 0)},
      {"full", created([](const std::vector<int64_t>& sizes) { return at::full(sizes, 0.5, at::kDouble); }, 1)},
      {"empty", created([](const std::vector<int64_t>& sizes) { return at::empty(sizes, at::kDouble); }, 0,
                        /*random=*/true)},
      {"arange", range},
      {".tril", triangle([](const Tensor& x, int64_t diagonal) { return x.tril(diagonal); })},
      {".triu", triangle([](const Tensor& x, int64_t diagonal) { return x.triu(diagonal); })},
      {".view", view},
      {".reshape", view},
      {".view_as", viewed_as},
      {".expand_as", expanded_as},
      {".expand", expand},
      {".transpose", transpose},
      {".t",
       [](Sampler& sampler) {
         return of_one(sampler.tensor(sampler.shape(1, 2)), [](const Tensor& x) { return x.t(); });
       }},
      {".permute", permute},
      {".flatten", flatten},
      {".unsqueeze", unsqueeze},
      {".squeeze", squeeze},
  };
  return table;
}

}  // namespace modgen::rule_properties
