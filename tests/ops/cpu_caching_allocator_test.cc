// A step reuses the memory that the previous step freed.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/ops/cpu/cpu_caching_allocator.h"

namespace modular::cpu {
namespace {

/// Page faults since the process began.
int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

/// Page faults of a step whose activations are all alive at its end: 160 MiB in blocks of 1 to 64 MiB.
int64_t count_step_faults() {
  const int64_t before = page_faults();
  std::vector<at::Tensor> activations;
  for (const int64_t mib : {64, 1, 33, 2, 48, 3, 8, 1}) activations.push_back(at::ones({mib << 18}));
  return page_faults() - before;
}

TEST(CpuCachingAllocator, ReusesMemoryInTheNextStep) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "not glibc's allocator";
  count_step_faults();
  EXPECT_LT(count_step_faults(), 200);  // without reuse: 40,960 pages, or 80 huge pages
}

TEST(CpuCachingAllocator, ReusesTheBlockOfATensorOfTheSameSize) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "not glibc's allocator";
  const auto address = [](const at::Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data_ptr()); };
  // The first tensors fill free memory; the last are adjacent.
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 56; ++i) tensors.push_back(at::empty({9 << 18}));
  std::vector<uintptr_t> freed, taken;
  for (size_t i = 41; i < 56; i += 2) freed.push_back(address(tensors[i])), tensors[i].reset();
  for (size_t i = 41; i < 56; i += 2) taken.push_back(address(tensors[i] = at::empty({9 << 18})));
  std::ranges::sort(freed);
  std::ranges::sort(taken);
  EXPECT_EQ(taken, freed);
  for (const uintptr_t block : taken) EXPECT_EQ(block % 64, 0);
}

TEST(CpuCachingAllocator, SupportsRawAllocation) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "not glibc's allocator";
  for (const size_t bytes : {1, 8, 63, 64, 65, 5000000}) {
    void* const memory = c10::GetCPUAllocator()->raw_allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0);
    std::memset(memory, 1, bytes);
    c10::GetCPUAllocator()->raw_deallocate(memory);
  }
  EXPECT_EQ(at::empty({0}).data_ptr(), nullptr);
}

TEST(CpuCachingAllocator, ThrowsIfMemoryRunsOut) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "not glibc's allocator";
  EXPECT_THROW(at::empty({int64_t{1} << 50}), c10::Error);
}

}  // namespace
}  // namespace modular::cpu
