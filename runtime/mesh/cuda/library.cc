// Entry point of libmodular_cuda: NCCL backend and device selection.
#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>

#include "runtime/mesh/libraries.h"

namespace modular {
namespace {

class NvidiaLibrary final : public CudaLibrary {
 public:
  int64_t device_count() const override { return c10::cuda::device_count(); }

  void use_device(const at::Device& device) const override {
    c10::cuda::set_device(device.index());
    // Full float32 in convolutions too, and float32 accumulation in bfloat16 GEMMs.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    // Units of different sizes are unsharded and resharded in each step; expandable segments avoid fragmentation.
    if (!std::getenv("PYTORCH_CUDA_ALLOC_CONF") && !std::getenv("PYTORCH_ALLOC_CONF"))
      c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
  }

  std::string name_for(const at::Device& device) const override {
    std::string name = "GPU-";
    for (const char byte : get_properties(device).uuid.bytes)
      name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return name;
  }

  std::string device_model(const at::Device& device) const override { return get_properties(device).name; }

  c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const Store& store, const GroupSpec& spec,
                                                      const at::Device& device) const override {
    // Prefetched all-gathers must not queue behind the GEMMs that run at the same time.
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = spec.timeout;
    options->group_name = spec.name;
    options->group_desc = spec.description;
    options->global_ranks_in_group.assign(spec.ranks.begin(), spec.ranks.end());
    auto backend =
        c10::make_intrusive<c10d::ProcessGroupNCCL>(store, spec.rank, static_cast<int>(spec.ranks.size()), options);
    backend->setBoundDeviceId(device);
    return backend;
  }

 private:
  static cudaDeviceProp get_properties(const at::Device& device) {
    cudaDeviceProp properties;
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, device.index()); error != cudaSuccess)
      throw std::runtime_error(fmt::format("cannot query GPU {}: {}", device.str(), cudaGetErrorString(error)));
    return properties;
  }
};

}  // namespace
}  // namespace modular

extern "C" __attribute__((visibility("default"))) const modular::CudaLibrary* modular_cuda_library() {
  static const modular::NvidiaLibrary library;
  return &library;
}
