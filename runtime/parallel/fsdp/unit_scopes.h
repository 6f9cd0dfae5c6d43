// Profiler scopes for units when no UnitRunner runs them.
#pragma once

#include <ATen/record_function.h>

#include <vector>

#include "runtime/model/fsdp.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {

/// Runs units as plain calls, each in a profiler scope with its name.
class UnitScopes final : public fsdp::Units {
 public:
  /// `units` must outlive this object.
  explicit UnitScopes(const std::vector<ModelUnit>& units) : units_(units) {}

  std::vector<Tensor> run(nn::Module& module, const std::vector<Tensor>& inputs, const Body& body) override {
    RECORD_USER_SCOPE(name_for(module));
    return body(inputs);
  }

 private:
  std::string name_for(const nn::Module& module) const {
    for (const ModelUnit& unit : units_)
      if (unit.module == &module && !unit.name.empty()) return unit.name;
    return module.name();
  }

  const std::vector<ModelUnit>& units_;
};

}  // namespace modular
