// What takes values apart and joins them.
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

Cut cut(Drawing& draw, int64_t least_rank = 1) {
  Cut result;
  result.shape = draw.shape(least_rank, 4);
  result.rank = static_cast<int64_t>(result.shape.size());
  result.dim = draw.integer(0, result.rank - 1);
  return result;
}

/// A tensor that is split at the dimension that is cut, within its parts if it has some, more often than others are.
Operand cut_tensor(Drawing& draw, const Cut& at) {
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  if (dimension.size % 4 == 0 && draw.chance(0.5))
    return draw.tensor(at.shape, sharded(at.dim, draw.chance(0.9) ? dimension.parts : std::vector<std::string>()));
  return draw.tensor(at.shape);
}

Application chunk(Drawing& draw) {
  const Cut at = cut(draw);
  const Operand x = cut_tensor(draw, at);
  const auto parts = static_cast<int64_t>(x.type.parts.size());
  const int64_t count = parts > 0 && draw.chance(0.7) ? parts : draw.integer(2, 4);
  std::vector<Operand> operands = {x, draw.number(count)};
  if (draw.chance(0.9)) operands.push_back(draw.dim(at.dim, at.rank));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.chunk(a[1].integer(), a.size() > 2 ? a[2].integer() : 0);
  });
}

/// A count where it is one of the config's, else a number.
Operand size_of_piece(Drawing& draw, const std::string& text, bool local) {
  return draw.chance(0.9) ? draw.count(text, local) : draw.number(evaluate(text));
}

/// Sizes of pieces: the parts, runs of them, or any others that make up the dimension.
std::vector<Operand> piece_sizes(Drawing& draw, const Dimension& dimension, const ShardType& type) {
  std::vector<Operand> sizes;
  if (!type.parts.empty() && draw.chance(0.85)) {
    const bool local = draw.chance(0.9);
    std::vector<std::string> parts = type.parts;
    if (draw.chance(0.1)) std::reverse(parts.begin(), parts.end());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i + 1 < parts.size() && draw.chance(0.25)) {
        Operand run = draw.variable(evaluate(parts[i]) + evaluate(parts[i + 1]));
        run.value.local = local;
        run.value.terms = {parts[i], parts[i + 1]};
        sizes.push_back(run);
        ++i;
      } else {
        sizes.push_back(size_of_piece(draw, parts[i], local));
      }
    }
    return sizes;
  }
  for (int64_t left = dimension.size; left > 0;) {
    const int64_t size = draw.integer(1, left);
    sizes.push_back(draw.number(size));
    left -= size;
  }
  return sizes;
}

Draw split(bool with_sizes_alone) {
  return [=](Drawing& draw) {
    const Cut at = cut(draw);
    const Operand x = cut_tensor(draw, at);
    const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
    const bool listed = with_sizes_alone || draw.chance(0.7);
    std::vector<Operand> operands = {x};
    if (listed)
      operands.push_back(draw.list(piece_sizes(draw, dimension, x.type)));
    else if (!x.type.parts.empty() && draw.chance(0.7))
      operands.push_back(size_of_piece(draw, x.type.parts[0], draw.chance(0.9)));
    else
      operands.push_back(draw.number(draw.integer(1, dimension.size)));
    operands.push_back(draw.dim(at.dim, at.rank));
    return application(std::move(operands), [=](const Arguments& a) {
      return listed ? a[0].tensor.split_with_sizes(a[1].integers(), a[2].integer())
                    : a[0].tensor.split(a[1].integer(), a[2].integer());
    });
  };
}

Application unbind(Drawing& draw) {
  const Cut at = cut(draw);
  std::vector<Operand> operands = {draw.tensor(at.shape)};
  if (draw.chance(0.8)) operands.push_back(draw.dim(at.dim, at.rank));
  return application(std::move(operands),
                     [](const Arguments& a) { return a[0].tensor.unbind(a.size() > 1 ? a[1].integer() : 0); });
}

Application select(Drawing& draw) {
  const Cut at = cut(draw);
  const int64_t index = draw.integer(0, at.shape[static_cast<size_t>(at.dim)].size - 1);
  return application({draw.tensor(at.shape), draw.dim(at.dim, at.rank), draw.number(index)},
                     [](const Arguments& a) { return a[0].tensor.select(a[1].integer(), a[2].integer()); });
}

Application slice(Drawing& draw) {
  const Cut at = cut(draw);
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  const int64_t begin = draw.integer(0, dimension.size - 1), end = draw.integer(begin + 1, dimension.size);
  std::vector<Operand> operands = {draw.tensor(at.shape), draw.dim(at.dim, at.rank), draw.number(begin),
                                   draw.number(end)};
  if (dimension.size % 4 == 0 && !dimension.text.empty() && draw.chance(0.2))
    operands[3] = draw.count(dimension.text, draw.chance(0.7));
  return application(std::move(operands), [](const Arguments& a) {
    return a[0].tensor.slice(a[1].integer(), a[2].integer(), a[3].integer());
  });
}

Application narrow(Drawing& draw) {
  const Cut at = cut(draw);
  const Dimension& dimension = at.shape[static_cast<size_t>(at.dim)];
  const int64_t begin = draw.integer(0, dimension.size - 1);
  return application(
      {draw.tensor(at.shape), draw.dim(at.dim, at.rank), draw.number(begin),
       draw.number(draw.integer(1, dimension.size - begin))},
      [](const Arguments& a) { return a[0].tensor.narrow(a[1].integer(), a[2].integer(), a[3].integer()); });
}

/// One dimension or a list of some.
Operand dims(Drawing& draw, const Cut& at) {
  if (draw.chance(0.2)) {
    std::vector<Operand> all;
    for (int64_t dim = 0; dim < at.rank; ++dim)
      if (dim == at.dim || draw.chance(0.5)) all.push_back(draw.literal(dim));
    return draw.list(std::move(all));
  }
  return draw.list({draw.dim(at.dim, at.rank)});
}

Application flip(Drawing& draw) {
  const Cut at = cut(draw);
  return application({draw.tensor(at.shape), dims(draw, at)},
                     [](const Arguments& a) { return a[0].tensor.flip(a[1].integers()); });
}

std::vector<int64_t> one_or_more(const Concrete& numbers) {
  return numbers.elements.empty() ? std::vector{numbers.integer()} : numbers.integers();
}

Application roll(Drawing& draw) {
  const Cut at = cut(draw);
  if (draw.chance(0.2))  // of all elements in a row
    return application({draw.tensor(at.shape), draw.number(draw.integer(1, 2))},
                       [](const Arguments& a) { return a[0].tensor.roll(a[1].integer()); });
  const Operand along = draw.chance(0.5) ? dims(draw, at) : draw.dim(at.dim, at.rank);
  std::vector<Operand> shifts;
  for (size_t i = 0; i < std::max<size_t>(along.elements.size(), 1); ++i) shifts.push_back(draw.number(1));
  return application({draw.tensor(at.shape), shifts.size() > 1 ? draw.list(shifts) : shifts[0], along},
                     [](const Arguments& a) { return a[0].tensor.roll(one_or_more(a[1]), one_or_more(a[2])); });
}

Application repeat_interleave(Drawing& draw) {
  const Cut at = cut(draw);
  std::vector<Operand> operands = {draw.tensor(at.shape), draw.number(draw.integer(1, 3))};
  if (draw.chance(0.85)) operands.push_back(draw.dim(at.dim, at.rank));
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

/// Some tensors that are joined; with `like` of one shape.
std::vector<Operand> joined_tensors(Drawing& draw, const Cut& at, bool like) {
  const ShardType type = draw.type_for(at.shape);
  std::vector<Operand> tensors;
  for (int64_t count = draw.integer(1, 3); count > 0; --count) {
    Shape shape = at.shape;
    Dimension& dimension = shape[static_cast<size_t>(at.dim)];
    if (!like && draw.chance(0.5)) dimension = dimension.size % 4 == 0 ? draw.split_dimension() : draw.dimension();
    const bool fits = type.kind != ShardType::Kind::sharded ||
                      (shape[static_cast<size_t>(type.dim)].size == at.shape[static_cast<size_t>(type.dim)].size);
    tensors.push_back(draw.tensor(shape, draw.chance(0.9) && fits ? type : draw.type_for(shape)));
  }
  return tensors;
}

Application cat(Drawing& draw) {
  const Cut at = cut(draw);
  std::vector<Operand> operands = {draw.list(joined_tensors(draw, at, /*like=*/false))};
  if (at.dim != 0 || draw.chance(0.5)) operands.push_back(draw.dim(at.dim, at.rank));
  return application(std::move(operands),
                     [](const Arguments& a) { return at::cat(find_tensors(a[0]), a.size() > 1 ? a[1].integer() : 0); });
}

Application stack(Drawing& draw) {
  const Cut at = cut(draw);
  return application(
      {draw.list(joined_tensors(draw, at, /*like=*/true)), draw.dim(draw.integer(0, at.rank), at.rank + 1)},
      [](const Arguments& a) { return at::stack(find_tensors(a[0]), a[1].integer()); });
}

/// x[i] of a tensor, of chunks and of a tuple.
Application element(Drawing& draw) {
  const Cut at = cut(draw);
  if (draw.chance(0.5))
    return application({draw.tensor(at.shape), draw.number(draw.integer(0, at.shape[0].size - 1))},
                       [](const Arguments& a) { return a[0].tensor[a[1].integer()]; });
  std::vector<Operand> tensors = joined_tensors(draw, at, /*like=*/false);
  const auto last = static_cast<int64_t>(tensors.size()) - 1;
  Operand list = draw.list(tensors);
  if (draw.chance(0.4)) {  // as many of one type as there are
    const ShardType type = draw.type_for(at.shape);
    const Operand first = draw.tensor(at.shape, type);
    list = draw.list({first, first});
    list.value.kind = Value::Kind::list;
    list.value.elements.resize(1);
    list.expr.kind = Expr::Kind::local;
    return application({list, draw.number(draw.integer(0, 1))},
                       [](const Arguments& a) { return a[0].elements[static_cast<size_t>(a[1].integer())].tensor; });
  }
  return application({list, draw.number(draw.integer(0, last))},
                     [](const Arguments& a) { return a[0].elements[static_cast<size_t>(a[1].integer())].tensor; });
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
      {"cat", cat},
      {"stack", stack},
      {"op []", element},
  };
  return table;
}

}  // namespace modgen::rule_properties
