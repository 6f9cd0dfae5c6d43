#pragma once

#include <string_view>

namespace modular::cpu {

/// From here on has large matmuls made by the fastest that there is for the processor, in all of the
/// program: our kernels for AMX, oneDNN or MKL. The rule stands in gemm.cc: it reads the processor and the
/// operands' types and sizes alone, so that it is the same in every run. MODULAR_CPU_GEMM=amx, =onednn or =mkl in
/// the environment asks for one of them. Calling it again does nothing.
void install_gemm();

/// Who makes them, for people to read: "AMX", "oneDNN" or "MKL".
std::string_view gemm_backend();

}  // namespace modular::cpu
