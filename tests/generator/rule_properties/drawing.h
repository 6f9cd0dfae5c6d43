// Samples operands: tensors with random shapes and shard types, and numbers that may be literals. The rule sees true
// but possibly incomplete facts about them.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/generator/rule_properties/application.h"

namespace modgen::rule_properties {

/// The config fields that sizes are products of. Each can be split over 2 and 4 ranks, except "d" and "e".
const std::map<std::string, int64_t>& config_fields();

/// The value of a product of config fields, literals and sizes that are named after their number.
int64_t evaluate(const std::string& product);

/// Reads a product of sizes: "2 * a".
Count read_product(const std::string& text);

/// A dimension with its global size.
struct Dimension {
  int64_t size = 1;
  std::string text;                // size as a product of config fields; empty if it is not one
  std::vector<std::string> parts;  // sizes of parts that it may consist of, each of which can be split
};

using Shape = std::vector<Dimension>;

std::vector<int64_t> get_sizes(const Shape& shape);

/// The kind of a tensor's elements.
enum class Elements { any, positive, indices, flags };

/// Random number generator for operands.
class Sampler {
 public:
  explicit Sampler(uint64_t seed) : random_(seed) {}

  // ---- Choices ----

  int64_t integer(int64_t least, int64_t most);
  bool chance(double probability);
  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(integer(0, static_cast<int64_t>(choices.size()) - 1))];
  }

  // ---- Shapes and types ----

  Dimension small_dimension();  // a dimension that cannot be split
  Dimension split_dimension();  // a dimension that can be split
  Dimension dimension();        // either
  Shape shape(int64_t least_rank, int64_t most_rank);
  /// Any shard type that a tensor of that shape can have.
  ShardType type_for(const Shape& shape);
  /// A type that splits a dimension, if one can be split; within parts in some cases if `with_parts`.
  ShardType split_for(const Shape& shape, bool with_parts = true);
  /// A type that splits dimension `dim`; within parts in some cases if it has parts.
  ShardType split_at(const Shape& shape, int64_t dim, bool with_parts = true);

  // ---- Operands ----

  /// A tensor. Most tensors of floating-point numbers require a gradient.
  Operand tensor(const Shape& shape, const ShardType& type, Elements elements = Elements::any, int64_t limit = 2);
  Operand tensor(const Shape& shape) { return tensor(shape, type_for(shape)); }
  /// A tensor without a gradient.
  Operand constant(const Shape& shape, const ShardType& type, Elements elements = Elements::any, int64_t limit = 2);
  /// An omitted tensor.
  Operand undefined();
  /// A number that the rule knows (literal), or does not know (variable).
  Operand literal(int64_t number);
  Operand variable(int64_t number);
  Operand number(int64_t value) { return chance(0.8) ? literal(value) : variable(value); }
  Operand real(double number);
  Operand flag(bool value);
  Operand text(const std::string& value);
  /// An option that is not a number: a dtype or device. `spelling` is the name of a global.
  Operand option(const std::string& spelling, const std::string& type);
  /// A count that is a product of config fields; tp-local if `local`.
  Operand count(const std::string& product, bool local);
  /// A size that was read from a tensor. Its name is the number: "#5".
  Operand own_size(int64_t size);
  Operand list(std::vector<Operand> elements);
  /// Dimension `dim` of a tensor of that rank, counted from either side, as a number or as a list of it.
  Operand dim(int64_t dim, int64_t rank, bool may_be_list = false);

  // ---- Several tensors ----

  /// A shape that broadcasts to `full`.
  Shape broadcast_to(const Shape& full);
  /// `count` tensors for an elementwise operation, with compatible types more often than not.
  struct Typed {
    Shape shape;
    ShardType type;
  };
  std::vector<Typed> broadcasting(size_t count);
  std::vector<Operand> tensors(const std::vector<Typed>& typed, Elements elements = Elements::any);

  uint64_t next_seed() { return random_(); }

 private:
  Dimension& one_of_dimensions(Shape& shape);
  /// True sizes of a shape, of which some are not known.
  Sizes known_sizes(const Shape& shape);

  std::mt19937_64 random_;
};

/// Random values of a tensor, determined by `seed`.
at::Tensor values(const std::vector<int64_t>& sizes, Elements elements, int64_t limit, uint64_t seed);

}  // namespace modgen::rule_properties
