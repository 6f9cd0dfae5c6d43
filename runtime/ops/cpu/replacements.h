// Kernels that replace libtorch's own on CPUs, in the entire program.
#pragma once

#include <string_view>

namespace modular::cpu {

/// Makes the entire program sum the gradients of bfloat16 embedding tables over tokens in float32 and round once.
/// libtorch adds tokens one by one in bfloat16, where 4,096 ones sum to 256. Calling it again does nothing.
void install_embedding();

/// Selects the fastest GEMM backend for the CPU for large matmuls in the entire program: our AMX kernels, oneDNN or
/// MKL. The rule, in gemm.cc, depends only on the CPU and the operands' types and sizes, so it is the same in every
/// run. MODULAR_CPU_GEMM=amx, =onednn or =mkl in the environment requests a backend. Calling it again does nothing.
void install_gemm();

/// The backend's display name: "AMX", "oneDNN" or "MKL".
std::string_view gemm_backend();

/// Replaces at::layer_norm over the last dimension with our own loops in the entire program. They keep statistics in
/// float32 even for bfloat16 inputs. They require weight and bias of the input's type; other cases, and errors, are
/// left to libtorch. Calling it again does nothing.
void install_layer_norm();

/// Replaces convolutions with adjacent, non-overlapping windows, such as those that cut an image into patches, with
/// matmuls in the entire program: oneDNN's backward of them is many times slower. Calling it again does nothing.
void install_patches();

/// Replaces at::add and add_ of two bfloat16 tensors of the same memory layout with our loop in the entire program:
/// residuals, and gradients of tensors that several operations read. Results are the same, except that sums below the
/// smallest normal number are 0 on CPUs with bfloat16 rounding instructions. Calling it again does nothing.
void install_sums();

}  // namespace modular::cpu
