// The gradient of a bfloat16 table is summed over tokens in float32, and rounded once.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/ops/fused.h"

namespace modular {
namespace {

using at::Tensor;

Tensor compute_table_gradient(const Tensor& table, const Tensor& ids, const Tensor& upstream, int64_t padding_idx) {
  const Tensor leaf = table.detach().requires_grad_();
  return torch::autograd::grad({at::embedding(leaf, ids, padding_idx)}, {leaf}, {upstream})[0];
}

class EmbeddingGradient : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { install_fused_functions(); }
};

TEST_P(EmbeddingGradient, KeepsContributionsOfFrequentTokens) {
  const Tensor table = at::zeros({3, 2}, GetParam()), ids = at::ones({16, 256}, at::kLong);
  const Tensor found = compute_table_gradient(table, ids, at::ones({16, 256, 2}, GetParam()), -1);
  EXPECT_TRUE(found.equal(at::tensor({0, 0, 4096, 4096, 0, 0}).to(GetParam()).view({3, 2})));
}

TEST_P(EmbeddingGradient, MatchesFloat64RoundedOnce) {
  const Tensor table = at::zeros({50, 33}, GetParam()), ids = at::randint(0, 40, {7, 300}, at::kLong);
  const Tensor upstream = at::randn({7, 300, 33}).to(GetParam());
  for (const int64_t padding_idx : {-1, 5}) {
    const Tensor expected = compute_table_gradient(table.to(at::kDouble), ids, upstream.to(at::kDouble), padding_idx);
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      for (const Tensor& numbers : {ids, ids.to(at::kInt)}) {
        const Tensor found = compute_table_gradient(table, numbers, upstream, padding_idx);
        // Half a unit in the last place, plus the error of summing about fifty float32 numbers.
        EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, GetParam() == at::kBFloat16 ? 0.00391 : 1e-6, 1e-5));
      }
    }
  }
}

TEST_P(EmbeddingGradient, IsZeroWithoutTokens) {
  const Tensor found = compute_table_gradient(at::ones({4, 3}, GetParam()), at::empty({2, 0}, at::kLong),
                                              at::empty({2, 0, 3}, GetParam()), -1);
  EXPECT_TRUE(found.equal(at::zeros({4, 3}, GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Types, EmbeddingGradient, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

}  // namespace
}  // namespace modular
