// Memory and FLOPs that a run uses on a device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/config/config.h"

namespace modular {

/// Peak memory of this process so far: bytes allocated by the caching allocator on a GPU, the resident set on CPU.
int64_t memory_peak(const at::Device& device);

/// Floating-point operations of a training step per row: for each position 6 per active parameter, plus attention's 12
/// * layers * heads * head_dim * positions (Chowdhery et al., PaLM, appendix B). `parameters` counts the unsharded
/// model, without embedding tables that are only looked up, and of experts the fraction that a token is routed through.
/// Positions are the row's `tokens`, or an image's patches plus the class token. Nullopt for two-tower models: not all
/// of their parameters see the same positions.
std::optional<double> flops_per_row(const ModelConfig& model, int64_t parameters, int64_t tokens);

/// Peak operations/s of a GPU for the compute dtype, looked up in known_devices() by its driver name, e.g. "NVIDIA H100
/// 80GB HBM3". Nullopt if unknown.
std::optional<double> peak_of_make(std::string_view make, bool bf16);

/// The same for `device`; nullopt for CPU.
std::optional<double> device_peak(const at::Device& device, bool bf16);

}  // namespace modular
