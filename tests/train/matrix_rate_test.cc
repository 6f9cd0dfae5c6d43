// Measured matmul throughput of the CPU.
#include "runtime/train/device_usage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace modular {
namespace {

TEST(MatrixRate, IsMeasuredOncePerTypeWithoutRandomNumbers) {
  at::manual_seed(7);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(7);
  const double of_float32 = matrix_rate(/*bf16=*/false), of_bfloat16 = matrix_rate(true);
  EXPECT_TRUE(at::rand({4}).equal(expected));
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
  EXPECT_GT(of_float32, 0.0);
  EXPECT_GT(of_bfloat16, 0.0);
  EXPECT_EQ(matrix_rate(false), of_float32);
  EXPECT_EQ(matrix_rate(true), of_bfloat16);
}

}  // namespace
}  // namespace modular
