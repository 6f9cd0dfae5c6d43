#pragma once

#include <string_view>

namespace modular::cpu {

/// Selects the fastest GEMM backend for the CPU for large matmuls in the entire program: our AMX kernels, oneDNN or
/// MKL. The rule, in gemm.cc, depends only on the CPU and the operands' types and sizes, so it is the same in every
/// run. MODULAR_CPU_GEMM=amx, =onednn or =mkl in the environment requests a backend. Calling it again does nothing.
void install_gemm();

/// The backend's display name: "AMX", "oneDNN" or "MKL".
std::string_view gemm_backend();

}  // namespace modular::cpu
