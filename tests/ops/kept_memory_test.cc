// What a step frees is not got from the kernel again by the next one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/ops/cpu/kept_memory.h"

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

TEST(KeptMemory, IsUsedAgainByTheNextStep) {
  if (!keep_freed_memory()) GTEST_SKIP() << "of another allocator";
  faults_of_a_step();
  EXPECT_LT(faults_of_a_step(), 200);  // 40,960 pages, or 80 huge ones, were they given anew
}

TEST(KeptMemory, ATensorFitsWhereOneOfItsSizeWas) {
  if (!keep_freed_memory()) GTEST_SKIP() << "of another allocator";
  const auto tensor = [] { return at::empty({9 << 18}); };
  std::vector<at::Tensor> kept, freed;
  for (int i = 0; i < 8; ++i) freed.push_back(tensor()), kept.push_back(at::empty({1 << 18}));
  const auto address = [](const at::Tensor& of) { return reinterpret_cast<uintptr_t>(of.data_ptr()); };
  std::vector<uintptr_t> places, taken;
  for (const at::Tensor& of : freed) places.push_back(address(of));
  freed.clear();
  for (int i = 0; i < 8; ++i) freed.push_back(tensor()), taken.push_back(address(freed.back()));
  std::ranges::sort(places);
  std::ranges::sort(taken);
  EXPECT_EQ(taken, places);
  for (const uintptr_t place : taken) EXPECT_EQ(place % 64, 0);
}

TEST(KeptMemory, WhatIsTooLargeIsRefused) {
  if (!keep_freed_memory()) GTEST_SKIP() << "of another allocator";
  EXPECT_THROW(at::empty({int64_t{1} << 50}), c10::Error);
}

}  // namespace
}  // namespace modular::cpu
