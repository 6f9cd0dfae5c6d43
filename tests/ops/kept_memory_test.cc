// What a step frees is not got from the kernel again by the next one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

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

}  // namespace
}  // namespace modular::cpu
