// What PEFT calls a model's tasks and modules in its folders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/parameters/lora.h"

namespace modular {

inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";

/// What a PEFT file calls each tensor of a model that it wraps.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";

/// What it adds to the name of a table's module where it trains rows of the table: the module that it puts there,
/// and in that the trained rows.
inline constexpr std::string_view kPeftTokenAdapter = ".token_adapter";
inline constexpr std::string_view kPeftTokenRows = ".trainable_tokens_delta";

/// PEFT's name of a task, or ours for PEFT's; empty where there is none.
std::string_view to_peft_task(std::string_view task);
std::string_view task_of_peft(std::string_view peft_task);

/// Says in a sentence why PEFT and this program do not mean the same layers of the model by the same names, or nothing.
std::string peft_names_error(const AdaptedEntry& lora);

/// The path of the module of transformers that has the parameter, of which `shape` is the whole; empty where
/// it belongs to the model itself, and where transformers has it in other pieces.
std::string to_peft_module(const Entry& entry, const std::string& parameter, const std::vector<int64_t>& shape);

}  // namespace modular
