// Grouped GEMMs over all experts, as on a GPU in bfloat16, match separate GEMMs per expert.
#include <gtest/gtest.h>

#include "runtime/model/experts.h"

namespace modular {
namespace {

constexpr int64_t kExperts = 5, kHidden = 32, kInner = 24;

struct Computed {
  at::Tensor results;
  std::vector<at::Tensor> gradients;
};

Computed run(decltype(&routing::grouped) compute, at::ScalarType type, const at::Tensor& expert_of_pair) {
  at::manual_seed(3);
  const auto leaf = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(type).requires_grad_(); };
  const at::Tensor rows = leaf({expert_of_pair.numel(), kHidden});
  const at::Tensor gate_up = leaf({kExperts, 2 * kInner, kHidden}), down = leaf({kExperts, kHidden, kInner});
  Computed run{compute("silu", rows, expert_of_pair, gate_up, down), {}};
  run.results.to(at::kFloat).square().sum().backward();
  for (const at::Tensor& tensor : {rows, gate_up, down}) run.gradients.push_back(tensor.grad());
  return run;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, double tolerance) {
  ASSERT_TRUE(found.defined());
  const at::Tensor wide = expected.to(at::kDouble);
  EXPECT_LE((found.to(at::kDouble) - wide).abs().max().item<double>(), tolerance * wide.abs().max().item<double>());
}

TEST(Experts, GroupedMatchesOneByOne) {
  // No row chooses the second and the last expert.
  const at::Tensor expert_of_pair = at::tensor({3, 0, 0, 2, 3, 3, 0, 2, 2, 2, 0}, at::kLong);
  for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-6}, std::pair{at::kBFloat16, 2e-2}}) {
    const Computed expected = run(&routing::one_by_one, type, expert_of_pair);
    const Computed found = run(&routing::grouped, type, expert_of_pair);
    expect_near(found.results, expected.results, tolerance);
    for (size_t i = 0; i < found.gradients.size(); ++i)
      expect_near(found.gradients[i], expected.gradients[i], tolerance);
  }
}

}  // namespace
}  // namespace modular
