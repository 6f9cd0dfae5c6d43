// PEFT's names for a model's tasks and modules, and the contents of adapter_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/parallel/parameters/lora.h"

namespace modular {

// PEFT's names for a model's tasks and modules.

inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";

/// Prefix of each tensor name in a PEFT file.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// Suffix of a table's module if PEFT trains some of its rows: the module that PEFT inserts, with the trained rows.
inline constexpr std::string_view kPeftTokenAdapter = ".token_adapter";
inline constexpr std::string_view kPeftTokenRows = ".trainable_tokens_delta";

/// PEFT's name of a task, or our name for PEFT's; empty if there is none.
std::string_view to_peft_task(std::string_view task);
std::string_view task_of_peft(std::string_view peft_task);

/// Returns why PEFT and this program mean different layers of the model by the same names, or an empty string.
std::string peft_names_error(const AdaptedEntry& lora);

/// Path of the transformers module that has the parameter of full shape `shape`; empty if the parameter belongs to the
/// model itself, or if transformers splits it differently.
std::string to_peft_module(const Entry& entry, const std::string& parameter, const std::vector<int64_t>& shape);

// Contents of a PEFT folder's adapter_config.json.

struct PeftOptions {
  std::string where;      // file name, for errors
  LoraOptions lora;       // without `trained`; `layers` are the names in target_modules, empty if that is a pattern
  std::string base;       // base_model_name_or_path
  std::string_view task;  // the task that task_type stands for; empty for any
  std::vector<std::string> modules_to_save;
  std::map<std::string, double> alphas;  // alpha_pattern
  // trainable_token_indices: ids by module, or by "" for the model's token embedding.
  std::map<std::string, std::vector<int64_t>> token_rows;
  bool by_root = false;  // use_rslora: alpha is divided by the square root of the rank
};

/// The key of token_rows that matches the module path; null if none does.
const std::string* token_rows_key(const PeftOptions& options, const std::string& module);

/// Throws ConfigError naming the key and its value if they do not describe a supported LoRA.
PeftOptions read_peft_options(const std::filesystem::path& folder);

/// Sets the rank and alpha of all layers; `ranks` lists modules with their ranks. Throws ConfigError if they differ
/// between layers.
void set_rank_and_alpha(PeftOptions& options, const std::vector<std::pair<std::string, int64_t>>& ranks);

}  // namespace modular
