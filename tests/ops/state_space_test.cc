// The recurrences of state space models against the same recurrences one position at a time.
#include "runtime/model/state_space.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

namespace modular {
namespace {

constexpr int64_t kBatch = 2, kSeq = 11;

at::Tensor positive(at::IntArrayRef shape) { return at::rand(shape).add(0.05).set_requires_grad(true); }
at::Tensor normal(at::IntArrayRef shape) { return at::randn(shape).set_requires_grad(true); }

struct Mamba2Inputs {
  at::Tensor x = normal({kBatch, kSeq, 4, 3}), dt = positive({kBatch, kSeq, 4}), A = positive({4}).neg();
  at::Tensor B = normal({kBatch, kSeq, 2, 5}), C = normal({kBatch, kSeq, 2, 5}), D = normal({4});

  at::Tensor run(int64_t chunk_size) const { return state_space_duality(x, dt, A, B, C, D, chunk_size); }

  at::Tensor position_by_position() const {
    at::Tensor state = at::zeros({kBatch, 4, 3, 5});
    std::vector<at::Tensor> outputs;
    for (int64_t t = 0; t < kSeq; ++t) {
      const at::Tensor step = dt.select(1, t), kept = (A * step).exp().view({kBatch, 4, 1, 1});
      const at::Tensor write = B.select(1, t).repeat_interleave(2, 1), read = C.select(1, t).repeat_interleave(2, 1);
      state = kept * state + (step.unsqueeze(-1) * x.select(1, t)).unsqueeze(-1) * write.unsqueeze(2);
      outputs.push_back((state * read.unsqueeze(2)).sum(-1) + D.unsqueeze(-1) * x.select(1, t));
    }
    return at::stack(outputs, 1);
  }
};

TEST(StateSpace, DualityMatchesTheRecurrenceOfMamba2ForAllChunkSizes) {
  at::manual_seed(1);
  const Mamba2Inputs inputs;
  const auto leaves = {inputs.x, inputs.dt, inputs.B, inputs.C, inputs.D};
  const at::Tensor expected = inputs.position_by_position(), weights = at::randn(expected.sizes());
  const auto expected_gradients = torch::autograd::grad({(expected * weights).sum()}, leaves);
  for (const int64_t chunk_size : {1, 4, 11, 64}) {
    const at::Tensor output = inputs.run(chunk_size);
    EXPECT_TRUE(at::allclose(output, expected, 1e-5, 1e-5)) << chunk_size;
    const auto gradients = torch::autograd::grad({(output * weights).sum()}, leaves);
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(at::allclose(gradients[i], expected_gradients[i], 1e-4, 1e-4)) << chunk_size << ", leaf " << i;
  }
}

TEST(StateSpace, LongDecaysNeitherOverflowNorCancel) {
  const Mamba2Inputs inputs;
  const at::Tensor output =
      state_space_duality(inputs.x, inputs.dt * 1e4, inputs.A, inputs.B, inputs.C, inputs.D, /*chunk_size=*/4);
  EXPECT_TRUE(output.isfinite().all().item<bool>());
}

TEST(StateSpace, ScanMatchesTheRecurrenceOfMamba) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({kBatch, kSeq, 3}), dt = at::rand({kBatch, kSeq, 3}), A = -at::rand({3, 5});
  const at::Tensor B = at::randn({kBatch, kSeq, 5}), C = at::randn({kBatch, kSeq, 5}), D = at::randn({3});
  const at::Tensor output = selective_scan(x, dt, A, B, C, D);
  for (int64_t row = 0; row < kBatch; ++row)
    for (int64_t channel = 0; channel < 3; ++channel) {
      at::Tensor state = at::zeros({5});
      for (int64_t t = 0; t < kSeq; ++t) {
        const at::Tensor step = dt[row][t][channel], value = x[row][t][channel];
        state = (A[channel] * step).exp() * state + step * value * B[row][t];
        const at::Tensor expected = state.dot(C[row][t]) + D[channel] * value;
        EXPECT_NEAR(output[row][t][channel].item<double>(), expected.item<double>(), 1e-5);
      }
    }
}

TEST(StateSpace, ConvolutionIsCausal) {
  const at::Tensor weight = at::randn({3, 1, 4}), bias = at::randn({3}), x = at::randn({kBatch, kSeq, 3});
  at::Tensor changed = x.clone();
  changed.narrow(1, 6, kSeq - 6).fill_(9.0);
  const at::Tensor output = causal_conv1d(x, weight, bias), other = causal_conv1d(changed, weight, bias);
  EXPECT_TRUE(at::equal(output.narrow(1, 0, 6), other.narrow(1, 0, 6)));
  const at::Tensor sixth = (x.narrow(1, 2, 4) * weight.squeeze(1).t()).sum(1) + bias;
  EXPECT_TRUE(at::allclose(output.select(1, 5), sixth, 1e-5, 1e-5));
}

TEST(StateSpace, GroupedNormMatchesTheNormOfEachGroup) {
  const at::Tensor x = at::randn({kBatch, kSeq, 6}), gate = at::randn({kBatch, kSeq, 6}), weight = at::randn({6});
  const at::Tensor output = gated_rms_norm(x, gate, weight, /*groups=*/2, 1e-6);
  for (int64_t group = 0; group < 2; ++group) {
    const auto part = [&](const at::Tensor& value) { return value.narrow(-1, 3 * group, 3); };
    const at::Tensor expected = plain::rms_norm(part(x) * at::silu(part(gate)), part(weight), 1e-6);
    EXPECT_TRUE(at::allclose(part(output), expected, 1e-5, 1e-6));
  }
}

TEST(StateSpace, StepBiasesInvertSoftplus) {
  at::Tensor bias = at::empty({1000});
  init::step_biases_(bias, 0.001, 0.1, 0.01);
  const at::Tensor step = at::softplus(bias);
  EXPECT_NEAR(step.min().item<double>(), 0.01, 1e-5);
  EXPECT_LE(step.max().item<double>(), 0.1 + 1e-5);
  EXPECT_NEAR(step.log().median().item<double>(), std::log(0.01), 0.3) << "logarithms are uniform";
}

}  // namespace
}  // namespace modular
