// Folders in PEFT's format: adapter_config.json and adapter_model.safetensors, the low-rank adapters of a base model in
// another folder.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

bool is_peft_folder(const std::filesystem::path& folder);

/// Folder of the base model for the adapters of `folder`: `given`, or the one that its adapter_config.json names.
/// Throws ConfigError if that folder is not on this machine.
std::filesystem::path peft_base(const std::filesystem::path& folder, const std::filesystem::path& given = {});

/// The base model with the folder's adapters, and with the modules trained with them in lora->options.trained. Its
/// class follows from task_type of adapter_config.json, or is `as`. Reads headers only. Throws ConfigError naming the
/// key of adapter_config.json, or the tensor, that is not supported.
ModelConfig read_peft_config(const std::filesystem::path& folder, const Entry* as, const std::filesystem::path& base);

/// Parameters of `model`, which read_peft_config() returned: the base's, replaced or extended by the folder's. Throws
/// std::runtime_error if they do not match the model.
StoredTensors open_peft(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace modular
