// Results that are the same in every run on the same GPUs. On CPUs they are in any case.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace modular {

/// Why this process's environment lets cuBLAS choose among algorithms with the remedy; empty where it
/// does not.
std::string deterministic_error();

/// From here on libtorch, cuDNN and cuBLAS take no operation on `device` whose result differs between runs; one that
/// has no other kernel throws c10::Error, which names it. Called before the first operation there; does nothing on
/// CPUs.
void be_deterministic(const at::Device& device);

}  // namespace modular
