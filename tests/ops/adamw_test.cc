// AdamW with bfloat16 gradients against libtorch's with the same gradients widened, on tensors that fill no vector and
// no piece; its compute copies; and the sum of squares, independent of the number of threads.
#include "runtime/ops/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/ops/test_devices.h"

namespace modular {
namespace {

using at::Tensor, testing::devices;

std::vector<Tensor> make_tensors(const at::TensorOptions& options, bool positive = false) {
  std::vector<Tensor> tensors;
  for (const int64_t size : {1, 7, 300, 16384, 40001}) {
    const Tensor numbers = at::randn({size});
    tensors.push_back((positive ? numbers.square() : numbers).to(options));
  }
  // A view whose memory is not aligned.
  tensors.push_back(at::randn({1001}).square().to(options).slice(0, 1));
  return tensors;
}

std::vector<Tensor> clone_all(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copied;
  for (const Tensor& tensor : tensors) copied.push_back(tensor.clone());
  return copied;
}

TEST(AdamW, MatchesLibtorchForBfloat16Gradients) {
  for (const at::Device& device : devices()) {
    SCOPED_TRACE(device.str());
    const auto float32 = at::TensorOptions().device(device), bfloat16 = float32.dtype(at::kBFloat16);
    const auto values = make_tensors(float32), means = make_tensors(float32), squares = make_tensors(float32, true),
               gradients = make_tensors(bfloat16), compute_copies = make_tensors(bfloat16);
    const auto expected = clone_all(values), expected_means = clone_all(means), expected_squares = clone_all(squares);
    std::vector<Tensor> wide, steps;
    for (const Tensor& gradient : gradients) {
      wide.push_back(gradient.to(at::kFloat));
      steps.push_back(at::full({}, 3.0f, float32));
    }
    const Tensor divisor = at::full({}, 2.5f, float32), skipped = at::zeros({}, float32);
    std::vector<AdamWParameter> parameters;
    for (size_t i = 0; i < values.size(); ++i)
      parameters.push_back({values[i], means[i], squares[i], gradients[i], compute_copies[i]});
    adamw(parameters, adamw_factors(1e-2, 0.9, 0.98, 1e-8, 0.1, 3), divisor, skipped);
    at::_fused_adamw_(expected, wide, expected_means, expected_squares, {}, steps, 1e-2, 0.9, 0.98, 0.1, 1e-8, false,
                      false, divisor, skipped);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(at::allclose(values[i], expected[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(at::allclose(means[i], expected_means[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(at::allclose(squares[i], expected_squares[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(compute_copies[i].equal(values[i].to(at::kBFloat16))) << i;
    }
  }
}

TEST(AdamW, ChangesNothingIfSkipped) {
  for (const at::Device& device : devices()) {
    const auto float32 = at::TensorOptions().device(device);
    const Tensor value = at::ones({50}, float32), mean = at::ones({50}, float32), square = at::ones({50}, float32);
    const Tensor gradient = at::full({50}, NAN, float32.dtype(at::kBFloat16)), compute_copy = at::zeros_like(gradient);
    adamw({{value, mean, square, gradient, compute_copy}}, adamw_factors(1e-2, 0.9, 0.98, 1e-8, 0.1, 1), {},
          at::ones({}, float32));
    for (const Tensor& kept : {value, mean, square}) EXPECT_TRUE(kept.eq(1).all().item<bool>());
    EXPECT_TRUE(compute_copy.eq(0).all().item<bool>());
  }
}

TEST(SumOfSquares, MatchesFloat64OnAnyNumberOfThreads) {
  for (const at::Device& device : devices()) {
    const auto tensors = make_tensors(at::TensorOptions().device(device).dtype(at::kBFloat16));
    double expected = 0.0;
    for (const Tensor& tensor : tensors) expected += tensor.to(at::kDouble).square().sum().item<double>();
    std::vector<double> found;
    for (const int threads : {1, 3}) {
      at::set_num_threads(threads);
      found.push_back(sum_of_squares(tensors).item<double>());
    }
    EXPECT_NEAR(found[0], expected, 1e-6 * expected);
    EXPECT_EQ(found[0], found[1]);
  }
}

TEST(SumOfSquares, PropagatesInfinity) {
  for (const at::Device& device : devices()) {
    const Tensor tensor = at::ones({1000}, at::TensorOptions().device(device).dtype(at::kBFloat16));
    tensor[999].fill_(INFINITY);
    EXPECT_EQ(sum_of_squares({tensor}).item<double>(), INFINITY);
  }
}

}  // namespace
}  // namespace modular
