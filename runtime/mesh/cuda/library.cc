// libmodular_cuda's entry: NCCL's backend and the choice of a GPU.
#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>

#include "runtime/mesh/cuda_library.h"

namespace modular {
namespace {

class NvidiaLibrary final : public CudaLibrary {
 public:
  int64_t device_count() const override { return c10::cuda::device_count(); }

  void use_device(const at::Device& device) const override {
    c10::cuda::set_device(device.index());
    // float32 means float32 in convolutions too, and products in bfloat16 are summed in float32.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    // Units of other sizes come and go in each step: segments that grow leave no holes between them.
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
    // What FSDP gathers ahead is not to queue behind the products that run meanwhile.
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
      throw std::runtime_error(fmt::format("the GPU {} cannot be asked: {}", device.str(), cudaGetErrorString(error)));
    return properties;
  }
};

}  // namespace
}  // namespace modular

extern "C" __attribute__((visibility("default"))) const modular::CudaLibrary* modular_cuda_library() {
  static const modular::NvidiaLibrary library;
  return &library;
}
