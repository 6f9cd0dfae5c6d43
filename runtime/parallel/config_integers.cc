#include "runtime/parallel/config_integers.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <functional>

namespace modular {
namespace {

/// Calls visit(name, value) for each integer.
class IntegerFields final : public FieldVisitor {
 public:
  using Visit = std::function<void(const std::string& name, int64_t& value)>;
  explicit IntegerFields(Visit visit, std::string prefix = {}) : visit_(std::move(visit)), prefix_(std::move(prefix)) {}
  void operator()(std::string_view name, int64_t& value) override { visit_(prefix_ + std::string(name), value); }
  void operator()(std::string_view name, std::optional<int64_t>& value) override {
    if (value) (*this)(name, *value);
  }
  void operator()(std::string_view name, IntegerOrString& value) override {
    if (auto* integer = std::get_if<int64_t>(&value)) (*this)(name, *integer);
  }
  void operator()(std::string_view name, std::optional<IntegerOrString>& value) override {
    if (value) (*this)(name, *value);
  }
  void nested(std::string_view name, NestedConfig& config) override {
    IntegerFields inner(visit_, prefix_ + std::string(name) + ".");
    config.fields(inner);
  }
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, std::optional<bool>&) override {}
  void operator()(std::string_view, std::optional<double>&) override {}
  void operator()(std::string_view, std::optional<std::string>&) override {}
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<std::string>&) override {}
  void operator()(std::string_view, std::optional<std::vector<int64_t>>&) override {}
  void operator()(std::string_view, std::optional<std::vector<double>>&) override {}
  void operator()(std::string_view, RopeParameters&) override {}
  void operator()(std::string_view, LayerRopeParameters&) override {}

 private:
  Visit visit_;
  std::string prefix_;
};

}  // namespace

ConfigIntegers config_integers(const AnyConfig& config) {
  ConfigIntegers values;
  IntegerFields fields([&](const std::string& name, int64_t& value) { values.emplace(name, value); });
  config.clone()->fields(fields);
  return values;
}

void set_config_integer(AnyConfig& config, std::string_view field, int64_t value) {
  IntegerFields fields([&](const std::string& name, int64_t& own) { own = name == field ? value : own; });
  config.fields(fields);
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
