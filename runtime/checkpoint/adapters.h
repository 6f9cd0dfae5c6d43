// // Adapters in files: merged into their base weights, or exported alone in the format of Hugging Face's PEFT.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// read_slice() for the weight of an adapted layer with its adapter merged: W + alpha / rank B A, computed in float32.
void read_merged_slice(const std::string& name, const StoredTensors& stored, const AdaptedEntry* lora,
                       at::IntArrayRef offset, at::Tensor into);

/// Exports a checkpoint's adapters, and the parameters trained with them, as a folder that PEFT loads:
/// adapter_config.json and adapter_model.safetensors, in float32. `base_model` is the name or path of the base model,
/// into which PEFT loads them. The folder appears only when it is complete. Throws std::runtime_error if the folder
/// exists, if the checkpoint has no adapters, or if transformers splits an adapted layer into several modules.
void export_adapters(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                     const std::string& base_model);

}  // namespace modular
