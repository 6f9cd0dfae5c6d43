// Use of a device: reproducibility, memory, FLOPs and the throughput that they are compared with.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"
#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

// Bitwise reproducible results on the same GPUs. CPU results always are.

/// Error message, with the remedy, if this process's environment lets cuBLAS choose among algorithms; empty otherwise.
std::string deterministic_error();

/// Makes libtorch, cuDNN and cuBLAS use only deterministic operations on `device`. An operation without a deterministic
/// kernel throws a c10::Error that names it. Call before the first operation on the device. Does nothing on CPU.
void be_deterministic(const at::Device& device);

// Measured matmul throughput of a CPU, the reference for MFU where no data sheet gives a peak.

/// Operations/s of a large bfloat16 or float32 matmul by the program's own matmul backend, on as many threads as this
/// one computes with: the fastest of the repetitions that fit into 25 ms, with matrices from 512 x 512 to 2048 x 2048
/// values (24 MiB for three in bfloat16, 48 in float32). Measured on the first call in a process and cached. Uses no
/// random numbers.
double matrix_rate(bool bf16);

// Parameter counts of a model.

/// Number of elements: all, trained, and active per token.
struct ParameterCounts {
  int64_t all = 0, trained = 0, multiplied = 0;
};

/// `options` decide which parameters are trained.
ParameterCounts count_parameters(const ModelConfig& network, const ParallelOptions& options = {});

// Memory and FLOPs that a run uses on a device.

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
