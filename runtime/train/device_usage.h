// How much of a device a run uses: memory and arithmetic.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/config/config.h"

namespace modular {

/// The most memory that this process has held so far: on a GPU what the caching allocator had given out, on the CPU the
/// resident set.
int64_t memory_peak(const at::Device& device);

/// Floating-point operations that training on one row takes: for each of its positions 6 per parameter that multiplies
/// it, and attention's 12 * layers * heads * head_dim * positions (Chowdhery et al., PaLM, appendix B). `parameters`
/// counts those of the whole model without an embedding table that is only looked up, and of experts the share that a
/// token passes through. Positions are the row's `tokens`, or an image's patches and its class token. Nothing for
/// models whose config holds those of two towers: not all of their parameters meet the same positions.
std::optional<double> flops_per_row(const ModelConfig& model, int64_t parameters, int64_t tokens);

/// The peak of a GPU in operations per second for the type that is computed in, by known_devices(), and by
/// what its driver calls it, e.g. "NVIDIA H100 80GB HBM3"; nothing where it is not known.
std::optional<double> peak_of_make(std::string_view make, bool bf16);

/// That of the device; nothing of a CPU.
std::optional<double> device_peak(const at::Device& device, bool bf16);

}  // namespace modular
