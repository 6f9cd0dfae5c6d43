// Helpers for tests of fused functions and replaced kernels: both element types, values and gradients.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "runtime/model/fused.h"
#include "runtime/ops/fused.h"

namespace modular::testing {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

struct Result {
  Tensor value;
  std::vector<Tensor> gradients;
};

/// Value and gradients with respect to `inputs`, weighted by a fixed random upstream gradient.
inline Result differentiate(const Function& function, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const Tensor value = function(leaves);
  at::manual_seed(7);
  const Tensor upstream = at::randn(value.sizes(), at::kFloat).to(value.scalar_type());
  return {value.detach(), torch::autograd::grad({value}, leaves, {upstream})};
}

/// Installs the program's fused functions, for an element type.
class WithFusedFunctions : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    before_ = fused;
    install_fused_functions();
    at::manual_seed(1);
  }
  void TearDown() override { fused = before_; }

  static Tensor random(at::IntArrayRef sizes) { return at::randn(sizes).to(GetParam()); }

 private:
  FusedFunctions before_;
};

}  // namespace modular::testing
