#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "runtime/mesh/libraries.h"

namespace modular::testing {

/// The CPU, and a GPU if there is one.
inline std::vector<at::Device> devices() {
  std::vector<at::Device> all = {at::kCPU};
  if (gpu_count() > 0) {
    all.emplace_back(at::kCUDA, 0);
    cuda_library().use_device(all.back());
  }
  return all;
}

}  // namespace modular::testing
