#include "runtime/checkpoint/peft_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/pretrained_files.h"

namespace modular {
namespace {

/// PEFT's names of the tasks for which it has a class of its own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPeftTasks = {{
    {"causal-lm", "CAUSAL_LM"},
    {"seq2seq", "SEQ_2_SEQ_LM"},
    {"sequence-classification", "SEQ_CLS"},
    {"token-classification", "TOKEN_CLS"},
    {"sentence-embedding", "FEATURE_EXTRACTION"},
}};

/// Models whose modules have other names in transformers than in the files' tensors, so that PEFT would not find them.
constexpr std::array<std::string_view, 3> kRenamedModels = {"llava", "dinov2", "vit"};

/// Models in which PEFT mistakes layers of these names for fused experts, and drops them.
constexpr std::array<std::string_view, 3> kFusedModels = {"deepseek_v2", "deepseek_v3", "qwen3_moe"};
constexpr std::array<std::string_view, 3> kFusedLayers = {".gate_proj", ".up_proj", ".down_proj"};

}  // namespace

std::string_view to_peft_task(std::string_view task) {
  const auto* const found = std::ranges::find(kPeftTasks, task, &std::pair<std::string_view, std::string_view>::first);
  return found == kPeftTasks.end() ? std::string_view() : found->second;
}

std::string_view task_of_peft(std::string_view peft_task) {
  const auto* const found =
      std::ranges::find(kPeftTasks, peft_task, &std::pair<std::string_view, std::string_view>::second);
  return found == kPeftTasks.end() ? std::string_view() : found->first;
}

std::string peft_names_error(const AdaptedEntry& lora) {
  const std::string_view type = lora.base->model_type;
  if (std::ranges::find(kRenamedModels, type) != kRenamedModels.end())
    return fmt::format(
        "the modules of {} have other names in transformers than in its files, so PEFT would not find them",
        lora.base->architecture);
  if (std::ranges::find(kFusedModels, type) == kFusedModels.end()) return {};
  for (const AdaptedLayer& layer : lora.layers)
    if (std::ranges::any_of(kFusedLayers, [&](std::string_view name) { return layer.name.ends_with(name); }))
      return fmt::format("PEFT mistakes {} of {} for a part of fused experts, and drops its adapter", layer.name,
                         lora.base->architecture);
  return {};
}

std::string to_peft_module(const Entry& entry, const std::string& parameter, const std::vector<int64_t>& shape) {
  const std::vector<StateDictPiece> pieces = state_dict_pieces(entry, parameter, shape);
  const size_t dot = pieces[0].name.rfind('.');
  if (pieces.size() != 1 || pieces[0].parts != 1 || pieces[0].file_shape != shape || dot == std::string::npos)
    return {};
  return pieces[0].name.substr(0, dot);
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Keys about how adapters were made or are stored, which do not affect their output: layers and ranks follow from
/// adapter_model.safetensors. Any other key has to be absent, null, false or empty.
constexpr std::array kOtherKeys = {
    "auto_mapping",        "base_model_name_or_path",
    "corda_config",        "ensure_weight_tying",
    "eva_config",          "exclude_modules",
    "fan_in_fan_out",  // true for GPT-2's layers; the value is ignored
    "inference_mode",      "layers_pattern",
    "layers_to_transform", "loftq_config",
    "lora_alpha",          "lora_dropout",
    "lora_ga_config",      "megatron_config",
    "megatron_core",       "modules_to_save",
    "peft_type",           "peft_version",
    "qalora_group_size",   "r",
    "rank_pattern",        "revision",
    "runtime_config",      "target_modules",
    "task_type",           "use_rslora",
    "alpha_pattern",       "trainable_token_indices",
};

/// Initializations of A and B that leave the base unchanged.
constexpr std::array kNeutralInits = {"gaussian", "eva", "orthogonal"};

bool is_neutral(const json& value) { return value.is_null() || value == false || value.empty() || value == "none"; }

class PeftReader {
 public:
  PeftReader(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void reject(const std::string& key, const std::string& what) const {
    throw ConfigError(fmt::format("{}: \"{}\" is {}: {}", where_, key, shown(value(key)), what));
  }

  json value(const std::string& key) const { return object_.value(key, json()); }

  double number(const std::string& key, double fallback, double least, double below) const {
    const json found = value(key);
    if (found.is_null()) return fallback;
    if (!found.is_number() || !(found.get<double>() >= least && found.get<double>() < below))
      reject(key, fmt::format("write a number of at least {} and less than {}", least, below));
    return found.get<double>();
  }

  std::string text(const std::string& key) const {
    const json found = value(key);
    if (!found.is_null() && !found.is_string()) reject(key, "write a string");
    return found.is_null() ? std::string() : found.get<std::string>();
  }

  std::vector<std::string> texts(const std::string& key) const {
    const json found = value(key);
    if (found.is_null()) return {};
    if (!found.is_array() || !std::ranges::all_of(found, [](const json& element) { return element.is_string(); }))
      reject(key, "write a list of names");
    return found.get<std::vector<std::string>>();
  }

 private:
  const json& object_;
  std::string where_;
};

/// Whether PEFT matches the module by that key of a pattern: its path, or the end of its path.
bool matches_module(const std::string& key, const std::string& module) {
  if (key.starts_with('^')) return module == key.substr(1);
  return module == key || module.ends_with("." + key);
}

/// Parses PeftOptions::token_rows.
std::map<std::string, std::vector<int64_t>> get_token_rows(const PeftReader& reader) {
  constexpr const char* kKey = "trainable_token_indices";
  const json found = reader.value(kKey);
  if (is_neutral(found)) return {};
  const json by_module = found.is_object() ? found : json::object({{"", found}});
  std::map<std::string, std::vector<int64_t>> rows;
  for (const auto& [module, ids] : by_module.items()) {
    const auto is_id = [](const json& id) { return id.is_number_integer() && id >= 0; };
    if (!ids.is_array() || !std::ranges::all_of(ids, is_id))
      reader.reject(kKey, "write a list of ids, or an object of such lists by module");
    rows[module] = ids.get<std::vector<int64_t>>();
    if (std::set(rows[module].begin(), rows[module].end()).size() != ids.size())
      reader.reject(kKey, "an id occurs twice: list each once");
  }
  return rows;
}

void check_keys(const PeftReader& reader, const json& object) {
  if (reader.value("peft_type") != "LORA") reader.reject("peft_type", "only adapters of type \"LORA\" are supported");
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kOtherKeys, key) != kOtherKeys.end() || is_neutral(value)) continue;
    if (key == "init_lora_weights") {
      if (value.is_boolean() || std::ranges::find(kNeutralInits, value) != kNeutralInits.end()) continue;
      reader.reject(key,
                    "it changes the base's weights, which is not supported: convert the adapter with PEFT "
                    "(path_initial_model_for_weight_conversion)");
    }
    reader.reject(
        key,
        "adapters with this option are not supported: merge the adapter into its base with PEFT (merge_and_unload)");
  }
}

}  // namespace

PeftOptions read_peft_options(const fs::path& folder) {
  const fs::path path = folder / kPeftConfig;
  const json object = parse_json(read_config_text(path));
  if (!object.is_object()) throw ConfigError(fmt::format("{} is not a JSON object", path.string()));
  const PeftReader reader(object, path.string());
  check_keys(reader, object);
  PeftOptions options;
  options.where = path.string();
  options.base = reader.text("base_model_name_or_path");
  options.modules_to_save = reader.texts("modules_to_save");
  std::erase(options.modules_to_save, "");
  options.lora.alpha = reader.number("lora_alpha", 8.0, 1e-300, 1e300);
  options.lora.dropout = reader.number("lora_dropout", 0.0, 0.0, 1.0);
  if (reader.value("target_modules").is_array()) options.lora.layers = reader.texts("target_modules");
  if (reader.value("target_modules") == "all-linear") options.lora.layers = {"all-linear"};
  std::erase(options.lora.layers, "");
  const json by_root = reader.value("use_rslora");
  if (!by_root.is_null() && !by_root.is_boolean()) reader.reject("use_rslora", "write true or false");
  options.by_root = by_root == true;
  if (const std::string task = reader.text("task_type"); !task.empty()) {
    options.task = task_of_peft(task);
    if (options.task.empty()) reader.reject("task_type", "this program has no models for it");
  }
  const json alphas = reader.value("alpha_pattern");
  if (!alphas.is_null() && !alphas.is_object()) reader.reject("alpha_pattern", "write an object of numbers by layer");
  for (const auto& [key, value] : alphas.items()) {
    if (!value.is_number()) reader.reject("alpha_pattern", "write an object of numbers by layer");
    const bool is_path = std::ranges::all_of(key.starts_with('^') ? key.substr(1) : key, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    });
    if (!is_path)
      reader.reject("alpha_pattern", fmt::format("\"{}\" is a regular expression: write the paths of layers", key));
    options.alphas[key] = value.get<double>();
  }
  options.token_rows = get_token_rows(reader);
  return options;
}

const std::string* token_rows_key(const PeftOptions& options, const std::string& module) {
  for (const auto& [key, ids] : options.token_rows)
    // Either path may have the base model's prefix.
    if (key.empty() || matches_module(key, module) || matches_module(module, key)) return &key;
  return nullptr;
}

void set_rank_and_alpha(PeftOptions& options, const std::vector<std::pair<std::string, int64_t>>& ranks) {
  std::optional<double> scaling;
  options.lora.rank = ranks.at(0).second;
  for (const auto& [module, rank] : ranks) {
    if (rank != options.lora.rank || rank < 1)
      throw ConfigError(fmt::format(
          "{}: \"rank_pattern\" gives {} the rank {} and {} the rank {}: only one rank for all layers is supported",
          options.where, ranks[0].first, options.lora.rank, module, rank));
    std::optional<double> own;
    for (const auto& [key, value] : options.alphas) {
      if (!matches_module(key, module)) continue;
      if (own.value_or(value) != value)
        throw ConfigError(fmt::format("{}: \"alpha_pattern\" has several values for {}", options.where, module));
      own = value;
    }
    const double alpha = own.value_or(options.lora.alpha);
    if (scaling && *scaling != alpha)
      throw ConfigError(fmt::format(
          "{}: \"alpha_pattern\" gives {} the alpha {} and {} {}: only one alpha for all layers is supported",
          options.where, ranks[0].first, *scaling, module, alpha));
    scaling = alpha;
  }
  const double rank = static_cast<double>(options.lora.rank);
  options.lora.alpha = options.by_root ? *scaling * std::sqrt(rank) : *scaling;
}

}  // namespace modular
