#include "runtime/checkpoint/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/peft_options.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/checkpoint/tokenizer_files.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Path of the transformers module that has the parameter of full shape `shape`.
std::string get_module(const Entry& entry, const std::string& parameter, const std::vector<int64_t>& shape) {
  std::string module = to_peft_module(entry, parameter, shape);
  if (module.empty())
    throw std::runtime_error(fmt::format(
        "transformers splits \"{}\" of {} differently from this model, so PEFT cannot add an adapter to it: "
        "export the merged weights",
        parameter, entry.architecture));
  return module;
}

/// A PEFT file's names for the parameters that it holds.
struct AdapterNames {
  std::vector<std::pair<std::string, const ModelParameter*>> tensors;
  std::vector<std::string> layers;                         // modules that have adapters
  std::set<std::string> trained;                           // modules that are trained in full
  std::map<std::string, std::vector<int64_t>> token_rows;  // ids of trained rows, by module
};

/// Rows of a parameter in a PEFT file.
struct TokenRows {
  std::string name;  // tensor name in the file
  const ModelParameter* parameter;
  const std::vector<int64_t>* ids;
};

/// The rows of model.token_rows.
std::vector<TokenRows> token_rows(AdapterNames& names, const ModelConfig& model,
                                  const std::vector<ModelParameter>& parameters) {
  std::vector<TokenRows> rows;
  for (const auto& [name, ids] : model.token_rows) {
    const auto found = std::ranges::find(parameters, name, &ModelParameter::name);
    const bool is_table = found != parameters.end() && found->global_shape.size() == 2;
    if (!is_table || std::ranges::any_of(ids, [&](int64_t id) { return id >= found->global_shape[0]; }))
      throw std::runtime_error(fmt::format("{}: \"token_rows\" has rows of \"{}\", which {} does not have",
                                           model.source, name, model.entry->architecture));
    const std::string module = get_module(*model.entry, name, found->global_shape);
    names.token_rows[module] = ids;
    rows.push_back({fmt::format("{}{}{}{}", kPeftPrefix, module, kPeftTokenAdapter, kPeftTokenRows), &*found, &ids});
  }
  return rows;
}

AdapterNames adapter_names(const ModelConfig& model, const std::vector<ModelParameter>& parameters) {
  AdapterNames names;
  const auto find = [&](const std::string& name) {
    return &*std::ranges::find(parameters, name, &ModelParameter::name);
  };
  for (const AdaptedLayer& layer : model.lora->layers) {
    const std::string weight = layer.name + ".weight";
    names.layers.push_back(get_module(*model.entry, weight, find(weight)->global_shape));
    for (const auto& [parameter, matrix] : {std::pair(layer.a(), "lora_A"), std::pair(layer.b(), "lora_B")})
      names.tensors.emplace_back(fmt::format("{}{}.{}.weight", kPeftPrefix, names.layers.back(), matrix),
                                 find(parameter));
  }
  for (const ModelParameter& parameter : parameters) {
    if (is_adapter(parameter.name) || !lies_in_any(model.lora->options.trained, parameter)) continue;
    if (parameter.names.size() > 1)
      throw std::runtime_error(
          fmt::format("lora.trained has \"{}\", which is tied to \"{}\", and PEFT would change only one of the two: "
                      "export the merged weights",
                      parameter.names[0], parameter.names[1]));
    const std::string module = get_module(*model.entry, parameter.name, parameter.global_shape);
    if (std::ranges::find(names.layers, module) != names.layers.end())
      throw std::runtime_error(fmt::format(
          "{} has an adapter and was also trained in full, which PEFT does not support: export the merged weights",
          module));
    names.trained.insert(module);
  }
  // PEFT expects all parameters of such a module.
  for (const ModelParameter& parameter : parameters) {
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    if (is_adapter(parameter.name) || !names.trained.contains(module)) continue;
    names.tensors.emplace_back(fmt::format("{}{}", kPeftPrefix, parameter.name), &parameter);
  }
  return names;
}

/// Adds the tables and heads that have more rows than the base's: PEFT saves them in full, although they were not
/// trained.
void add_grown_tables(AdapterNames& names, const ModelConfig& model, const std::vector<ModelParameter>& parameters,
                      const fs::path& base) {
  if (!fs::is_regular_file(transformer_folder(base) / "config.json") || vocabulary_rows(model) == 0) return;
  const int64_t rows = vocabulary_rows(read_config(base, model.entry));
  if (rows == vocabulary_rows(model)) return;
  const std::vector<ModelParameter> base_parameters = model_parameters(with_vocabulary_rows(model, rows));
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ModelParameter& parameter = parameters[i];
    if (parameter.global_shape == base_parameters[i].global_shape) continue;
    for (const std::string& name : parameter.names) {
      const std::string module = get_module(*model.entry, name, parameter.global_shape);
      const std::string wrapper =
          model.token_rows.contains(parameter.name) ? fmt::format("{}.base_layer", kPeftTokenAdapter) : std::string();
      if (!names.trained.contains(module))
        names.tensors.emplace_back(fmt::format("{}{}{}{}", kPeftPrefix, module, wrapper, name.substr(name.rfind('.'))),
                                   &parameter);
    }
  }
}

std::string adapter_config(const ModelConfig& model, const AdapterNames& names, const std::string& base_model) {
  const LoraOptions& options = model.lora->options;
  const std::string_view task = to_peft_task(model.entry->task);
  // For a classifier with this task_type, PEFT treats the head as trained, and looks for it under one of two names.
  const auto is_head = [](const std::string& module) {
    const std::string_view name = std::string_view(module).substr(module.rfind('.') + 1);
    return name == "score" || name == "classifier";
  };
  const bool is_plain = task.empty() || (task.ends_with("_CLS") && std::ranges::none_of(names.trained, is_head));
  const json config = {
      {"peft_type", "LORA"},
      {"task_type", is_plain ? json() : json(task)},
      {"base_model_name_or_path", base_model},
      {"r", options.rank},
      {"lora_alpha", options.alpha},
      {"lora_dropout", options.dropout},
      {"target_modules", names.layers},
      {"modules_to_save", names.trained.empty() ? json() : json(names.trained)},
      {"trainable_token_indices", names.token_rows.empty() ? json() : json(names.token_rows)},
      {"fan_in_fan_out", std::ranges::any_of(model.lora->layers, &AdaptedLayer::transposed)},
      {"bias", "none"},
      {"inference_mode", true},
  };
  return config.dump(2) + "\n";
}

}  // namespace

void read_merged_slice(const std::string& name, const StoredTensors& stored, const AdaptedEntry* lora,
                       at::IntArrayRef offset, at::Tensor into) {
  const AdaptedLayer* const layer = lora ? lora->find_weight(name) : nullptr;
  if (!layer) return read_slice(name, stored.at(name), offset, into);
  const at::NoGradGuard no_grad;
  at::Tensor merged = at::empty(into.sizes(), at::kFloat);
  read_slice(name, stored.at(name), offset, merged);
  const int64_t out = layer->transposed ? 1 : 0, in = 1 - out, rank = lora->options.rank;
  at::Tensor a = at::empty({rank, into.size(in)}, at::kFloat), b = at::empty({into.size(out), rank}, at::kFloat);
  read_slice(layer->a(), stored.at(layer->a()), {0, offset[static_cast<size_t>(in)]}, a);
  read_slice(layer->b(), stored.at(layer->b()), {offset[static_cast<size_t>(out)], 0}, b);
  const at::Tensor product = b.mm(a).mul_(lora->scaling());
  into.copy_(merged.add_(layer->transposed ? product.t() : product));
}

void export_adapters(const fs::path& checkpoint, const fs::path& folder, const std::string& base_model) {
  const ModelConfig model = read_pretrained_config(checkpoint);
  if (!model.lora)
    throw std::runtime_error(
        fmt::format("{} holds no adapters: leave --adapter out, or train with lora.layers", checkpoint.string()));
  if (const std::string error = peft_names_error(*model.lora); !error.empty())
    throw std::runtime_error(error + ": export the merged weights");
  const StoredTensors stored = open_parameters(checkpoint, model);
  const std::vector<ModelParameter> parameters = model_parameters(model);
  AdapterNames names = adapter_names(model, parameters);
  add_grown_tables(names, model, parameters, base_model);
  const std::vector<TokenRows> rows = token_rows(names, model, parameters);
  reject_existing(folder);
  NewFolder exported(folder);
  const fs::path& partial = exported.partial();
  std::vector<SafetensorsWriter::Tensor> headers;
  for (const auto& [name, parameter] : names.tensors) headers.push_back({name, at::kFloat, parameter->global_shape});
  for (const TokenRows& table : rows)
    headers.push_back({table.name, at::kFloat, {std::ssize(*table.ids), table.parameter->global_shape[1]}});
  auto writer = SafetensorsWriter::create(partial / kPeftWeights, headers, {{"format", "pt"}});
  for (const auto& [name, parameter] : names.tensors)
    writer.write(name, read_full(parameter->name, stored.at(parameter->name), at::kFloat));
  for (const TokenRows& table : rows) {
    const std::string& name = table.parameter->name;
    at::Tensor values = at::empty({std::ssize(*table.ids), table.parameter->global_shape[1]}, at::kFloat);
    for (int64_t i = 0; i < values.size(0); ++i)
      read_slice(name, stored.at(name), {(*table.ids)[static_cast<size_t>(i)], 0}, values.narrow(0, i, 1));
    writer.write(table.name, values);
  }
  writer.close();
  write_file(partial / kPeftConfig, adapter_config(model, names, base_model));
  if (const fs::path tokenizer = tokenizer_of_weights(checkpoint); !tokenizer.empty())
    copy_tokenizer(tokenizer, partial);
  exported.publish();
}

}  // namespace modular
