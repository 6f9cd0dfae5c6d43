// Folders that PEFT writes: adapter_config.json and adapter_model.safetensors, the low-rank adapters of a base model
// that lies in another folder.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

bool is_peft_folder(const std::filesystem::path& folder);

/// The folder of the model that the adapters of `folder` belong to: `given`, or what its adapter_config.json names.
/// Throws ConfigError where that is not on this machine.
std::filesystem::path peft_base(const std::filesystem::path& folder, const std::filesystem::path& given = {});

/// The base model with the folder's adapters, and with what was trained with them in lora->options.trained; of the
/// class that adapter_config.json's task_type means, or of `as`. Reads headers only. Throws ConfigError that names the
/// key of adapter_config.json, or the tensor, which no model here has.
ModelConfig read_peft_config(const std::filesystem::path& folder, const Entry* as, const std::filesystem::path& base);

/// The parameters of `model`, as read_peft_config has it: the base's, and in their place or in addition the folder's.
/// Throws std::runtime_error where they are not the model's.
StoredTensors open_peft(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace modular
