#include "runtime/checkpoint/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using nlohmann::json;

/// Keys of published config.json files that do not affect the computation here: provenance, generation, and
/// transformers' own switches.
constexpr std::array kIrrelevantKeys = {
    "add_cross_attention",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "dense_act_fn",
    "deterministic_flash_attn",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "is_gated_act",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "num_return_sequences",
    "out_features",
    "out_indices",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "qa_dropout",
    "qk_head_dim",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "sparse_pred_ignore_index",
    "sparse_prediction",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "stage_names",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
    "vision_config.vocab_size",
    "vocab_padding",
};

bool is_irrelevant(const std::string& key) {
  return key.starts_with('_') || std::ranges::find(kIrrelevantKeys, key) != kIrrelevantKeys.end();
}

/// Keys about the file's model as a unit, which are read separately from the fields. A nested config keeps them.
bool is_of_a_file(std::string_view key) {
  return key == "architectures" || key == "model_type" || key == "dtype" || key == "torch_dtype" ||
         key == "quantization_config";
}

void reject_quantized(const json& object, const std::string& where) {
  if (object.contains("quantization_config") && !object["quantization_config"].is_null())
    throw ConfigError(
        fmt::format("{}: \"quantization_config\" says that the weights are quantized, which is not supported: "
                    "use the unquantized checkpoint",
                    where));
  for (const auto& [key, value] : object.items())
    if (value.is_object() && key.ends_with("_config")) reject_quantized(value, fmt::format("{}: {}", where, key));
}

/// First element of an "architectures" list, or an empty string.
std::string named_architecture(const json& object, const std::string& where) {
  const auto found = object.find("architectures");
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_array() || !std::ranges::all_of(*found, [](const json& name) { return name.is_string(); }))
    throw ConfigError(
        fmt::format("{}: \"architectures\" is {}: write a list with a model's name", where, shown(*found)));
  return found->empty() ? std::string() : found->front().get<std::string>();
}

const Entry& find_entry(const json& object, const std::string& where) {
  const std::string architecture = named_architecture(object, where);
  const std::string model_type = object.value("model_type", json()).is_string() ? object["model_type"] : json("");
  for (const Entry& entry : entries())
    if (entry.architecture == architecture) return entry;
  for (const Entry& entry : entries())  // a base model's checkpoint names a class that is not an entry
    if (entry.model_type == model_type) return entry;
  std::vector<std::string_view> known;
  for (const Entry& entry : entries()) known.push_back(entry.architecture);
  throw ConfigError(fmt::format("{}: \"architectures\" names {} and \"model_type\" is {}: this program has {}", where,
                                architecture.empty() ? "nothing" : "\"" + architecture + "\"",
                                model_type.empty() ? "not given" : "\"" + model_type + "\"",
                                known.empty() ? "no models" : fmt::format("{}", fmt::join(known, ", "))));
}

/// A classifier's number of labels is the size of the table of their names.
void count_labels(AnyConfig& config, json& object) {
  const auto names = object.find("id2label");
  if (names == object.end() || !names->is_object() || !fields_as_json(config).contains("num_labels")) return;
  object["num_labels"] = names->size();
}

/// Collects the keys of `object` (those that match no field of a config) that could change the model's output;
/// "text_config.key" for keys of a nested config or of a set of RoPE parameters.
void collect_unknown(const json& object, const json& fields, const std::string& prefix,
                     std::vector<std::string>& unknown) {
  for (const auto& [key, value] : object.items()) {
    const bool is_known_inside = value.is_object() && fields.contains(key) && fields[key].is_object();
    if (is_known_inside)
      collect_unknown(value, fields[key], prefix + key + ".", unknown);
    else if (!is_irrelevant(key) && !is_irrelevant(prefix + key) && (prefix.empty() || !is_of_a_file(key)))
      unknown.push_back(prefix + key);
  }
}

constexpr const char* kLoraKey = "lora";

json lora_as_json(const LoraOptions& options) {
  return {{"layers", options.layers},
          {"rank", options.rank},
          {"alpha", options.alpha},
          {"dropout", options.dropout},
          {"trained", options.trained}};
}

LoraOptions lora_of_json(const json& object, const std::string& where) {
  try {
    LoraOptions options{object.at("layers"), object.at("rank"), object.at("alpha"), object.at("dropout"),
                        object.at("trained")};
    if (object.at("rank").is_number_integer() && !options.layers.empty() && options.rank >= 1 &&
        options.dropout >= 0.0 && options.dropout < 1.0)
      return options;
  } catch (const json::exception&) {
    // Reported below, with the expected contents.
  }
  throw ConfigError(
      fmt::format("{}: \"{}\" is {}: it is written with a run's checkpoint, and is an object of layers, "
                  "rank, alpha, dropout and trained",
                  where, kLoraKey, shown(object)));
}

constexpr const char* kTokenRowsKey = "token_rows";

/// Parses ModelConfig::token_rows from a checkpoint's "lora".
std::map<std::string, std::vector<int64_t>> token_rows_of_json(const json& lora, const std::string& where) {
  const json rows = lora.value(kTokenRowsKey, json::object());
  const auto is_id = [](const json& id) { return id.is_number_integer() && id >= 0; };
  const auto are_ids = [&](const json& ids) { return ids.is_array() && std::ranges::all_of(ids, is_id); };
  if (!rows.is_object() || !std::ranges::all_of(rows, are_ids))
    throw ConfigError(fmt::format(
        "{}: \"{}\" of \"{}\" is {}: it is written with a run's checkpoint, and is an object of lists of ids", where,
        kTokenRowsKey, kLoraKey, shown(rows)));
  return rows;
}

/// The entry for a folder whose config.json names `entry`. The base model of a decoder is a sentence entry only if the
/// folder has modules.json or `pooling`, and a causal LM otherwise.
const Entry& entry_of_folder(const Entry& entry, const json& object, const std::filesystem::path& folder) {
  const auto of_task = [&](std::string_view task) {
    return std::ranges::find_if(
        entries(), [&](const Entry& candidate) { return candidate.family == entry.family && candidate.task == task; });
  };
  const bool has_modules = !folder.empty() && has_sentence_modules(folder);
  if (has_modules && find_task(entry.task)->texts == 1)
    if (const auto found = of_task("sentence-embedding"); found != entries().end()) return *found;
  if (!has_modules && !object.contains("pooling") && entry.task == "sentence-embedding")
    if (const auto found = of_task("causal-lm"); found != entries().end()) return *found;
  return entry;
}

/// Rejects the folder of a Transformer alone: it does not say how the folder around it computes embeddings.
void reject_transformer_alone(const Entry& entry, const std::filesystem::path& folder) {
  if (find_task(entry.task)->texts == 1) return;
  if (const std::filesystem::path around = sentence_folder_around(folder); !around.empty())
    throw ConfigError(
        fmt::format("{} is the Transformer of {}, whose modules.json says how to compute embeddings: name that folder",
                    folder.string(), around.string()));
}

/// Sets the embedding head's fields in `object`, a config.json, from the files of Sentence Transformers.
void set_embedding_head(json& object, AnyConfig& config, const std::filesystem::path& folder) {
  const json fields = fields_as_json(config);
  if (!fields.contains("pooling") || !fields.contains("embedding_layers")) return;
  if (std::optional<EmbeddingHeadConfig> head = read_embedding_head(folder))
    head->fields([&](const char* name, const auto& value) { object[name] = value; });
}

[[noreturn]] void throw_no_config(const std::filesystem::path& folder, const std::filesystem::path& config) {
  if (const std::filesystem::path checkpoint = find_checkpoint(folder); !checkpoint.empty())
    throw ConfigError(fmt::format("{} is a folder of checkpoints, not of a model: name one of them, {}",
                                  folder.string(), checkpoint.string()));
  if (is_there(folder / "config.toml") || std::filesystem::is_directory(folder / "checkpoints"))
    throw ConfigError(
        fmt::format("{} is the folder of a run that has no complete checkpoint: train first, or name other weights",
                    folder.string()));
  throw ConfigError(fmt::format("{} cannot be read: name a folder that holds a model's config.json", config.string()));
}

/// parse_config(), with the files of Sentence Transformers in `folder`, which may be empty.
ModelConfig parse_with(const std::filesystem::path& folder, std::string_view text, const std::string& where,
                       const Entry* as) {
  const std::string plain = with_named_special_floats(text);
  json object = parse_json(plain);
  if (object.is_discarded()) throw ConfigError(fmt::format("{} is not JSON: {}", where, json_problem(plain)));
  if (!object.is_object()) throw ConfigError(fmt::format("{} is not a JSON object", where));
  reject_quantized(object, where);

  ModelConfig model;
  model.source = where;
  model.entry = &find_entry(object, where);
  model.named = named_architecture(object, where);
  if (as && as->family == model.entry->family)
    model.entry = as;
  else if (!as)
    model.entry = &entry_of_folder(*model.entry, object, folder);
  if (model.named.empty()) model.named = kNoClass;
  if (model.named == model.entry->architecture) model.named.clear();
  model.config = model.entry->make_config();
  std::erase_if(object.get_ref<json::object_t&>(), [](const auto& item) { return is_of_a_file(item.first); });
  std::optional<LoraOptions> lora;
  if (const auto found = object.find(kLoraKey); found != object.end()) {
    lora = lora_of_json(*found, where);
    model.token_rows = token_rows_of_json(*found, where);
    object.erase(found);
  }
  count_labels(*model.config, object);
  if (!folder.empty()) reject_transformer_alone(*model.entry, folder);
  if (!folder.empty()) set_embedding_head(object, *model.config, folder);
  take_fields(*model.config, object, where);
  finish_config(*model.config, where);
  collect_unknown(object, fields_as_json(*model.config), "", model.unknown_keys);
  model.other_keys = object.dump();
  if (lora) adapt(model, *lora);
  return model;
}

}  // namespace

void adapt(ModelConfig& model, const LoraOptions& options) {
  model.lora = with_lora(*model.entry, *model.config, options);
  model.entry = &model.lora->entry;
}

ModelConfig without_adapters(ModelConfig model) {
  if (model.lora) model.entry = model.lora->base;
  model.lora = nullptr;
  return model;
}

ModelConfig parse_config(std::string_view text, const std::string& where, const Entry* as) {
  return parse_with({}, text, where, as);
}

ModelConfig read_config(const std::filesystem::path& folder, const Entry* as, const std::filesystem::path& base) {
  if (is_peft_folder(folder)) return read_peft_config(folder, as, base);
  const std::filesystem::path transformer = transformer_folder(folder);
  const auto path = transformer / "config.json";
  if (!is_there(path)) throw_no_config(folder, path);
  const bool is_checkpoint = std::filesystem::exists(folder / "checkpoint.json");
  ModelConfig model =
      parse_with(is_checkpoint ? std::filesystem::path() : folder, read_config_text(path), path.string(), as);
  // The exported full parameters of a checkpoint: its adapters are merged into them.
  const bool has_weights = std::filesystem::exists(transformer / "model.safetensors") ||
                           std::filesystem::exists(transformer / "model.safetensors.index.json");
  if (!has_weights || is_checkpoint) return model;
  model.token_rows.clear();
  return without_adapters(std::move(model));
}

std::string format_config(const ModelConfig& model, std::string_view dtype) {
  json object = json::parse(model.other_keys);
  json fields = fields_as_json(*model.config);
  if (object.contains("id2label") && object["id2label"].size() != fields.value("num_labels", object["id2label"].size()))
    object.erase("id2label"), object.erase("label2id");
  for (auto& [key, value] : fields.items()) {
    // Keys of RoPE parameters and of nested configs that match no field.
    if (object.contains(key) && object[key].is_object()) value.update(object[key], /*merge_objects=*/true);
    if (value.is_object() && (value.contains("dtype") || value.contains("torch_dtype"))) {
      value.erase("torch_dtype");
      value["dtype"] = dtype;
    }
    object[key] = value;
  }
  object["architectures"] = {model.entry->architecture};
  object["model_type"] = model.entry->model_type;
  object["dtype"] = dtype;
  if (model.lora) object[kLoraKey] = lora_as_json(model.lora->options);
  if (model.lora && !model.token_rows.empty()) object[kLoraKey][kTokenRowsKey] = model.token_rows;
  return object.dump(2) + "\n";
}

std::string unknown_keys_note(const ModelConfig& model) {
  if (model.unknown_keys.empty()) return {};
  return fmt::format("config.json has keys that {} does not know; they are kept and have no effect: {}",
                     model.entry->architecture, fmt::join(model.unknown_keys, ", "));
}

std::string config_difference(const ModelConfig& saved, const ModelConfig& run) {
  if (saved.entry->architecture != run.entry->architecture)
    return fmt::format("it is a {} and the run trains a {}", saved.entry->architecture, run.entry->architecture);
  const json fields = fields_as_json(*saved.config), wanted = fields_as_json(*run.config);
  for (const auto& [key, value] : fields.items())
    if (value != wanted.at(key) && key != "initializer_range")
      return fmt::format("its \"{}\" is {} and the run's is {}", key, shown(value), shown(wanted.at(key)));
  if (!saved.lora != !run.lora)
    return saved.lora ? "it has adapters and the run has no [lora]" : "it has no adapters and the run has [lora]";
  if (!saved.lora) return {};
  const json adapters = lora_as_json(saved.lora->options), expected = lora_as_json(run.lora->options);
  for (const auto& [key, value] : adapters.items())
    if (value != expected.at(key))
      return fmt::format("its lora.{} is {} and the run's is {}", key, shown(value), shown(expected.at(key)));
  return {};
}

}  // namespace modular
