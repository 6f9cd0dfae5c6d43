// GEMMs with padded features for a GPU's fast kernels: results match unpadded ones, and memory of a gradient that
// another tensor sees is not written.
#include "runtime/ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <gtest/gtest.h>

namespace modular {
namespace {

using at::Tensor;

TEST(PaddedGemm, MatchesALinearLayer) {
  const Tensor x = at::randn({2, 3, 8}), weight = at::randn({13, 8}), bias = at::randn({13});
  for (const std::optional<Tensor>& given : {std::optional<Tensor>(), std::optional(bias)}) {
    const Tensor y = padded_linear(x, weight, given);
    EXPECT_EQ(y.strides(), at::IntArrayRef({48, 16, 1}));
    EXPECT_TRUE(at::allclose(y, at::linear(x, weight, given)));
    EXPECT_TRUE(y.as_strided({6, 16}, {16, 1}).slice(1, 13).eq(0).all().item<bool>());
  }
}

TEST(PaddedGemm, PadsAGradientInPlaceIfItsRowsHaveRoom) {
  Tensor grad = at::ones({6, 16}).narrow(1, 0, 13).detach();
  const void* const memory = grad.const_data_ptr();
  const Tensor padded = padded_gradient(grad);
  EXPECT_EQ(padded.const_data_ptr(), memory);
  EXPECT_TRUE(padded.equal(at::constant_pad_nd(at::ones({6, 13}), {0, 3})));
}

// Like the gradient of logits, which the loss computes by rows.
TEST(PaddedGemm, PadsAViewInPlaceIfItsBaseIsUnshared) {
  Tensor rows;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    rows = at::ones({6, 16}).narrow(1, 0, 13);
  }
  const void* const memory = rows.const_data_ptr();
  const Tensor grad = rows.view({2, 3, 13});
  EXPECT_NE(padded_gradient(grad).const_data_ptr(), memory);
  rows.reset();
  EXPECT_EQ(padded_gradient(grad).const_data_ptr(), memory);
}

TEST(PaddedGemm, CopiesAGradientWithSharedMemory) {
  const Tensor full = at::ones({6, 16}), part = full.narrow(1, 0, 13);
  const Tensor padded = padded_gradient(part);
  EXPECT_TRUE(full.eq(1).all().item<bool>());
  EXPECT_TRUE(padded.equal(at::constant_pad_nd(at::ones({6, 13}), {0, 3})));
}

TEST(PaddedGemm, CopiesAGradientWithoutRoom) {
  // One ends with its memory, one is dense, and one has transposed rows.
  Tensor cut = at::ones(6 * 16 - 3).as_strided({6, 13}, {16, 1}).detach(), dense = at::ones({2, 3, 13}),
         transposed = at::ones({13, 6}).t();
  for (const Tensor& grad : {cut, dense, transposed})
    EXPECT_TRUE(padded_gradient(grad).equal(at::constant_pad_nd(at::ones({6, 13}), {0, 3})));
}

}  // namespace
}  // namespace modular
