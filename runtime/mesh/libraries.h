// The running program, and the shared libraries that it loads at run time.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>

#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Returns the path of the running program. It is used to restart the program and to find its libraries.
std::filesystem::path own_program();

// The part of the runtime that needs a GPU, in its own shared library. It is loaded only on machines with a GPU, so
// that a CPU-only program starts without loading libtorch_cuda.

/// Interface of libmodular_cuda. Loading it also registers its operators.
class CudaLibrary {
 public:
  virtual ~CudaLibrary() = default;
  virtual int64_t device_count() const = 0;
  /// Makes `device` the default CUDA device of this process.
  virtual void use_device(const at::Device& device) const = 0;
  /// Returns the UUID of the device, or of the MIG instance that this process sees.
  virtual std::string name_for(const at::Device& device) const = 0;
  /// Returns the model name, e.g. "NVIDIA H100 80GB HBM3".
  virtual std::string device_model(const at::Device& device) const = 0;
  virtual c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Store& store, const GroupSpec& spec,
                                                              const at::Device& device) const = 0;
};

/// Number of GPUs that this process may use; 0 without a driver, without libmodular_cuda, or if CUDA_VISIBLE_DEVICES is
/// empty. Loads the library only if the driver is present.
int64_t gpu_count();

/// Returns the loaded library. Throws std::runtime_error with the reason if it cannot be loaded.
const CudaLibrary& cuda_library();

}  // namespace modular
