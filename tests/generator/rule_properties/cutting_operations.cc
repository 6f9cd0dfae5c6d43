// Operations that split, select and concatenate values.
#include <algorithm>

#include "tests/generator/rule_properties/operations.h"

namespace modgen::rule_properties {
namespace {

using at::Tensor;

/// A tensor and one of its dimensions.
struct Cut {
  Shape shape;
  int64_t rank = 0, dim = 0;
};

Cut cut(Sampler& sampler, int64_t least_rank = 1) {
  Cut result;
  result.shape = sampler.shape(least_rank, 4);
  result.rank = static_cast<int64_t>(result.shape.size());
  result.dim = sampler.integer(0, result.rank - 1);
  return result;
}

/// A tensor that is often split over tp along the dimension that the operation cuts, within parts if it has any.
Operand cut_tensor(Sampler& sampler, const Cut& at) {
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  if (dimension.size % 4 == 0 && sampler.chance(0.5))
    return sampler.tensor(at.shape,
                          sharded(at.dim, sampler.chance(0.9) ? dimension.parts : std::vector<std::string>()));
  return sampler.tensor(at.shape);
}

Application chunk(Sampler& sampler) {
  const Cut at = cut(sampler);
  const Operand x = cut_tensor(sampler, at);
  const auto parts = static_cast<int64_t>(x.type.parts.size());
  const int64_t count = parts > 0 && sampler.chance(0.7) ? parts : sampler.integer(2, 4);
  std::vector<Operand> operands = {x, sampler.number(count)};
  if (sampler.chance(0.9)) operands.push_back(sampler.dim(at.dim, at.rank));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.chunk(a[1].integer(), a.size() > 2 ? a[2].integer() : 0);
  });
}

/// A count if the size is a product of config fields, otherwise a number.
Operand size_of_piece(Sampler& sampler, const std::string& text, bool local) {
  return sampler.chance(0.9) ? sampler.count(text, local) : sampler.number(evaluate(text));
}

/// Sizes of pieces that add up to the dimension: its parts, runs of parts, or arbitrary sizes.
std::vector<Operand> piece_sizes(Sampler& sampler, const Dimension& dimension, const ShardType& type) {
  std::vector<Operand> sizes;
  if (!type.parts.empty() && sampler.chance(0.85)) {
    const bool local = sampler.chance(0.9);
    std::vector<std::string> parts = type.parts;
    if (sampler.chance(0.1)) std::reverse(parts.begin(), parts.end());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i + 1 < parts.size() && sampler.chance(0.25)) {
        Operand run = sampler.variable(evaluate(parts[i]) + evaluate(parts[i + 1]));
        run.value.count = sum_of(read_product(parts[i]), read_product(parts[i + 1]));
        run.value.count.is_share = local;
        sizes.push_back(run);
        ++i;
      } else {
        sizes.push_back(size_of_piece(sampler, parts[i], local));
      }
    }
    return sizes;
  }
  for (int64_t left = dimension.size; left > 0;) {
    const int64_t size = sampler.integer(1, left);
    sizes.push_back(sampler.number(size));
    left -= size;
  }
  return sizes;
}

SampleOperation split(bool with_sizes_alone) {
  return [=](Sampler& sampler) {
    const Cut at = cut(sampler);
    const Operand x = cut_tensor(sampler, at);
    const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
    const bool listed = with_sizes_alone || sampler.chance(0.7);
    std::vector<Operand> operands = {x};
    if (listed)
      operands.push_back(sampler.list(piece_sizes(sampler, dimension, x.type)));
    else if (!x.type.parts.empty() && sampler.chance(0.7))
      operands.push_back(size_of_piece(sampler, x.type.parts[0], sampler.chance(0.9)));
    else
      operands.push_back(sampler.number(sampler.integer(1, dimension.size)));
    operands.push_back(sampler.dim(at.dim, at.rank));
    return application(std::move(operands), [=](const Arguments& a) {
      return listed ? a[0].tensor.split_with_sizes(a[1].integers(), a[2].integer())
                    : a[0].tensor.split(a[1].integer(), a[2].integer());
    });
  };
}

Application unbind(Sampler& sampler) {
  const Cut at = cut(sampler);
  std::vector<Operand> operands = {sampler.tensor(at.shape)};
  if (sampler.chance(0.8)) operands.push_back(sampler.dim(at.dim, at.rank));
  return application(std::move(operands),
                     [](const Arguments& a) { return a[0].tensor.unbind(a.size() > 1 ? a[1].integer() : 0); });
}

Application select(Sampler& sampler) {
  const Cut at = cut(sampler);
  const int64_t index = sampler.integer(0, at.shape[static_cast<size_t>(at.dim)].size - 1);
  return application({sampler.tensor(at.shape), sampler.dim(at.dim, at.rank), sampler.number(index)},
                     [](const Arguments& a) { return a[0].tensor.select(a[1].integer(), a[2].integer()); });
}

Application slice(Sampler& sampler) {
  const Cut at = cut(sampler);
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  const int64_t begin = sampler.integer(0, dimension.size - 1), end = sampler.integer(begin + 1, dimension.size);
  std::vector<Operand> operands = {sampler.tensor(at.shape), sampler.dim(at.dim, at.rank), sampler.number(begin),
                                   sampler.number(end)};
  if (dimension.size % 4 == 0 && !dimension.text.empty() && sampler.chance(0.2))
    operands[3] = sampler.count(dimension.text, sampler.chance(0.7));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.slice(a[1].integer(), a[2].integer(), a[3].integer());
  });
}

Application narrow(Sampler& sampler) {
  const Cut at = cut(sampler);
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  const int64_t begin = sampler.integer(0, dimension.size - 1);
  return application(
      {sampler.tensor(at.shape), sampler.dim(at.dim, at.rank), sampler.number(begin),
       sampler.number(sampler.integer(1, dimension.size - begin))},
      [](const Arguments& a) { return a[0].tensor.narrow(a[1].integer(), a[2].integer(), a[3].integer()); });
}

/// One dimension, or a list of dimensions.
Operand dims(Sampler& sampler, const Cut& at) {
  if (sampler.chance(0.2)) {
    std::vector<Operand> all;
    for (int64_t dim = 0; dim < at.rank; ++dim)
      if (dim == at.dim || sampler.chance(0.5)) all.push_back(sampler.literal(dim));
    return sampler.list(std::move(all));
  }
  return sampler.list({sampler.dim(at.dim, at.rank)});
}

Application flip(Sampler& sampler) {
  const Cut at = cut(sampler);
  return application({sampler.tensor(at.shape), dims(sampler, at)},
                     [](const Arguments& a) { return a[0].tensor.flip(a[1].integers()); });
}

std::vector<int64_t> one_or_more(const Concrete& numbers) {
  return numbers.elements.empty() ? std::vector{numbers.integer()} : numbers.integers();
}

Application roll(Sampler& sampler) {
  const Cut at = cut(sampler);
  if (sampler.chance(0.2))  // flattened
    return application({sampler.tensor(at.shape), sampler.number(sampler.integer(1, 2))},
                       [](const Arguments& a) { return a[0].tensor.roll(a[1].integer()); });
  const Operand along = sampler.chance(0.5) ? dims(sampler, at) : sampler.dim(at.dim, at.rank);
  std::vector<Operand> shifts;
  for (size_t i = 0; i < std::max<size_t>(along.elements.size(), 1); ++i) shifts.push_back(sampler.number(1));
  return application({sampler.tensor(at.shape), shifts.size() > 1 ? sampler.list(shifts) : shifts[0], along},
                     [](const Arguments& a) { return a[0].tensor.roll(one_or_more(a[1]), one_or_more(a[2])); });
}

Application repeat_interleave(Sampler& sampler) {
  const Cut at = cut(sampler);
  std::vector<Operand> operands = {sampler.tensor(at.shape), sampler.number(sampler.integer(1, 3))};
  if (sampler.chance(0.85)) operands.push_back(sampler.dim(at.dim, at.rank));
  return application(std::move(operands), [](const Arguments& a) {
    return a.size() > 2 ? a[0].tensor.repeat_interleave(a[1].integer(), a[2].integer())
                        : a[0].tensor.repeat_interleave(a[1].integer());
  });
}

std::vector<Tensor> find_tensors(const Concrete& list) {
  std::vector<Tensor> tensors;
  for (const Concrete& element : list.elements) tensors.push_back(element.tensor);
  return tensors;
}

/// Tensors to concatenate; all have the same shape if `like`.
std::vector<Operand> joined_tensors(Sampler& sampler, const Cut& at, bool like) {
  const ShardType type = sampler.type_for(at.shape);
  std::vector<Operand> tensors;
  for (int64_t count = sampler.integer(1, 3); count > 0; --count) {
    Shape shape = at.shape;
    Dimension& dimension = shape[static_cast<size_t>(at.dim)];
    if (!like && sampler.chance(0.5))
      dimension = dimension.size % 4 == 0 ? sampler.split_dimension() : sampler.dimension();
    const bool fits = type.kind != ShardType::Kind::sharded ||
                      (shape[static_cast<size_t>(type.dim)].size == at.shape[static_cast<size_t>(type.dim)].size);
    tensors.push_back(sampler.tensor(shape, sampler.chance(0.9) && fits ? type : sampler.type_for(shape)));
  }
  return tensors;
}

Application cat(Sampler& sampler) {
  const Cut at = cut(sampler);
  std::vector<Operand> joined = joined_tensors(sampler, at, /*like=*/false);
  if (sampler.chance(0.1)) joined.insert(joined.begin(), sampler.tensor({{0, "", {}}}, kInvariant));  // left out
  std::vector<Operand> operands = {sampler.list(std::move(joined))};
  if (at.dim != 0 || sampler.chance(0.5)) operands.push_back(sampler.dim(at.dim, at.rank));
  return application(std::move(operands),
                     [](const Arguments& a) { return at::cat(find_tensors(a[0]), a.size() > 1 ? a[1].integer() : 0); });
}

Application stack(Sampler& sampler) {
  const Cut at = cut(sampler);
  return application(
      {sampler.list(joined_tensors(sampler, at, /*like=*/true)), sampler.dim(sampler.integer(0, at.rank), at.rank + 1)},
      [](const Arguments& a) { return at::stack(find_tensors(a[0]), a[1].integer()); });
}

/// x[i] of a tensor, of chunks and of a tuple.
Application element(Sampler& sampler) {
  const Cut at = cut(sampler);
  if (sampler.chance(0.5))
    return application({sampler.tensor(at.shape), sampler.number(sampler.integer(0, at.shape[0].size - 1))},
                       [](const Arguments& a) { return a[0].tensor[a[1].integer()]; });
  std::vector<Operand> tensors = joined_tensors(sampler, at, /*like=*/false);
  const auto last = static_cast<int64_t>(tensors.size()) - 1;
  Operand list = sampler.list(tensors);
  if (sampler.chance(0.4)) {  // the same type for all
    const ShardType type = sampler.type_for(at.shape);
    const Operand first = sampler.tensor(at.shape, type);
    list = sampler.list({first, first});
    list.value.kind = Value::Kind::list;
    list.value.elements.resize(1);
    list.expr.kind = Expr::Kind::local;
    return application({list, sampler.number(sampler.integer(0, 1))},
                       [](const Arguments& a) { return a[0].elements[static_cast<size_t>(a[1].integer())].tensor; });
  }
  return application({list, sampler.number(sampler.integer(0, last))},
                     [](const Arguments& a) { return a[0].elements[static_cast<size_t>(a[1].integer())].tensor; });
}

/// at::constant_pad_nd(x, {before, after, …}, value)
Application pad(Sampler& sampler) {
  const Cut at = cut(sampler);
  std::vector<Operand> sizes;
  for (int64_t i = sampler.integer(1, at.rank) * 2; i > 0; --i) sizes.push_back(sampler.number(sampler.integer(0, 2)));
  return application({sampler.tensor(at.shape), sampler.list(std::move(sizes)), sampler.real(0.5)},
                     [](const Arguments& a) { return at::constant_pad_nd(a[0].tensor, a[1].integers(), 0.5); });
}

/// x.gather(dim, index), by an index that has x's shape and often its type.
Application gather(Sampler& sampler) {
  const Cut at = cut(sampler);
  const Operand x = sampler.chance(0.6) ? sampler.tensor(at.shape, sampler.split_for(at.shape, /*with_parts=*/false))
                                        : sampler.tensor(at.shape);
  const ShardType type = sampler.chance(0.8) ? x.type : sampler.type_for(at.shape);
  const bool holds_indices = type.kind == ShardType::Kind::invariant || type.kind == ShardType::Kind::sharded;
  // The smallest size that a rank can have, so that each index is valid on every rank.
  const int64_t limit = std::max<int64_t>(1, at.shape[static_cast<size_t>(at.dim)].size / 4);
  const Operand index = sampler.constant(at.shape, holds_indices ? type : kInvariant, Elements::indices, limit);
  return application({x, sampler.dim(at.dim, at.rank), index},
                     [](const Arguments& a) { return a[0].tensor.gather(a[1].integer(), a[2].tensor); });
}

}  // namespace

const OperationTable& cutting_operations() {
  static const OperationTable table = {
      {".chunk", chunk},
      {"chunk", chunk},
      {".split", split(/*with_sizes_alone=*/false)},
      {"split", split(/*with_sizes_alone=*/false)},
      {".split_with_sizes", split(/*with_sizes_alone=*/true)},
      {"split_with_sizes", split(/*with_sizes_alone=*/true)},
      {".unbind", unbind},
      {"unbind", unbind},
      {".select", select},
      {".slice", slice},
      {".narrow", narrow},
      {".flip", flip},
      {".roll", roll},
      {".repeat_interleave", repeat_interleave},
      {".gather", gather},
      {"gather", gather},
      {"constant_pad_nd", pad},
      {"cat", cat},
      {"stack", stack},
      {"op []", element},
  };
  return table;
}

}  // namespace modgen::rule_properties
