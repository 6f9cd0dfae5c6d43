// The entries that a program's generated files register: the models that the runtime can build and train.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/embedding_head.h"
#include "runtime/model/module.h"
#include "runtime/model/plan.h"
#include "runtime/model/stored_as.h"
#include "runtime/model/tasks.h"

namespace modular {

/// A built entry.
struct Model {
  std::shared_ptr<nn::Module> module;
  std::function<Outputs(const Batch&)> forward;
};

/// A class that can be trained, with everything that is known before it is built.
struct Entry {
  std::string_view family;        // "llama"
  std::string_view architecture;  // "LlamaForCausalLM", as in config.json's "architectures"
  std::string_view task;          // "causal-lm"
  std::string_view model_type;    // "llama", as in config.json
  const Plan* plan;
  std::vector<StoredAs> stored_as;  // state-dict mapping of parameters that transformers names or splits differently
  std::function<std::unique_ptr<AnyConfig>()> make_config;  // with the family's defaults
  std::function<Model(const AnyConfig&)> make;  // on the current default device, or on meta under the runtime's guard
};

/// The entries that the program's generated files have registered.
inline std::vector<Entry>& entries() {
  static std::vector<Entry> registered;
  return registered;
}

/// The name of the EmbeddingHead module of sentence entries.
inline constexpr const char* kEmbeddingLayers = "embedding_layers";

namespace detail {

template <class Holder, class Config>
void set_factories(Entry& entry) {
  entry.make_config = [] { return std::make_unique<ConfigOf<Config>>(); };
  entry.make = [](const AnyConfig& config) {
    Holder holder(dynamic_cast<const ConfigOf<Config>&>(config).value);
    return Model{holder.ptr(), [module = holder.ptr()](const Batch& batch) { return module->forward(batch); }};
  };
}

/// Adds an EmbeddingHead to the config, the plan and the models of a sentence entry.
template <class Holder, class Config>
void set_sentence_factories(Entry& entry, bool keeps_size) {
  using WithHead = ConfigOf<EmbeddingConfig<Config>>;
  static const Plan plan = [&] {
    Plan with_head = *entry.plan;
    with_head.last.push_back(kEmbeddingLayers);
    return with_head;
  }();
  entry.plan = &plan;
  entry.make_config = [keeps_size] {
    auto config = std::make_unique<WithHead>();
    config->value.keeps_size = keeps_size;
    return config;
  };
  entry.make = [](const AnyConfig& any) {
    const EmbeddingConfig<Config>& config = dynamic_cast<const WithHead&>(any).value;
    Holder holder(static_cast<const Config&>(config));
    EmbeddingHead head(config.head, config.hidden_states_size());
    holder->register_module(kEmbeddingLayers, head);
    return Model{holder.ptr(), [module = holder.ptr(), head = head.ptr()](const Batch& batch) {
                   Batch read = batch;
                   read.embedding_head = head.get();
                   return module->forward(read);
                 }};
  };
}

}  // namespace detail

/// Registers entry class `Holder`, built from `Config`. The return value only serves to call this from a static
/// initializer.
template <class Holder, class Config>
bool register_entry(std::string_view family, std::string_view architecture, std::string_view task,
                    std::string_view model_type, const Plan& plan) {
  Entry entry{family, architecture, task, model_type, &plan, {}, {}, {}};
  if constexpr (requires { Config::stored_as(); }) entry.stored_as = Config::stored_as();
  constexpr bool has_size = requires(Config config) { config.hidden_size; } ||
                            requires(Config config) { config.d_model; } || requires(Config config) { config.dim; };
  const Task* const known = find_task(task);
  if constexpr (has_size) {
    if (known && known->texts != 1)
      detail::set_sentence_factories<Holder, Config>(entry, known->texts != kAnyTexts);
    else
      detail::set_factories<Holder, Config>(entry);
  } else {
    detail::set_factories<Holder, Config>(entry);
  }
  entries().push_back(std::move(entry));
  return true;
}

}  // namespace modular
