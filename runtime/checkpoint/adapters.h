// Adapters in files: merged into the weights that they belong to, or alone, as Hugging Face's PEFT reads them.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"

namespace modular {

/// read_slice, of the weight of an adapted layer with its adapter merged: W + alpha / rank B A, computed in float32.
void read_merged_slice(const std::string& name, const StoredTensors& stored, const AdaptedEntry* lora,
                       at::IntArrayRef offset, at::Tensor into);

/// Writes a checkpoint's adapters, and what was trained beside them, as a folder that PEFT loads: adapter_config.json
/// and adapter_model.safetensors, in float32. `base_model` is the name or path of the model that they belong to, which
/// PEFT loads them into. The folder appears only when it is complete. Throws std::runtime_error where it is already
/// there, where the checkpoint has no adapters, or where transformers has an adapted layer in several pieces.
void export_adapters(const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
                     const std::string& base_model);

}  // namespace modular
