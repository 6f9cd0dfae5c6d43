// Draws operands: tensors of random shapes and shard types, of which the rule is told what is true, but not always all
// of it; numbers that are literals or are not.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/generator/rule_properties/application.h"

namespace modgen::rule_properties {

/// The config fields that sizes are products of. Each can be split over 2 and 4 ranks, but for "d" and "e".
const std::map<std::string, int64_t>& config_fields();

/// The number that a product of config fields and literals stands for.
int64_t evaluate(const std::string& product);

/// A dimension: its size over all ranks.
struct Dimension {
  int64_t size = 1;
  std::string text;                // as a product of config fields; empty where it is none
  std::vector<std::string> parts;  // products that it can be taken for a row of, each of which can be split
};

using Shape = std::vector<Dimension>;

std::vector<int64_t> get_sizes(const Shape& shape);

/// What the elements of a tensor are.
enum class Elements { any, positive, indices, flags };

class Drawing {
 public:
  explicit Drawing(uint64_t seed) : random_(seed) {}

  // ---- Choices ----

  int64_t integer(int64_t least, int64_t most);
  bool chance(double probability);
  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(integer(0, static_cast<int64_t>(choices.size()) - 1))];
  }

  // ---- Shapes and types ----

  Dimension small_dimension();  // that no rank can have a slice of
  Dimension split_dimension();  // that can be split
  Dimension dimension();        // either
  Shape shape(int64_t least_rank, int64_t most_rank);
  /// Any type that a tensor of that shape can have.
  ShardType type_for(const Shape& shape);
  /// One that splits a dimension, where there is one to split; `with_parts` may split it within parts.
  ShardType split_for(const Shape& shape, bool with_parts = true);
  /// Splits that dimension; with parts now and then where it has some.
  ShardType split_at(const Shape& shape, int64_t dim, bool with_parts = true);

  // ---- Operands ----

  /// A tensor; `gradient`: a gradient may flow into it.
  Operand tensor(const Shape& shape, const ShardType& type, Elements elements = Elements::any, int64_t limit = 2);
  Operand tensor(const Shape& shape) { return tensor(shape, type_for(shape)); }
  /// Without a gradient.
  Operand constant(const Shape& shape, const ShardType& type, Elements elements = Elements::any, int64_t limit = 2);
  /// A tensor that is not given.
  Operand undefined();
  /// A number that the rule knows, or one that it does not.
  Operand literal(int64_t number);
  Operand variable(int64_t number);
  Operand number(int64_t value) { return chance(0.8) ? literal(value) : variable(value); }
  Operand real(double number);
  Operand flag(bool value);
  Operand text(const std::string& value);
  /// A setting that is no number: a type, a device. `spelling` as in a global's name.
  Operand setting(const std::string& spelling, const std::string& type);
  /// A count that is a product of config fields; a rank's share of it where it is `local`.
  Operand count(const std::string& product, bool local);
  /// The size that was asked of a tensor's dimension.
  Operand own_size(int64_t dim, int64_t size);
  Operand list(std::vector<Operand> elements);
  /// Dimension `dim` of a tensor of that rank, counted from either side, as a number or as a list of it.
  Operand dim(int64_t dim, int64_t rank, bool may_be_list = false);

  // ---- Several tensors ----

  /// A shape that broadcasts to `full`.
  Shape broadcast_to(const Shape& full);
  /// `count` tensors that meet element by element, of types that fit more often than not.
  struct Typed {
    Shape shape;
    ShardType type;
  };
  std::vector<Typed> broadcasting(size_t count);
  std::vector<Operand> tensors(const std::vector<Typed>& typed, Elements elements = Elements::any);

  uint64_t next_seed() { return random_(); }

 private:
  Dimension& one_of_dimensions(Shape& shape);

  std::mt19937_64 random_;
};

/// Values of a tensor, the same for a seed.
at::Tensor values(const std::vector<int64_t>& sizes, Elements elements, int64_t limit, uint64_t seed);

}  // namespace modgen::rule_properties
