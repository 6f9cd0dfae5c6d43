// The entries that the generated files of a program register: what the runtime can build and train.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/module.h"
#include "runtime/model/plan.h"
#include "runtime/model/stored_as.h"

namespace modular {

/// An entry that has been built.
struct Model {
  std::shared_ptr<nn::Module> module;
  std::function<Outputs(const Batch&)> forward;
};

/// A class that can be trained, with everything that is known of it before it is built.
struct Entry {
  std::string_view family;        // "llama"
  std::string_view architecture;  // "LlamaForCausalLM", as in config.json's "architectures"
  std::string_view task;          // "causal-lm"
  std::string_view model_type;    // "llama", as in config.json
  const Plan* plan;
  std::vector<StoredAs> stored_as;  // parameters that checkpoint files of transformers name or cut otherwise
  std::function<std::unique_ptr<AnyConfig>()> make_config;  // with the family's defaults
  std::function<Model(const AnyConfig&)> make;  // on the current default device, or on meta under the runtime's guard
};

/// The entries that the program's generated files have registered.
inline std::vector<Entry>& entries() {
  static std::vector<Entry> registered;
  return registered;
}

/// Registers entry class `Holder`, built from `Config`. Its value only gives a static initializer something to
/// initialize.
template <class Holder, class Config>
bool register_entry(std::string_view family, std::string_view architecture, std::string_view task,
                    std::string_view model_type, const Plan& plan) {
  std::vector<StoredAs> stored_as;
  if constexpr (requires { Config::stored_as(); }) stored_as = Config::stored_as();
  entries().push_back({family, architecture, task, model_type, &plan, std::move(stored_as),
                       [] { return std::make_unique<ConfigOf<Config>>(); },
                       [](const AnyConfig& config) {
                         Holder holder(dynamic_cast<const ConfigOf<Config>&>(config).value);
                         return Model{holder.ptr(),
                                      [module = holder.ptr()](const Batch& batch) { return module->forward(batch); }};
                       }});
  return true;
}

}  // namespace modular
