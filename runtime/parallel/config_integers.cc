#include "runtime/parallel/config_integers.h"

#include <c10/util/Exception.h>

#include <charconv>

namespace modular {
namespace {

class IntegerFields final : public FieldVisitor {
 public:
  ConfigIntegers values;
  explicit IntegerFields(std::string prefix = {}) : prefix_(std::move(prefix)) {}
  void operator()(std::string_view name, int64_t& value) override {
    values.emplace(prefix_ + std::string(name), value);
  }
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
    IntegerFields inner(prefix_ + std::string(name) + ".");
    config.fields(inner);
    values.merge(inner.values);
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
  std::string prefix_;
};

}  // namespace

ConfigIntegers config_integers(const AnyConfig& config) {
  IntegerFields fields;
  config.clone()->fields(fields);
  return std::move(fields.values);
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
