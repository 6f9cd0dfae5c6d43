// What a step frees is not got from the kernel again by the next one.
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

/// Pages that the kernel had to give since the process began.
int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

/// Pages that a step gets whose activations are all alive in the end: 160 MiB in pieces of 1 to 64 MiB.
int64_t faults_of_a_step() {
  const int64_t before = page_faults();
  std::vector<at::Tensor> activations;
  for (const int64_t mib : {64, 1, 33, 2, 48, 3, 8, 1}) activations.push_back(at::ones({mib << 18}));
  return page_faults() - before;
}

TEST(CpuCachingAllocator, IsUsedAgainByTheNextStep) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "of another allocator";
  faults_of_a_step();
  EXPECT_LT(faults_of_a_step(), 200);  // 40,960 pages, or 80 huge ones, were they given again
}

TEST(CpuCachingAllocator, ATensorFitsWhereOneOfItsSizeWas) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "of another allocator";
  const auto address = [](const at::Tensor& of) { return reinterpret_cast<uintptr_t>(of.data_ptr()); };
  // The first fill what is free already; the last lie side by side.
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 56; ++i) tensors.push_back(at::empty({9 << 18}));
  std::vector<uintptr_t> places, taken;
  for (size_t i = 41; i < 56; i += 2) places.push_back(address(tensors[i])), tensors[i].reset();
  for (size_t i = 41; i < 56; i += 2) taken.push_back(address(tensors[i] = at::empty({9 << 18})));
  std::ranges::sort(places);
  std::ranges::sort(taken);
  EXPECT_EQ(taken, places);
  for (const uintptr_t place : taken) EXPECT_EQ(place % 64, 0);
}

TEST(CpuCachingAllocator, IsGivenAndTakenBackWithoutTensorsToo) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "of another allocator";
  for (const size_t bytes : {1, 8, 63, 64, 65, 5000000}) {
    void* const memory = c10::GetCPUAllocator()->raw_allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0);
    std::memset(memory, 1, bytes);
    c10::GetCPUAllocator()->raw_deallocate(memory);
  }
  EXPECT_EQ(at::empty({0}).data_ptr(), nullptr);
}

TEST(CpuCachingAllocator, WhatIsTooLargeIsRejected) {
  if (!install_cpu_caching_allocator()) GTEST_SKIP() << "of another allocator";
  EXPECT_THROW(at::empty({int64_t{1} << 50}), c10::Error);
}

}  // namespace
}  // namespace modular::cpu
