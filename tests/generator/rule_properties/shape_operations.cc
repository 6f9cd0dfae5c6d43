// What asks for a shape, views a value again or moves its dimensions.
#include <algorithm>
#include <numeric>

#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

/// A property of a tensor, of that C++ type.
Draw property(const std::string& type, double (*function)(const Tensor&)) {
  return [=](Drawing& draw) {
    Application asked =
        application({draw.tensor(draw.shape(0, 4))}, [=](const Arguments& a) { return function(a[0].tensor); });
    asked.type = type;
    return asked;
  };
}

Application find_size(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  Application size =
      application({draw.tensor(shape), draw.dim(draw.integer(0, rank - 1), rank)},
                  [](const Arguments& a) { return static_cast<double>(a[0].tensor.size(a[1].integer())); });
  size.type = "long";
  return size;
}

// ---- New tensors ----

Draw created(Tensor (*function)(const std::vector<int64_t>&), size_t further, bool random = false) {
  return [=](Drawing& draw) {
    std::vector<Operand> sizes;
    for (const Dimension& dimension : draw.shape(0, 3))
      sizes.push_back(!dimension.text.empty() && dimension.text != "u" && draw.chance(0.5)
                          ? draw.count(dimension.text, dimension.size % 4 == 0 && draw.chance(0.3))
                          : draw.number(dimension.size));
    std::vector<Operand> operands = {draw.list(std::move(sizes))};
    for (size_t i = 0; i < further; ++i) operands.push_back(draw.real(0.5));
    Application made = application(std::move(operands), [=](const Arguments& a) { return function(a[0].integers()); });
    made.random = random;
    return made;
  };
}

Application range(Drawing& draw) {
  return application({draw.chance(0.5) ? draw.count("a", draw.chance(0.3)) : draw.number(5)},
                     [](const Arguments& a) { return at::arange(a[0].integer(), at::kDouble); });
}

// ---- Views ----

/// How a size of a view of `x` may be written, which is `size` over all ranks.
Operand written_size(Drawing& draw, const Shape& x, const ShardType& type, int64_t size, const std::string& text,
                     bool may_be_local) {
  std::vector<int64_t> own;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i].size == size && !(type.kind == ShardType::Kind::sharded && type.dim == static_cast<int64_t>(i)))
      own.push_back(static_cast<int64_t>(i));
  if (!own.empty() && draw.chance(0.6)) {
    const int64_t dim = draw.one_of(own);
    return draw.own_size(draw.chance(0.9) ? dim : dim - static_cast<int64_t>(x.size()), size);
  }
  if (!text.empty() && text != "u" && draw.chance(0.8)) return draw.count(text, may_be_local && draw.chance(0.7));
  if (may_be_local && size % 4 == 0 && draw.chance(0.5)) {
    Operand share = draw.variable(size);
    share.value.local = true;
    return share;
  }
  return draw.number(size);
}

/// A view of x by sizes that come of its own: taken apart, put together, moved.
Application view(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const ShardType type = draw.type_for(shape);
  Shape target = shape;
  for (int64_t changes = draw.integer(0, 3); changes > 0; --changes) {
    const auto i = static_cast<size_t>(draw.integer(0, static_cast<int64_t>(target.size()) - 1));
    switch (draw.integer(0, 5)) {
      case 0:  // a row of parts in its parts
        if (!target[i].parts.empty()) {
          const auto count = static_cast<int64_t>(target[i].parts.size());
          if (evaluate(target[i].parts[0]) * count != target[i].size) break;
          const Dimension part = {target[i].size / count, target[i].parts[0], {}};
          target[i] = {count, "", {}};
          target.insert(target.begin() + static_cast<std::ptrdiff_t>(i) + 1, part);
        }
        break;
      case 1:
      case 2:  // a count of heads and their size
        for (const auto& [whole, count, each] : {std::tuple{"a * d", "a", "d"}, std::tuple{"a * e", "a", "e"},
                                                 std::tuple{"b * e", "b", "e"}, std::tuple{"b", "a", ""}})
          if (target[i].text == whole) {
            const bool first = draw.chance(0.85);
            const Dimension heads = {evaluate(count), count, {}};
            const Dimension size = {target[i].size / heads.size, each, {}};
            target[i] = first ? heads : size;
            target.insert(target.begin() + static_cast<std::ptrdiff_t>(i) + 1, first ? size : heads);
            break;
          }
        break;
      case 3:  // two in one
        if (i + 1 < target.size()) {
          target[i] = {target[i].size * target[i + 1].size, "", {}};
          target.erase(target.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
        break;
      case 4:
        target.insert(target.begin() + static_cast<std::ptrdiff_t>(i), Dimension{1, "", {}});
        break;
      default:  // at another place: other elements
        if (i > 0 && draw.chance(0.5)) std::swap(target[i], target[i - 1]);
    }
  }
  std::vector<Operand> sizes;
  for (const Dimension& dimension : target)
    sizes.push_back(written_size(draw, shape, type, dimension.size, dimension.text, dimension.size % 4 == 0));
  if (draw.chance(0.35)) {
    const bool last = draw.chance(0.6);
    sizes[last ? sizes.size() - 1 : static_cast<size_t>(draw.integer(0, static_cast<int64_t>(sizes.size()) - 1))] =
        draw.literal(-1);
  }
  Operand x = draw.tensor(shape, type);
  if (draw.chance(0.05)) {  // by a value's sizes, which are no list that is written
    Operand other = draw.setting("sizes", "c10::ArrayRef<long>");
    for (const int64_t size : get_sizes(target)) other.whole.elements.emplace_back(static_cast<double>(size));
    for (const int64_t size : get_sizes(target)) other.elements.push_back(draw.variable(size));
    return application({x, other}, [](const Arguments& a) { return a[0].tensor.view(a[1].integers()); });
  }
  return application({x, draw.list(std::move(sizes))},
                     [](const Arguments& a) { return a[0].tensor.view(a[1].integers()); });
}

Application viewed_as(Drawing& draw) {
  const Shape shape = draw.shape(1, 3);
  Shape other = shape;
  std::reverse(other.begin(), other.end());
  if (draw.chance(0.5)) other = shape;
  return application({draw.tensor(shape), draw.tensor(other)},
                     [](const Arguments& a) { return a[0].tensor.view_as(a[1].tensor); });
}

Application expanded_as(Drawing& draw) {
  const Shape full = draw.shape(1, 3);
  return application({draw.tensor(draw.broadcast_to(full)), draw.tensor(full)},
                     [](const Arguments& a) { return a[0].tensor.expand_as(a[1].tensor); });
}

Application expand(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const ShardType type = draw.chance(0.5) ? kInvariant : draw.type_for(shape);
  std::vector<Operand> sizes;
  for (int64_t more = draw.chance(0.2) ? 1 : 0; more > 0; --more)
    sizes.push_back(draw.chance(0.3) ? draw.count("a", draw.chance(0.5)) : draw.number(2));
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dimension& own = shape[i];
    const bool split = type.kind == ShardType::Kind::sharded && type.dim == static_cast<int64_t>(i);
    if (own.size == 1 && draw.chance(0.6))
      sizes.push_back(draw.chance(0.7) ? draw.count("b", draw.chance(0.6)) : draw.number(3));
    else if (draw.chance(0.4))
      sizes.push_back(draw.literal(-1));
    else
      sizes.push_back(written_size(draw, shape, type, own.size, own.text, split));
  }
  std::vector<Operand> operands = {draw.tensor(shape, type), draw.list(std::move(sizes))};
  if (draw.chance(0.05)) operands.push_back(draw.flag(true));
  return application(std::move(operands), [](const Arguments& a) { return a[0].tensor.expand(a[1].integers()); });
}

// ---- Dimensions at other places ----

Application transpose(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  return application(
      {draw.tensor(shape), draw.dim(draw.integer(0, rank - 1), rank), draw.dim(draw.integer(0, rank - 1), rank)},
      [](const Arguments& a) { return a[0].tensor.transpose(a[1].integer(), a[2].integer()); });
}

Application permute(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(i) - 1))]);
  std::vector<Operand> dims;
  for (const int64_t dim : order)
    dims.push_back(draw.chance(0.97) ? draw.literal(draw.chance(0.8) ? dim : dim - rank) : draw.variable(dim));
  return application({draw.tensor(shape), draw.list(std::move(dims))},
                     [](const Arguments& a) { return a[0].tensor.permute(a[1].integers()); });
}

Application flatten(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t begin = draw.integer(0, rank - 1), end = draw.integer(begin, rank - 1);
  std::vector<Operand> operands = {draw.tensor(shape)};
  const int64_t given = draw.integer(0, 2);
  if (given > 0) operands.push_back(draw.dim(begin, rank));
  if (given > 1) operands.push_back(draw.dim(end, rank));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.flatten(a.size() > 1 ? a[1].integer() : 0, a.size() > 2 ? a[2].integer() : -1);
  });
}

Application unsqueeze(Drawing& draw) {
  const Shape shape = draw.shape(0, 3);
  const auto rank = static_cast<int64_t>(shape.size());
  return application({draw.tensor(shape), draw.dim(draw.integer(0, rank), rank + 1)},
                     [](const Arguments& a) { return a[0].tensor.unsqueeze(a[1].integer()); });
}

Application squeeze(Drawing& draw) {
  const Shape shape = draw.shape(1, 4);
  const auto rank = static_cast<int64_t>(shape.size());
  if (draw.chance(0.15)) return of_one(draw.tensor(shape), [](const Tensor& x) { return x.squeeze(); });
  int64_t dim = draw.integer(0, rank - 1);
  for (int64_t i = 0; i < rank; ++i)
    if (shape[static_cast<size_t>(i)].size == 1 && draw.chance(0.6)) dim = i;
  return application({draw.tensor(shape), draw.dim(dim, rank)},
                     [](const Arguments& a) { return a[0].tensor.squeeze(a[1].integer()); });
}

Draw triangle(Tensor (*function)(const Tensor&, int64_t)) {
  return [=](Drawing& draw) {
    std::vector<Operand> operands = {draw.tensor(draw.shape(2, 4))};
    if (draw.chance(0.5)) operands.push_back(draw.number(draw.integer(-1, 1)));
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
       [](Drawing& draw) { return of_one(draw.tensor(draw.shape(1, 2)), [](const Tensor& x) { return x.t(); }); }},
      {".permute", permute},
      {".flatten", flatten},
      {".unsqueeze", unsqueeze},
      {".squeeze", squeeze},
  };
  return table;
}

}  // namespace modgen::rule_properties
