#include "runtime/parallel/parameters/config_integers.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <functional>

namespace modular {
namespace {

using VisitInteger = std::function<void(const std::string& path, int64_t& value)>;

/// Returns a visitor that calls visit(path, value) for each integer field; `prefix` is prepended to the paths.
FieldVisitor each_integer(const VisitInteger& visit, const std::string& prefix = {}) {
  return FieldVisitor([visit, prefix](std::string_view name, const ConfigValue& field) {
    const std::string path = prefix + std::string(name);
    if (const auto* value = std::get_if<int64_t*>(&field)) {
      visit(path, **value);
    } else if (const auto* given = std::get_if<std::optional<int64_t>*>(&field); given && **given) {
      visit(path, ***given);
    } else if (const auto* either = std::get_if<IntegerOrString*>(&field)) {
      if (auto* integer = std::get_if<int64_t>(*either)) visit(path, *integer);
    } else if (const auto* some = std::get_if<std::optional<IntegerOrString>*>(&field); some && **some) {
      if (auto* integer = std::get_if<int64_t>(&***some)) visit(path, *integer);
    } else if (const auto* nested = std::get_if<NestedConfig*>(&field)) {
      (*nested)->fields(each_integer(visit, path + "."));
    }
  });
}

}  // namespace

ConfigIntegers config_integers(const AnyConfig& config) {
  ConfigIntegers integers;
  config.clone()->fields(each_integer([&](const std::string& path, int64_t& value) { integers.emplace(path, value); }));
  return integers;
}

void set_config_integer(AnyConfig& config, std::string_view field, int64_t value) {
  config.fields(each_integer([&](const std::string& path, int64_t& own) { own = path == field ? value : own; }));
}

int64_t evaluate_monomial(std::string_view monomial, const ConfigIntegers& integers) {
  int64_t value = 1;
  while (!monomial.empty()) {
    const size_t star = monomial.find(" * ");
    const std::string_view factor = monomial.substr(0, star);
    monomial = star == std::string_view::npos ? std::string_view() : monomial.substr(star + 3);
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
