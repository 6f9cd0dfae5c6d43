// Contents of a PEFT folder's adapter_config.json.
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
