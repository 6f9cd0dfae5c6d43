// What adapter_config.json of a PEFT folder says.
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
  std::string where;      // the file
  LoraOptions lora;       // without `trained`; `layers` are what target_modules names, empty where that is a pattern
  std::string base;       // base_model_name_or_path
  std::string_view task;  // that task_type means; empty for any
  std::vector<std::string> modules_to_save;
  std::map<std::string, double> alphas;  // of alpha_pattern
  // Of trainable_token_indices: the ids by the module, or by "" for the model's table of tokens.
  std::map<std::string, std::vector<int64_t>> token_rows;
  bool by_root = false;  // use_rslora: alpha over the rank's square root
};

/// The key of token_rows that means the module by that path; null where none does.
const std::string* token_rows_key(const PeftOptions& options, const std::string& module);

/// Throws ConfigError naming the key and its value where they are not those of a LoRA that a model here can be.
PeftOptions read_peft_options(const std::filesystem::path& folder);

/// Sets the rank and alpha of all layers, of which `ranks` has the module and the rank. Throws ConfigError where they
/// differ between layers.
void set_rank_and_alpha(PeftOptions& options, const std::vector<std::pair<std::string, int64_t>>& ranks);

}  // namespace modular
