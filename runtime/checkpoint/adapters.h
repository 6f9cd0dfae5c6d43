// Adapters in files: merged into their base weights, or exported alone in the format of Hugging Face's PEFT.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

// // Adapters in files: merged into their base weights, or exported alone in the format of Hugging Face's PEFT.

/// read_slice() for the weight of an adapted layer with its adapter merged: W + alpha / rank B A, computed in float32.
void read_merged_slice(const std::string& name, const StoredTensors& stored, const AdaptedEntry* lora,
                       at::IntArrayRef offset, at::Tensor into);

/// Exports a checkpoint's adapters, and the parameters trained with them, as a folder that PEFT loads:
/// adapter_config.json and adapter_model.safetensors, in float32. `base_model` is the name or path of the base model,
/// into which PEFT loads them. The folder appears only when it is complete. Throws std::runtime_error if the folder
/// exists, if the checkpoint has no adapters, or if transformers splits an adapted layer into several modules.
void export_adapters(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                     const std::string& base_model);

// Folders in PEFT's format: adapter_config.json and adapter_model.safetensors, the low-rank adapters of a base model in
// another folder.

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
