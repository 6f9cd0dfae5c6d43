// Bitwise reproducible results on the same GPUs. CPU results always are.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace modular {

/// Error message, with the remedy, if this process's environment lets cuBLAS choose among algorithms; empty otherwise.
std::string deterministic_error();

/// Makes libtorch, cuDNN and cuBLAS use only deterministic operations on `device`. An operation without a deterministic
/// kernel throws a c10::Error that names it. Call before the first operation on the device. Does nothing on CPU.
void be_deterministic(const at::Device& device);

}  // namespace modular
