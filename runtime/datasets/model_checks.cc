#include "runtime/datasets/model_checks.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <tuple>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
#include "runtime/data/masking.h"
#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

/// Adds all prefixes of a parameter's name as paths, with "*" for numbers if the pattern to compare with has "*".
void add_paths(const std::string& name, bool with_stars, std::vector<std::string>& paths) {
  std::string path;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = name.find('.', begin);
    const std::string part = name.substr(begin, end == std::string::npos ? end : end - begin);
    path += (path.empty() ? "" : ".") + (with_stars && std::isdigit(static_cast<unsigned char>(part[0])) ? "*" : part);
    paths.push_back(path);
  }
}

/// Rejects a path that matches no parameter, and suggests the nearest one that does.
void check_pattern(const RunConfig& config, const char* key, const std::string& pattern,
                   const std::vector<ModelParameter>& parameters) {
  std::vector<std::string> paths;
  for (const ModelParameter& parameter : parameters) {
    if (lies_in_any({pattern}, parameter)) return;
    for (const std::string& name : parameter.names) add_paths(name, pattern.find('*') != std::string::npos, paths);
  }
  const auto nearest = nearest_name(pattern, paths);
  throw_option_error(
      config, key,
      fmt::format("{}: {} has no \"{}\"{}", key, config.network.entry->architecture, pattern,
                  nearest ? fmt::format(": did you mean {}?", *nearest)
                          : fmt::format("; its parameters are called {} and so on, where * is any one part "
                                        "of a name",
                                        parameters.front().name)));
}

}  // namespace

void check_dropout(const RunConfig& config) {
  for (const auto& field : model_fields(*config.network.config)) {
    if (field.path.find("dropout") == std::string::npos && !field.path.ends_with("pdrop")) continue;
    const auto* const* always = std::get_if<double*>(&field.value);
    const auto* const* optional = std::get_if<std::optional<double>*>(&field.value);
    const double value = always ? **always : optional ? (*optional)->value_or(0.0) : 0.0;
    if (!(value >= 0.0 && value < 1.0))
      throw_option_error(
          config, field.path,
          fmt::format("{} is {}: a dropout probability is at least 0 and less than 1", field.path, value));
  }
}

void check_reading(const RunConfig& config) {
  const auto reject = [&](const char* key, const std::string& sentence) { throw_option_error(config, key, sentence); };
  if (config.reads(&DataFormat::holds_samples)) return;  // their files are checked when they are opened
  const auto vocabulary = vocab_size(config.network);
  if (config.reads(&DataFormat::ids_are_bytes) && vocabulary < 256)
    reject("model.config.vocab_size",
           fmt::format("model.config.vocab_size must be at least 256 to read bytes, but is {}", vocabulary));
  const auto longest = longest_sequence(config.network);
  if (!longest || config.train.seq_len <= *longest) return;
  const char* const name = model_count(config.network, "n_positions") ? "n_positions" : "max_position_embeddings";
  const auto positions = *model_count(config.network, name);
  reject("train.seq_len",
         fmt::format("train.seq_len ({}) must not exceed model.config.{} ({}){}", config.train.seq_len, name, positions,
                     *longest == positions
                         ? ", as its positions are a learned table"
                         : fmt::format(" less {}, as positions start after that of padding", positions - *longest)));
}

void check_targets(const RunConfig& config) {
  const Entry& entry = *config.network.entry;
  reject_if(task_error(entry.architecture, entry.task));
  if (config.reads(&DataFormat::holds_samples)) return;
  const Task& task = *find_task(entry.task);
  if (task.tokens == Task::Tokens::no_targets)
    throw ConfigError(
        fmt::format("{} is for {}, which needs labelled examples, and files of {} have no labels: write examples "
                    "(docs/guide/data.md) and set data.format to \"examples\"",
                    entry.architecture, entry.task, config.data_formats().front()));
  const auto vocabulary = vocab_size(config.network);
  const int64_t least = config.reads(&DataFormat::ids_are_bytes) ? 256 : 0;
  if (const auto masking = find_masking(task, config.data);
      masking && (masking->token < least || masking->token >= vocabulary))
    throw_option_error(
        config, "data.mask_token",
        fmt::format("data.mask_token is {}: set it to the id that replaces a masked token, from {} to {} "
                    "(model.config.vocab_size less 1){}",
                    masking->token, least, vocabulary - 1, least > 0 ? "; ids below are bytes" : ""));
}

void check_sampling(const RunConfig& config) {
  if (config.network.entry->task == "causal-lm") return;
  throw_option_error(config, "sample.prompt",
                     fmt::format("{} is for {} and does not continue a text: set sample.prompt to \"\"",
                                 config.network.entry->architecture, config.network.entry->task));
}

void check_router(const RunConfig& config) {
  const auto& [aux_loss, balance, z_loss, bias_speed] = config.router;
  const std::pair<const char*, double> keys[] = {
      {"router.aux_loss", aux_loss.value_or(0.0)}, {"router.z_loss", z_loss}, {"router.bias_speed", bias_speed}};
  if (std::ranges::all_of(keys, [](const auto& setting) { return setting.second == 0.0; })) return;
  const std::vector<ModelParameter> parameters = model_parameters(config.network);
  const int64_t experts = expert_count(parameters);
  for (const auto& [key, value] : keys) {
    if (value == 0.0) continue;
    if (experts == 0)
      throw_option_error(
          config, key,
          fmt::format("{} is {}, and {} has no experts: leave it out", key, value, config.network.entry->architecture));
    const auto is_bias = [&](const ModelParameter& buffer) {
      return !buffer.trainable && buffer.global_shape == std::vector{experts};
    };
    if (std::string_view(key) == "router.bias_speed" && config.network.lora)
      throw_option_error(config, key,
                         fmt::format("{} is {}, which changes biases of the model, and lora.layers freezes everything "
                                     "but adapters: set router.aux_loss instead",
                                     key, value));
    if (std::string_view(key) == "router.bias_speed" && std::ranges::none_of(parameters, is_bias))
      throw_option_error(config, key,
                         fmt::format("{} is {}, and the routers of {} have no bias: set router.aux_loss instead", key,
                                     value, config.network.entry->architecture));
  }
}

void check_sampled_softmax(const RunConfig& config) {
  constexpr const char* kKey = "sampled_softmax.samples";
  const int64_t samples = config.sampled_softmax.samples;
  if (samples == 0) return;
  const Entry& entry = *config.network.entry;
  if (!find_task(entry.task)->samples_classes)
    throw_option_error(config, kKey,
                       fmt::format("{} is {}, which is for session models, and {} is for {}: leave it out", kKey,
                                   samples, entry.architecture, entry.task));
  const int64_t items = vocab_size(config.network) - 1;
  if (samples >= items)
    throw_option_error(
        config, kKey,
        fmt::format(
            "{} is {}, and there are {} items without padding: set it to fewer, or to 0 for a loss over all items",
            kKey, samples, items));
  if (!config.network.lora) return;
  for (const ModelParameter& parameter : model_parameters(config.network)) {
    const AdaptedLayer* const layer = config.network.lora->find_weight(parameter.name);
    if (layer && parameter.global_shape[0] == items + 1)
      throw_option_error(
          config, kKey,
          fmt::format("{} is {}, which looks up rows of {}, and lora.layers adapts that layer: leave one of "
                      "the two out",
                      kKey, samples, layer->name));
  }
}

void check_new_head(const RunConfig& config) {
  if (!config.network.lora) return;
  for (const std::string& name : new_parameters(config.model.checkpoint, config.network)) {
    const auto holds_it = [&](const std::string& pattern) { return lies_in(pattern, name); };
    if (std::ranges::none_of(config.lora.trained, holds_it))
      throw_option_error(config, "lora.layers",
                         fmt::format("model.checkpoint has no \"{}\", and lora.layers trains only adapters, so that it "
                                     "would keep its random initial values: add it to lora.trained",
                                     name));
  }
}

void check_float8(const RunConfig& config, const std::vector<ModelParameter>& parameters) {
  if (config.parallel.float8.empty()) return;
  const Model model = build_on_meta(*config.network.entry, *config.network.config);
  for (const std::string& pattern : config.parallel.float8) {
    check_pattern(config, "parallel.float8", pattern, parameters);
    if (float8_layers(*model.module, {pattern}).empty())
      throw_option_error(
          config, "parallel.float8",
          fmt::format(
              "parallel.float8 has \"{}\", where {} has no linear layer with sizes divisible by {}: leave it out",
              pattern, config.network.entry->architecture, kFloat8Multiple));
  }
}

void check_named_parameters(const RunConfig& config) {
  const auto& [frozen, groups] = std::tie(config.optim.frozen, config.optim.groups);
  const std::vector<std::string>& trained = config.lora.trained;
  if (frozen.empty() && groups.empty() && trained.empty() && config.parallel.float8.empty()) return;
  std::vector<ModelParameter> parameters = model_parameters(config.network);
  std::erase_if(parameters, [](const ModelParameter& parameter) { return !parameter.trainable; });  // buffers
  for (const std::string& pattern : frozen) check_pattern(config, "optim.frozen", pattern, parameters);
  for (const std::string& pattern : trained) check_pattern(config, "lora.trained", pattern, parameters);
  check_float8(config, parameters);
  for (const ParameterGroup& group : groups)
    for (const std::string& pattern : group.match) check_pattern(config, "optim.groups", pattern, parameters);
  const ParallelOptions options = config.parallel_options();
  freeze(parameters, options.frozen, options.trained);
  std::erase_if(parameters, [](const ModelParameter& parameter) { return !parameter.trainable; });
  if (parameters.empty())
    throw_option_error(config, "optim.frozen", "optim.frozen leaves nothing to train: name fewer modules");
  for (const ParameterGroup& group : groups)
    for (const std::string& pattern : group.match)
      if (std::ranges::none_of(parameters,
                               [&](const ModelParameter& parameter) { return lies_in_any({pattern}, parameter); }))
        throw_option_error(
            config, "optim.groups",
            fmt::format("optim.groups has \"{}\", which matches no trained parameter: leave the group out", pattern));
}

namespace {

// Shape functions of operators that models call before they look at documents, and that libtorch does not implement on
// the meta device.
at::Tensor abs_on_meta(const at::Tensor& input) { return at::empty_like(input); }

at::Tensor where_on_meta(const at::Tensor& condition, const at::Tensor& one, const at::Tensor& other) {
  const auto shape = at::infer_size(at::infer_size(condition.sizes(), one.sizes()), other.sizes());
  return at::empty(shape, one.options().dtype(at::result_type(one, other)));
}

at::Tensor index_select_on_meta(const at::Tensor& from, int64_t dim, const at::Tensor& index) {
  auto shape = from.sizes().vec();
  shape.at(static_cast<size_t>(at::maybe_wrap_dim(dim, from.dim()))) = index.numel();
  return at::empty(shape, from.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_on_meta(const at::Tensor& input, c10::SymIntArrayRef shape,
                                                                  const std::optional<at::Tensor>& /*weight*/,
                                                                  const std::optional<at::Tensor>& /*bias*/,
                                                                  double /*eps*/) {
  auto of_mean = input.sizes().vec();
  std::fill(of_mean.end() - static_cast<std::ptrdiff_t>(shape.size()), of_mean.end(), 1);
  return {at::empty_like(input), at::empty(of_mean, input.options()), at::empty(of_mean, input.options())};
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("abs", &abs_on_meta);
  library.impl("where.self", &where_on_meta);
  library.impl("index_select", &index_select_on_meta);
  library.impl("native_layer_norm", &layer_norm_on_meta);
}

bool has_state_spaces(const Model& model, const Plan& plan) {
  return std::ranges::any_of(model.module->named_parameters(), [&](const auto& parameter) {
    return std::ranges::any_of(plan.rates,
                               [&](const std::string& pattern) { return matches(pattern, parameter.key()); });
  });
}

/// Whether the model's attention uses document ids. If so, it rejects document ids of another shape than the tokens,
/// which the meta device reveals without allocating values.
bool tells_documents_apart(Model& model) {
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kLong);
  Batch batch;
  batch.input_ids = at::empty({1, 2}, options);
  batch.documents = at::empty({1, 3}, options);
  const at::NoGradGuard no_grad;
  try {
    model.forward(batch);
  } catch (const c10::Error& error) {
    return std::string_view(error.what()).find("documents of shape") != std::string_view::npos;
  }
  return false;
}

}  // namespace

PackingError packing_error(const RunConfig& config) {
  if (!config.data.pack) return {};
  for (const std::string& format : config.data_formats())
    if (has_property(format, &DataFormat::has_rows))
      return {
          "data.pack",
          fmt::format("data.pack is for texts, and data.format is \"{}\", whose files define the rows: leave it out",
                      format)};
  if (const int64_t ids = vocab_size(config.network); config.data.end_of_text >= ids)
    return {"data.end_of_text", fmt::format("data.end_of_text is {}, and model.config.vocab_size {}: set it to the id "
                                            "of the token that ends a document",
                                            config.data.end_of_text, ids)};
  Model model = build_on_meta(*config.network.entry, *config.network.config);
  const char* const fault = has_state_spaces(model, *config.network.entry->plan)
                                ? "states continue from one document of a row into the next"
                            : !tells_documents_apart(model) ? "attention is not known to mask across documents of a row"
                                                            : nullptr;
  if (!fault) return {};
  return {"data.pack", fmt::format("data.pack is for models that process each document of a row by itself, and {}'s "
                                   "{}: leave it out, or train another model",
                                   config.network.entry->architecture, fault)};
}

}  // namespace modular
