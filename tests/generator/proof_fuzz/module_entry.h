// Registry of a program of random modules. It replaces the runtime's registry, which would dominate the compilation
// time of a small module.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "checks/execute/contract_in_double.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular::testing {

struct ModuleEntry {
  std::string_view family;
  const Plan* plan;
  ConfigIntegers integers;  // integers of its config
  std::shared_ptr<nn::Module> (*make)();
  Outputs (*forward)(nn::Module&, const Batch&);
};

inline std::vector<ModuleEntry>& module_entries() {
  static std::vector<ModuleEntry> registered;
  return registered;
}

}  // namespace modular::testing

namespace modular {

/// Like register_entry; modules.py defines the fields of a config.
template <class Holder, class Config>
bool register_module_entry(std::string_view family, std::string_view, std::string_view, std::string_view,
                           const Plan& plan) {
  using Class = typename Holder::ContainedType;
  const Config config;
  testing::module_entries().push_back(
      {family,
       &plan,
       {{"vocab_size", config.vocab_size},
        {"hidden_size", config.hidden_size},
        {"intermediate_size", config.intermediate_size},
        {"num_heads", config.num_heads},
        {"head_dim", config.head_dim},
        {"num_layers", config.num_layers}},
       []() -> std::shared_ptr<nn::Module> { return std::make_shared<Class>(Config()); },
       [](nn::Module& module, const Batch& batch) { return dynamic_cast<Class&>(module).forward(batch); }});
  return true;
}

}  // namespace modular
