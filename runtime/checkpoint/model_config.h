// A model's config.json: read into the family's config, and written back.
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

/// ModelConfig::named where config.json names no class.
inline constexpr const char* kNoClass = "model of no named class";

/// Which model, with which settings, and what else its config.json said.
struct ModelConfig {
  const Entry* entry = nullptr;
  std::string source;                        // the file that it was read of; empty for a config that a program made
  std::shared_ptr<AnyConfig> config;         // finished
  std::string other_keys = "{}";             // JSON object of the keys that no field has; written back at export
  std::vector<std::string> unknown_keys;     // those of them that may matter, to be reported once
  std::string named;                         // the class that config.json names, where not the entry's; or kNoClass
  std::shared_ptr<const AdaptedEntry> lora;  // where layers have adapters; `entry` is then its
  std::filesystem::path base;                // of a PEFT folder: the folder of the weights that its adapters belong to
  // Rows of tables that PEFT trained beside its adapters: the ids, by the parameter. They stay as they are, and are
  // exported with the adapters.
  std::map<std::string, std::vector<int64_t>> token_rows;
  // Its token tables may have more rows than those of the weights that are loaded; by this seed the rows are drawn.
  std::optional<uint64_t> added_rows_seed;
};

/// Gives adapters to a model that has none. In a checkpoint's config.json the key "lora" says so. Throws ConfigError as
/// with_lora does.
void adapt(ModelConfig& model, const LoraOptions& options);

/// The model without adapters.
ModelConfig without_adapters(ModelConfig model);

/// Reads JSON as transformers writes it, old style (`rope_theta`, `rope_scaling` with `type` or `rope_type`) or new
/// (`rope_parameters`). The entry is the one that "architectures" or "model_type" names among entries(). `where` begins
/// each error: a file's name, say. Throws ConfigError naming the key, its value and what to write.
/// With `as`, an entry of the same family, the config is read for that one, whatever class it names.
ModelConfig parse_config(std::string_view json, const std::string& where, const Entry* as = nullptr);

/// parse_config of `folder`/config.json. Of a PEFT folder read_peft_config, with `base` as the folder of its base
/// model.
ModelConfig read_config(const std::filesystem::path& folder, const Entry* as = nullptr,
                        const std::filesystem::path& base = {});

/// config.json of a model as transformers 5 reads it, with the other keys kept and `dtype` ("float32", "bfloat16",
/// "float16").
std::string format_config(const ModelConfig& model, std::string_view dtype);

/// A sentence that names the unknown keys, for a program to report once; empty where there are none.
std::string unknown_keys_note(const ModelConfig& model);

/// Says which field of a saved model differs from the run's in what it computes, or nothing.
std::string config_difference(const ModelConfig& saved, const ModelConfig& run);

}  // namespace modular
