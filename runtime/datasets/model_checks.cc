#include "runtime/datasets/model_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <string_view>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
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

/// Whether positions are computed, for any sequence length, instead of looked up.
bool has_rotary_positions(AnyConfig& config) {
  bool has = false;
  config.fields(FieldVisitor([&](std::string_view, const ConfigValue& field) {
    has = has || std::holds_alternative<RopeParameters*>(field) || std::holds_alternative<LayerRopeParameters*>(field);
  }));
  return has;
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

std::optional<int64_t> model_count(const ModelConfig& model, std::string_view name) {
  for (const auto& field : model_fields(*model.config))
    if (const auto* const* value = std::get_if<int64_t*>(&field.value);
        value && field.path == fmt::format("model.config.{}", name))
      return **value;
  return {};
}

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

int64_t vocab_size(const ModelConfig& model) {
  return model_count(model, "vocab_size").value_or(std::numeric_limits<int64_t>::max());
}

int64_t first_position(const ModelConfig& model) {
  const Model built = build_on_meta(*model.entry, *model.config);
  for (const auto& item : built.module->named_modules("", /*include_self=*/false))
    if (const auto* table = item.value()->as<torch::nn::Embedding>();
        table && item.key().ends_with("position_embeddings") && table->options.padding_idx())
      return *table->options.padding_idx() + 1;
  return 0;
}

std::optional<int64_t> longest_sequence(const ModelConfig& model) {
  auto positions = model_count(model, "max_position_embeddings");
  if (!positions) positions = model_count(model, "n_positions");
  if (!positions || has_rotary_positions(*model.config)) return {};
  const Model built = build_on_meta(*model.entry, *model.config);
  const auto is_table = [&](const auto& parameter) {
    return parameter.value().dim() > 1 && parameter.value().size(0) == *positions;
  };
  if (std::ranges::none_of(built.module->named_parameters(), is_table)) return {};
  return *positions - first_position(model);
}

std::string advice_on_positions(const RunConfig& config) {
  const char* const key = model_count(config.network, "n_positions") ? "n_positions" : "max_position_embeddings";
  return fmt::format("write shorter ones{}",
                     config.model.checkpoint.empty()
                         ? fmt::format(", or raise model.config.{}, which defines another model", key)
                         : ", as the checkpoint has no more positions");
}

void check_reading(const RunConfig& config) {
  const auto reject = [&](const char* key, const std::string& sentence) { throw_option_error(config, key, sentence); };
  // Files of these formats are checked when they are opened.
  if (config.reads("examples") || config.reads("parquet") || config.reads("images")) return;
  const auto vocabulary = vocab_size(config.network);
  if (config.reads("bytes") && vocabulary < 256)
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
  if (config.reads("examples") || config.reads("parquet") || config.reads("images")) return;
  const Task& task = *find_task(entry.task);
  if (task.tokens == Task::Tokens::no_targets)
    throw ConfigError(
        fmt::format("{} is for {}, which needs labelled examples, and files of {} have no labels: write examples "
                    "(docs/guide/data.md) and set data.format to \"examples\"",
                    entry.architecture, entry.task, config.data_formats().front()));
  const auto vocabulary = vocab_size(config.network);
  const int64_t least = config.reads("bytes") ? 256 : 0;
  if (const auto masking = config.masking(); masking && (masking->token < least || masking->token >= vocabulary))
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
  const std::pair<const char*, double> settings[] = {
      {"router.aux_loss", aux_loss.value_or(0.0)}, {"router.z_loss", z_loss}, {"router.bias_speed", bias_speed}};
  if (std::ranges::all_of(settings, [](const auto& setting) { return setting.second == 0.0; })) return;
  const std::vector<ModelParameter> parameters = model_parameters(config.network);
  const int64_t experts = expert_count(parameters);
  for (const auto& [key, value] : settings) {
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

}  // namespace modular
