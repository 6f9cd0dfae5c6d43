// Linear layers in float8, on CPUs and, if there is one, on a GPU: conversion is as accurate as float8 allows; values
// and gradients of GEMMs match float64 within float8 rounding; unsupported operands use the ordinary GEMM.
#include "runtime/ops/float8.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/model/module.h"
#include "runtime/ops/fused.h"
#include "tests/ops/test_devices.h"

namespace modular {
namespace {

using testing::devices;

double relative_difference(const Tensor& found, const Tensor& expected) {
  const Tensor exact = expected.cpu().to(at::kDouble);
  return ((found.cpu().to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

class Float8Test : public ::testing::Test {
 protected:
  void SetUp() override { install_fused_functions(); }
};

TEST_F(Float8Test, ScalesTheLargestNumberToFloat8sLargest) {
  for (const at::Device& device : devices())
    for (const auto& [type, most, steps] :
         {std::tuple{at::kFloat8_e4m3fn, 448.0, 16.0}, {at::kFloat8_e5m2, 57344.0, 8.0}})
      for (const auto& sizes : std::vector<std::vector<int64_t>>{{16, 16}, {48, 80}, {128, 256}}) {
        SCOPED_TRACE(::testing::Message() << device << ", " << type << ", " << at::IntArrayRef(sizes));
        const Tensor matrix = (at::randn(sizes) * 1e-3).to(device, at::kBFloat16);
        const Float8 found = to_float8(matrix, type, {.values = true, .transposed = true});
        const Tensor values = found.values.to(at::kFloat), back = values * found.scale;
        EXPECT_EQ(values.abs().max().item<double>(), most);
        EXPECT_EQ(found.largest.item<float>(), matrix.abs().max().item<float>());
        EXPECT_TRUE(found.transposed.to(at::kFloat).equal(values.t()));
        // Half the distance between adjacent numbers; for the smallest numbers that distance is constant.
        const Tensor exact = matrix.to(at::kFloat), off = (back - exact).abs();
        EXPECT_TRUE(off.le(exact.abs() / steps + found.scale * 2e-3).all().item<bool>()) << off.max();
      }
}

TEST_F(Float8Test, ConvertsZerosToZeros) {
  for (const at::Device& device : devices()) {
    const Float8 found = to_float8(at::zeros({16, 32}, at::TensorOptions().dtype(at::kBFloat16).device(device)),
                                   at::kFloat8_e4m3fn, {.values = true});
    EXPECT_FALSE(found.transposed.defined());
    EXPECT_TRUE(found.values.to(at::kFloat).eq(0).all().item<bool>());
  }
}

TEST_F(Float8Test, LinearAndItsGradientsAreCloseToFloat64) {
  for (const at::Device& device : devices())
    for (const bool is_transposed : {false, true})
      for (const bool has_bias : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << device << (is_transposed ? ", transposed" : "") << (has_bias ? ", bias" : ""));
        std::vector<Tensor> inputs = {at::randn({4, 12, 64}),
                                      at::randn(is_transposed ? at::IntArrayRef{64, 96} : at::IntArrayRef{96, 64})};
        if (has_bias) inputs.push_back(at::randn({96}));
        const Tensor upstream = at::randn({4, 12, 96});
        std::vector<Tensor> leaves, wide;
        for (const Tensor& input : inputs) {
          leaves.push_back(input.to(device, at::kBFloat16).requires_grad_());
          wide.push_back(leaves.back().detach().to(at::kDouble).requires_grad_());
        }
        const auto get_bias = [&](const std::vector<Tensor>& tensors) { return has_bias ? tensors[2] : Tensor(); };
        const Tensor y = float8_linear(leaves[0], leaves[1], get_bias(leaves), is_transposed);
        const Tensor exact = detail::plain_matmul(wide[0], wide[1], get_bias(wide), is_transposed);
        EXPECT_EQ(y.scalar_type(), at::kBFloat16);
        EXPECT_LE(relative_difference(y.detach(), exact.detach()), 0.05);
        EXPECT_GE(relative_difference(y.detach(), exact.detach()), 0.01) << "more accurate than float8";
        const auto found = torch::autograd::grad({y}, leaves, {upstream.to(device, at::kBFloat16)});
        const auto expected = torch::autograd::grad({exact}, wide, {upstream.to(device, at::kDouble)});
        for (size_t i = 0; i < found.size(); ++i) EXPECT_LE(relative_difference(found[i], expected[i]), 0.08) << i;
      }
}

TEST_F(Float8Test, GpuMatchesCpu) {
  if (devices().size() < 2) GTEST_SKIP() << "no GPU";
  const Tensor x = at::randn({64, 128}).to(at::kBFloat16), weight = at::randn({96, 128}).to(at::kBFloat16);
  const Tensor on_gpu = float8_linear(x.cuda(), weight.cuda(), {}, false), on_cpu = float8_linear(x, weight, {}, false);
  EXPECT_LE(relative_difference(on_gpu, on_cpu), 4e-3);
  const auto matrix = at::randn({48, 80}).to(at::kBFloat16);
  for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const auto cpu = to_float8(matrix, type, {.values = true}), gpu = to_float8(matrix.cuda(), type, {.values = true});
    EXPECT_TRUE(cpu.values.to(at::kFloat).equal(gpu.values.cpu().to(at::kFloat)));
  }
}

TEST_F(Float8Test, UnsupportedOperandsUseTheOrdinaryLinear) {
  for (const auto& [x, weight] : {std::pair{at::randn({16, 64}), at::randn({96, 64})},
                                  {at::randn({16, 64}).to(at::kBFloat16), at::randn({90, 64}).to(at::kBFloat16)},
                                  {at::randn({15, 64}).to(at::kBFloat16), at::randn({96, 64}).to(at::kBFloat16)}})
    EXPECT_TRUE(float8_linear(x, weight, {}, false).equal(at::linear(x, weight)));
}

TEST_F(Float8Test, ConvertsAModifiedInputAgain) {
  const Tensor x = at::randn({16, 64}).to(at::kBFloat16), weight = at::randn({96, 64}).to(at::kBFloat16);
  const Tensor before = float8_linear(x, weight, {}, false);
  EXPECT_TRUE(float8_linear(x, weight, {}, false).equal(before));
  x.mul_(2);
  EXPECT_LE(relative_difference(float8_linear(x, weight, {}, false), 2 * before), 1e-6);
}

}  // namespace
}  // namespace modular
