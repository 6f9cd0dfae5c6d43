// Values that are full, partial or split over tp, and rules applied to them.
#pragma once

#include "tests/generator/rule_values.h"

namespace modgen {

/// `value` with sizes #0, #1, …
inline Value sized(Value value) {
  std::vector<Count> sizes;
  for (int64_t i = 0; i < *value.rank; ++i) sizes.push_back(field_count("#" + std::to_string(i)));
  value.sizes = Sizes(std::move(sizes));
  return value;
}

inline Value full(int64_t rank, bool gradient = true) { return sized(Value::tensor(kInvariant, gradient, rank)); }
inline Value partial(int64_t rank) { return Value::tensor(kPartial, true, rank); }
inline Value split(int64_t dim, int64_t rank) { return sized(Value::tensor(sharded(dim), true, rank)); }
inline Value count(bool local = false) { return Value::number(local); }

/// A count or a product of counts, traced to config fields.
inline Value factors(std::vector<std::string> names, bool local = false) {
  Count product = literal_count(1);
  for (const std::string& name : names)
    product = product_of(product, read_literal(name).is_known() ? read_literal(name) : field_count(name));
  product.is_share = local;
  return Value::number(product);
}

/// Size `dim` of a value that has sizes.
inline Value size(int64_t dim = 0) { return factors({"#" + std::to_string(dim)}); }

/// A value whose split dimension has that global size.
inline Value split_of_size(int64_t dim, int64_t rank, const std::string& size) {
  Value value = split(dim, rank);
  value.split_size = size;
  return value;
}

/// Applies rule `name`.
struct Applied : OnValues {
  Applied(std::string name, std::vector<Value> values, std::string type = "at::Tensor")
      : OnValues(std::move(name), std::move(values)) {
    expr.type = std::move(type);
    const Rule rule = find_rule(op.name);
    EXPECT_NE(rule, nullptr) << op.name;
    if (rule) result = apply_rule(op, rule);
  }
};

}  // namespace modgen

#define EXPECT_TYPE(expected, ...)                          \
  do {                                                      \
    const Applied applied(__VA_ARGS__);                     \
    EXPECT_FALSE(applied.rejected()) << applied.op.message; \
    EXPECT_EQ(applied.result.type, expected);               \
  } while (false)

#define EXPECT_REFUSED(part, ...)                                                                     \
  do {                                                                                                \
    const Applied applied(__VA_ARGS__);                                                               \
    EXPECT_NE(applied.op.message.find(part), std::string::npos) << "message: " << applied.op.message; \
  } while (false)
