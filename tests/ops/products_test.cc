// Products of matrices by the library that is chosen: each layout that layers and their gradients have, sizes on both
// sides of the rule's border, and what a layer's bias adds, against float64.
#include "runtime/ops/cpu/products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace modular {
namespace {

using at::Tensor;

struct Size {
  int64_t rows, in, out;
};

const Size kSizes[] = {{3, 5, 7},       {64, 256, 255},  {64, 256, 256}, {1, 2048, 2048}, {2048, 2048, 1},
                       {200, 333, 129}, {512, 96, 1000}, {0, 64, 64},    {64, 0, 64}};

double largest_error(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  if (expected.numel() == 0) return 0.0;
  return ((found.to(at::kDouble) - expected).abs().max() / (expected.abs().max() + 1e-30)).item<double>();
}

Tensor wide(const Tensor& tensor) { return tensor.to(at::kDouble); }

/// A tensor's values in a part of a larger one, so that its rows are not beside each other.
Tensor spread(const Tensor& tensor) {
  return at::zeros({tensor.size(0), tensor.size(1) + 3}).narrow(1, 1, tensor.size(1)).copy_(tensor);
}

class Products : public ::testing::Test {
 protected:
  void SetUp() override {
    cpu::install_products();
    at::manual_seed(3);
  }
};

TEST_F(Products, AreRightInEachLayout) {
  for (const auto& [rows, in, out] : kSizes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out);
    const Tensor x = at::randn({rows, in}), weight = at::randn({out, in}), gradient = at::randn({rows, out});
    EXPECT_LE(largest_error(at::mm(x, weight.t()), wide(x).mm(wide(weight).t())), 2e-6);
    EXPECT_LE(largest_error(at::mm(gradient, weight), wide(gradient).mm(wide(weight))), 2e-6);
    EXPECT_LE(largest_error(at::mm(gradient.t(), x), wide(gradient).t().mm(wide(x))), 2e-6);
    EXPECT_LE(largest_error(at::mm(x.t().contiguous().t(), spread(weight).t()), wide(x).mm(wide(weight).t())), 2e-6);
    EXPECT_LE(largest_error(at::mm(spread(x), weight.t()), wide(x).mm(wide(weight).t())), 2e-6);
  }
}

TEST_F(Products, AddABiasOrAnyOtherTensorAsLibtorchDoes) {
  for (const auto& [rows, in, out] : kSizes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out);
    const Tensor x = at::randn({rows, in}), weight = at::randn({out, in}), bias = at::randn({out});
    const Tensor product = wide(x).mm(wide(weight).t());
    EXPECT_LE(largest_error(at::addmm(bias, x, weight.t()), product + wide(bias)), 2e-6);
    EXPECT_LE(largest_error(at::addmm(bias, spread(x), weight.t()), product + wide(bias)), 2e-6);
    EXPECT_LE(
        largest_error(at::addmm(bias, x, weight.t(), /*beta=*/0.5, /*alpha=*/-2), -2 * product + 0.5 * wide(bias)),
        2e-6);
    const Tensor scalar = at::randn({1}), matrix = at::randn({rows, out});
    EXPECT_LE(largest_error(at::addmm(scalar, x, weight.t()), product + scalar), 2e-6);
    EXPECT_LE(largest_error(at::addmm(matrix, x, weight.t()), product + matrix), 2e-6);
  }
}

TEST_F(Products, RefuseWhatLibtorchRefuses) {
  EXPECT_THROW(at::mm(at::ones({300, 300}), at::ones({299, 300})), c10::Error);
  EXPECT_THROW(at::mm(at::ones({300, 300}), at::ones({300, 300}, at::kDouble)), c10::Error);
  EXPECT_THROW(at::addmm(at::ones({299}), at::ones({300, 300}), at::ones({300, 300})), c10::Error);
}

TEST_F(Products, GiveTheSameBitsTwice) {
  const Tensor x = at::randn({700, 300}), weight = at::randn({500, 300}), gradient = at::randn({700, 500});
  EXPECT_TRUE(at::equal(at::mm(x, weight.t()), at::mm(x, weight.t())));
  EXPECT_TRUE(at::equal(at::mm(gradient.t(), x), at::mm(gradient.t(), x)));
}

TEST_F(Products, AreMadeByTheLibraryThatIsAskedFor) {
  const char* const asked = std::getenv("MODULAR_CPU_PRODUCTS");
  if (!asked) GTEST_SKIP() << "the processor decides";
  if (std::string_view(asked) == "mkl") {
    EXPECT_EQ(cpu::products_library(), "MKL");
  }
}

}  // namespace
}  // namespace modular
