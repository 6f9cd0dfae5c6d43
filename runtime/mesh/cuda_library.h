// The part of the runtime that needs a GPU, in a shared library of its own: it is loaded only where there is one, so
// that a program on a CPU starts without reading libtorch_cuda.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "runtime/mesh/rendezvous.h"

namespace modular {

/// What libmodular_cuda offers. Loading it also registers its operators.
class CudaLibrary {
 public:
  virtual ~CudaLibrary() = default;
  virtual int64_t device_count() const = 0;
  /// Makes `device` the one on which this process allocates when only "cuda" is said.
  virtual void use_device(const at::Device& device) const = 0;
  /// The device's UUID, or that of the part of it that this process sees.
  virtual std::string name_for(const at::Device& device) const = 0;
  /// Its make, e.g. "NVIDIA H100 80GB HBM3".
  virtual std::string device_model(const at::Device& device) const = 0;
  virtual c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Store& store, const GroupSpec& spec,
                                                              const at::Device& device) const = 0;
};

/// The number of GPUs that this process may use; 0 without a driver, without libmodular_cuda, or where
/// CUDA_VISIBLE_DEVICES is empty. Loads the library only where the driver is.
int64_t gpu_count();

/// The loaded library. Throws std::runtime_error that says why it cannot be loaded.
const CudaLibrary& cuda_library();

}  // namespace modular
