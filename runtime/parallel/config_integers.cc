#include "runtime/parallel/config_integers.h"

#include <c10/util/Exception.h>

#include <charconv>

namespace modular {
namespace {

/// Adds the integers among the fields that it sees, each by the path that `prefix` begins.
FieldVisitor integers_into(ConfigIntegers& values, const std::string& prefix) {
  return FieldVisitor([&values, prefix](std::string_view name, const ConfigValue& field) {
    const std::string path = prefix + std::string(name);
    if (const auto* value = std::get_if<int64_t*>(&field)) {
      values.emplace(path, **value);
    } else if (const auto* given = std::get_if<std::optional<int64_t>*>(&field); given && **given) {
      values.emplace(path, ***given);
    } else if (const auto* either = std::get_if<IntegerOrString*>(&field)) {
      if (const auto* integer = std::get_if<int64_t>(*either)) values.emplace(path, *integer);
    } else if (const auto* some = std::get_if<std::optional<IntegerOrString>*>(&field); some && **some) {
      if (const auto* integer = std::get_if<int64_t>(&***some)) values.emplace(path, *integer);
    } else if (const auto* nested = std::get_if<NestedConfig*>(&field)) {
      (*nested)->fields(integers_into(values, path + "."));
    }
  });
}

}  // namespace

ConfigIntegers config_integers(const AnyConfig& config) {
  ConfigIntegers integers;
  config.clone()->fields(integers_into(integers, ""));
  return integers;
}

int64_t evaluate_product(std::string_view product, const ConfigIntegers& integers) {
  int64_t value = 1;
  while (!product.empty()) {
    const size_t star = product.find(" * ");
    const std::string_view factor = product.substr(0, star);
    product = star == std::string_view::npos ? std::string_view() : product.substr(star + 3);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(factor.data(), factor.data() + factor.size(), number);
    if (error != std::errc() || end != factor.data() + factor.size()) {
      const auto field = integers.find(factor);
      TORCH_INTERNAL_ASSERT(field != integers.end(), "the plan names the config field ", std::string(factor),
                            ", which has no value");
      number = field->second;
    }
    value *= number;
  }
  return value;
}

}  // namespace modular
