#include "tests/generator/rule_properties/drawing.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

namespace modgen::rule_properties {

Concrete::Concrete(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) elements.emplace_back(tensor);
}

std::vector<int64_t> Concrete::integers() const {
  std::vector<int64_t> integers;
  for (const Concrete& element : elements) integers.push_back(element.integer());
  return integers;
}

const std::map<std::string, int64_t>& config_fields() {
  static const std::map<std::string, int64_t> fields = {{"a", 4}, {"b", 8}, {"d", 3}, {"e", 2}, {"u", 1}};
  return fields;
}

int64_t evaluate(const std::string& product) {
  int64_t result = 1;
  for (size_t begin = 0; begin < product.size();) {
    const size_t end = std::min(product.find(" * ", begin), product.size());
    const std::string factor = product.substr(begin, end - begin);
    const auto field = config_fields().find(factor);
    result *= field != config_fields().end() ? field->second : std::stoll(factor.substr(factor.starts_with("#")));
    begin = end + 3;
  }
  return result;
}

std::vector<int64_t> get_sizes(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Dimension& dimension : shape) sizes.push_back(dimension.size);
  return sizes;
}

at::Tensor values(const std::vector<int64_t>& sizes, Elements elements, int64_t limit, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  switch (elements) {
    case Elements::any:
      return at::randn(sizes, generator, at::kDouble);
    case Elements::positive:
      return at::rand(sizes, generator, at::kDouble) + 0.5;
    case Elements::indices:
      return at::randint(limit, sizes, generator, at::kLong);
    case Elements::flags:
      return at::rand(sizes, generator, at::kDouble).gt(0.4);
  }
  return {};
}

// ---- Choices ----

int64_t Sampler::integer(int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
}

bool Sampler::chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }

// ---- Shapes and types ----

Dimension Sampler::small_dimension() {
  static const std::vector<Dimension> choices = {{1, "", {}},  {1, "", {}},  {2, "", {}}, {3, "", {}},
                                                 {2, "e", {}}, {3, "d", {}}, {5, "", {}}, {1, "u", {}}};
  return one_of(choices);
}

Dimension Sampler::split_dimension() {
  static const std::vector<Dimension> choices = {{4, "a", {}},
                                                 {4, "", {}},
                                                 {8, "b", {"a", "a"}},
                                                 {8, "a * e", {"a", "a"}},
                                                 {12, "a * d", {"a", "a", "a"}},
                                                 {12, "", {"a", "b"}},
                                                 {12, "", {"b", "a"}},
                                                 {16, "b * e", {"b", "b"}}};
  return one_of(choices);
}

Dimension Sampler::dimension() { return chance(0.5) ? small_dimension() : split_dimension(); }

Shape Sampler::shape(int64_t least_rank, int64_t most_rank) {
  Shape shape(static_cast<size_t>(integer(least_rank, most_rank)));
  for (Dimension& one : shape) one = small_dimension();
  if (!shape.empty()) one_of_dimensions(shape) = split_dimension();
  if (chance(0.3) && !shape.empty()) one_of_dimensions(shape) = split_dimension();
  return shape;
}

Dimension& Sampler::one_of_dimensions(Shape& shape) {
  return shape[static_cast<size_t>(integer(0, static_cast<int64_t>(shape.size()) - 1))];
}

ShardType Sampler::split_at(const Shape& shape, int64_t dim, bool with_parts) {
  const Dimension& dimension = shape[static_cast<size_t>(dim)];
  const bool within_parts = with_parts && !dimension.parts.empty() && chance(0.3);
  return sharded(dim, within_parts ? dimension.parts : std::vector<std::string>());
}

ShardType Sampler::split_for(const Shape& shape, bool with_parts) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i].size % 4 == 0) dims.push_back(static_cast<int64_t>(i));
  return dims.empty() ? kInvariant : split_at(shape, one_of(dims), with_parts);
}

ShardType Sampler::type_for(const Shape& shape) {
  if (chance(0.55)) return split_for(shape);
  static const std::vector<ShardType> others = {kInvariant, kInvariant, kReplicated, kPartial, kPartial};
  return one_of(others);
}

// ---- Operands ----

Sizes Sampler::known_sizes(const Shape& shape) {
  std::vector<Count> sizes;
  for (const Dimension& dimension : shape)
    sizes.push_back(chance(0.1)                              ? Count()
                    : dimension.size == 1                    ? literal_count(1)
                    : !dimension.text.empty() && chance(0.4) ? read_product(dimension.text)
                                                             : field_count("#" + std::to_string(dimension.size)));
  return Sizes(std::move(sizes));
}

Operand Sampler::tensor(const Shape& shape, const ShardType& type, Elements elements, int64_t limit) {
  Operand operand;
  const auto rank = static_cast<int64_t>(shape.size());
  const bool differentiable = elements == Elements::any || elements == Elements::positive;
  operand.type = type;
  operand.full.tensor = values(get_sizes(shape), elements, limit, next_seed());
  const bool gradient = differentiable && chance(0.75);
  operand.full.tensor.requires_grad_(gradient);
  operand.expr.type = "at::Tensor";
  operand.expr.kind = Expr::Kind::local;
  operand.expr.name = "x";
  // The rank is not always known; the split dimension is then counted from either side.
  ShardType known_type = type;
  const bool rank_known = chance(0.8);
  if (!rank_known && known_type.kind == ShardType::Kind::sharded && chance(0.7)) known_type.dim -= rank;
  operand.value = Value::tensor(known_type, gradient, rank_known ? std::optional(rank) : std::nullopt);
  for (int64_t i = 0; i < rank; ++i)
    if (shape[static_cast<size_t>(i)].size == 1 && chance(0.8)) operand.value.ones.push_back(i - rank);
  if (rank > 0 && chance(0.7)) operand.value.last_size = shape.back().text;
  if (rank_known && chance(0.8)) operand.value.sizes = known_sizes(shape);
  if (type.kind == ShardType::Kind::sharded && chance(0.7))
    operand.value.split_size = shape[static_cast<size_t>(type.dim)].text;
  return operand;
}

Operand Sampler::constant(const Shape& shape, const ShardType& type, Elements elements, int64_t limit) {
  Operand operand = tensor(shape, type, elements, limit);
  operand.full.tensor.requires_grad_(false);
  operand.value.gradient = false;
  return operand;
}

Operand Sampler::undefined() {
  Operand operand;
  operand.expr.type = "at::Tensor";
  return operand;
}

Operand Sampler::literal(int64_t number) {
  Operand operand = variable(number);
  operand.expr.kind = Expr::Kind::literal;
  operand.expr.name = std::to_string(number);
  operand.value.count = literal_count(number);
  return operand;
}

Operand Sampler::variable(int64_t number) {
  Operand operand;
  operand.value = Value::number();
  operand.expr.kind = Expr::Kind::local;
  operand.expr.name = "n";
  operand.expr.type = "long";
  operand.full.number = static_cast<double>(number);
  return operand;
}

Operand Sampler::real(double number) {
  Operand operand = variable(0);
  operand.expr.kind = Expr::Kind::literal;
  operand.expr.name = std::to_string(number);
  operand.expr.type = "double";
  operand.full.number = number;
  return operand;
}

Operand Sampler::flag(bool value) {
  Operand operand = variable(value);
  operand.expr.type = "bool";
  if (chance(0.3)) return operand;
  operand.expr.kind = Expr::Kind::literal;
  operand.expr.name = value ? "true" : "false";
  return operand;
}

Operand Sampler::text(const std::string& value) {
  Operand operand = variable(0);
  operand.expr.kind = Expr::Kind::literal;
  operand.expr.name = '"' + value + '"';
  operand.expr.type = "char[]";
  operand.full.text = value;
  return operand;
}

Operand Sampler::option(const std::string& spelling, const std::string& type) {
  Operand operand;
  operand.value = make_invariant(type, false);
  operand.expr.kind = Expr::Kind::global;
  operand.expr.name = spelling;
  operand.expr.type = type;
  operand.full.text = spelling;
  return operand;
}

Count read_product(const std::string& text) {
  Count product = literal_count(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(" * ", begin), text.size());
    const std::string factor = text.substr(begin, end - begin);
    product = product_of(product, read_literal(factor).is_known() ? read_literal(factor) : field_count(factor));
    begin = end + 3;
  }
  return product;
}

Operand Sampler::count(const std::string& product, bool local) {
  Operand operand = variable(evaluate(product));
  operand.expr.kind = Expr::Kind::field;
  operand.value.count = read_product(product);
  operand.value.count.is_share = local;
  return operand;
}

Operand Sampler::own_size(int64_t size) {
  Operand operand = variable(size);
  operand.value.count = field_count("#" + std::to_string(size));
  return operand;
}

Operand Sampler::list(std::vector<Operand> elements) {
  Operand operand;
  operand.value.kind = Value::Kind::tuple;
  operand.expr.kind = Expr::Kind::list;
  for (const Operand& element : elements) {
    operand.value.elements.push_back(element.value);
    operand.expr.operands.push_back(element.expr);
  }
  operand.elements = std::move(elements);
  return operand;
}

Operand Sampler::dim(int64_t dim, int64_t rank, bool may_be_list) {
  Operand operand = number(chance(0.5) ? dim : dim - rank);
  return may_be_list && chance(0.3) ? list({operand}) : operand;
}

// ---- Several tensors ----

Shape Sampler::broadcast_to(const Shape& full) {
  if (full.empty()) return full;
  Shape shape(full.begin() + (chance(0.3) ? integer(0, static_cast<int64_t>(full.size()) - 1) : 0), full.end());
  for (Dimension& dimension : shape)
    if (chance(0.25)) dimension = chance(0.7) ? Dimension{1, "", {}} : Dimension{1, "u", {}};
  return shape;
}

std::vector<Sampler::Typed> Sampler::broadcasting(size_t count) {
  const Shape full = shape(chance(0.05) ? 0 : 1, 4);
  std::vector<Typed> typed(count);
  const auto first = static_cast<size_t>(integer(0, static_cast<int64_t>(count) - 1));
  for (size_t i = 0; i < count; ++i) typed[i].shape = i == first || chance(0.5) ? full : broadcast_to(full);
  const double way = static_cast<double>(integer(0, 99)) / 100;
  if (way < 0.15) {
    for (Typed& one : typed) one.type = type_for(one.shape);
  } else if (way < 0.55) {
    const ShardType split = split_for(full);
    for (Typed& one : typed) {
      const int64_t dim = split.dim + static_cast<int64_t>(one.shape.size()) - static_cast<int64_t>(full.size());
      const bool has_it = split.kind == ShardType::Kind::sharded && dim >= 0 &&
                          one.shape[static_cast<size_t>(dim)].size == full[static_cast<size_t>(split.dim)].size;
      one.type = has_it ? sharded(dim, split.parts) : chance(0.9) ? kInvariant : kReplicated;
    }
  } else if (way < 0.7) {
    typed[static_cast<size_t>(integer(0, static_cast<int64_t>(count) - 1))].type = kPartial;
  } else if (way < 0.8) {
    for (Typed& one : typed) one.type = kPartial;
  } else if (way < 0.9) {
    for (Typed& one : typed) one.type = chance(0.5) ? kReplicated : kInvariant;
  }
  return typed;
}

std::vector<Operand> Sampler::tensors(const std::vector<Typed>& typed, Elements elements) {
  std::vector<Operand> operands;
  for (const Typed& one : typed) operands.push_back(tensor(one.shape, one.type, elements));
  return operands;
}

}  // namespace modgen::rule_properties
