// PEFT's names for a model's tasks and modules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/parameters/lora.h"

namespace modular {

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

}  // namespace modular
