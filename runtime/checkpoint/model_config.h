// A model's config.json: parsed into the family's config, and written back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/registry.h"
#include "runtime/parallel/parameters/lora.h"

namespace modular {

/// ModelConfig::named if config.json names no class.
inline constexpr const char* kNoClass = "model of no named class";

/// A model's entry and config, and the rest of its config.json.
struct ModelConfig {
  const Entry* entry = nullptr;
  std::string source;                        // file it was read from; empty for a config created in code
  std::shared_ptr<AnyConfig> config;         // finished
  std::string other_keys = "{}";             // JSON object of the keys that match no field; written back on export
  std::vector<std::string> unknown_keys;     // the keys of other_keys that may matter, to report once
  std::string named;                         // class named by config.json if it is not the entry's; or kNoClass
  std::shared_ptr<const AdaptedEntry> lora;  // set if layers have adapters; `entry` then points into it
  std::filesystem::path base;                // for a PEFT folder: folder of the base model's weights
  // Rows of tables that PEFT trained with its adapters: the ids, by parameter. They are not trained further, and are
  // exported with the adapters.
  std::map<std::string, std::vector<int64_t>> token_rows;
  // Seed for sampling the rows that its tables have in addition to those of the loaded weights.
  std::optional<uint64_t> added_rows_seed;
};

/// Adds adapters to a model that has none; a checkpoint's config.json records them under the key "lora". Throws
/// ConfigError under the conditions of with_lora().
void adapt(ModelConfig& model, const LoraOptions& options);

/// The model without adapters.
ModelConfig without_adapters(ModelConfig model);

/// Parses JSON as transformers writes it, old style (`rope_theta`, `rope_scaling` with `type` or `rope_type`) or new
/// style (`rope_parameters`). The entry is the one of entries() that "architectures" or "model_type" names. Errors
/// begin with `where`, a file name, for example. Throws ConfigError naming the key, its value and the fix. If `as`, an
/// entry of the same family, is given, the config is parsed for that entry, whatever class it names.
ModelConfig parse_config(std::string_view json, const std::string& where, const Entry* as = nullptr);

/// parse_config() of `folder`/config.json. For a PEFT folder, read_peft_config() with `base` as the folder of its base
/// model.
ModelConfig read_config(const std::filesystem::path& folder, const Entry* as = nullptr,
                        const std::filesystem::path& base = {});

/// config.json of a model as transformers 5 reads it, with the other keys kept and `dtype` ("float32", "bfloat16",
/// "float16").
std::string format_config(const ModelConfig& model, std::string_view dtype);

/// A sentence that lists the unknown keys, to be reported once; empty if there are none.
std::string unknown_keys_note(const ModelConfig& model);

/// Returns which field of a saved model differs from the run's and affects its output, or an empty string.
std::string config_difference(const ModelConfig& saved, const ModelConfig& run);

}  // namespace modular
