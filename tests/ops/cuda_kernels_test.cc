// The CUDA kernels on CPU threads (cuda_on_cpu/) against the plain ATen forms in float64: values and gradients, for
// both element types, single and multiple rows that fill no warp, aligned and not.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "runtime/model/dropout.h"
#include "runtime/model/functions.h"
#include "runtime/ops/adamw.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/float8.h"

namespace modular {
namespace {

template <class T>
constexpr at::ScalarType kType = std::is_same_v<T, float> ? at::kFloat : at::kBFloat16;
template <class T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 8e-3;

template <class T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

/// The same values at an address that is not a multiple of 16 bytes.
Tensor misaligned(const Tensor& tensor) {
  const Tensor memory = at::empty({tensor.numel() + 1}, tensor.options());
  return memory.narrow(0, 1, tensor.numel()).view(tensor.sizes()).copy_(tensor);
}

/// Expects the norm of the difference to be small.
void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  const Tensor wide = expected.detach().to(at::kDouble);
  const double difference = (found.to(at::kDouble) - wide).norm().item<double>();
  EXPECT_LE(difference, tolerance * (wide.norm().item<double>() + 1e-6)) << what << " of " << expected.sizes();
}

/// A leaf with the same values in float64.
Tensor leaf(const Tensor& tensor) { return tensor.to(at::kDouble).detach().requires_grad_(); }

template <class T>
class CudaKernels : public ::testing::Test {
 protected:
  using Launch = cuda::Launch<T>;

  static Tensor random(at::IntArrayRef shape) { return at::randn(shape).to(kType<T>); }
  static Tensor like(const Tensor& tensor) { return at::full_like(tensor, NAN); }
  static Tensor floats(at::IntArrayRef shape) { return at::full(shape, NAN, at::kFloat); }
};

using Types = ::testing::Types<float, __nv_bfloat16>;
TYPED_TEST_SUITE(CudaKernels, Types);

/// Calls run(hidden, aligned, rows) for rows that one warp or one block keeps in registers, and for rows that are read
/// in loops. The number of rows is not a multiple of any block's rows.
template <class Run>
void for_each_row_shape(const Run& run) {
  const auto with = [&](bool aligned, std::initializer_list<int64_t> sizes) {
    for (const int64_t hidden : sizes) {
      SCOPED_TRACE(::testing::Message() << (aligned ? "aligned" : "misaligned") << " rows of " << hidden);
      run(hidden, aligned, hidden <= 1024 ? 21 : 5);
    }
  };
  with(/*aligned=*/true, {7, 64, 255, 256, 520, 768, 1024, 1032, 2048, 4096, 5000, 8192, 8200});
  with(/*aligned=*/false, {7, 64, 768, 1032, 2048, 8200});
}
/// Two blocks share the rows, so that a warp processes several rows; with a single row, one block has none.
constexpr int64_t kBlocks = 2;

TYPED_TEST(CudaKernels, RmsNorm) {
  using T = TypeParam;
  for_each_row_shape([&](int64_t hidden, bool aligned, int64_t rows) {
    for (const bool wide : {false, true}) {
      if (wide && std::is_same_v<T, float>) continue;  // the same kernels
      const auto align = [&](const Tensor& tensor) { return aligned ? tensor : misaligned(tensor); };
      const Tensor x = align(this->random({rows, hidden})), grad = align(this->random({rows, hidden}));
      const Tensor weight = align(wide ? at::randn({hidden}) : this->random({hidden}));
      const Tensor y = align(this->like(x)), dx = align(this->like(x)), inverse = this->floats({rows});
      const Tensor partial = this->floats({kBlocks, hidden});
      TestFixture::Launch::rms_norm(data<T>(x), weight.data_ptr(), wide, data<T>(y), data<float>(inverse), rows, hidden,
                                    1e-5f, nullptr);
      TestFixture::Launch::rms_norm_backward(data<T>(grad), data<T>(x), weight.data_ptr(), wide, data<float>(inverse),
                                             data<T>(dx), data<float>(partial), kBlocks, rows, hidden, nullptr);
      const Tensor x_leaf = leaf(x), weight_leaf = leaf(weight);
      const Tensor expected = plain::rms_norm(x_leaf, weight_leaf, 1e-5);
      const auto gradients = torch::autograd::grad({expected}, {x_leaf, weight_leaf}, {grad.to(at::kDouble)});
      expect_near(y, expected, kTolerance<T>, "y");
      expect_near(dx, gradients[0], kTolerance<T>, "the gradient of x");
      // Sums of float32 products, for both element types.
      expect_near(partial.sum(0), gradients[1], kTolerance<float>, "the gradient of the weight");
    }
  });
}

TYPED_TEST(CudaKernels, LayerNorm) {
  using T = TypeParam;
  for_each_row_shape([&](int64_t hidden, bool aligned, int64_t rows) {
    const auto align = [&](const Tensor& tensor) { return aligned ? tensor : misaligned(tensor); };
    const Tensor x = align(this->random({rows, hidden}) + 1), grad = align(this->random({rows, hidden}));
    const Tensor weight = align(this->random({hidden})), bias = align(this->random({hidden}));
    const Tensor y = align(this->like(x)), dx = align(this->like(x)), partial = this->floats({2, kBlocks, hidden});
    const Tensor mean = this->floats({rows}), inverse = this->floats({rows});
    TestFixture::Launch::layer_norm(data<T>(x), data<T>(weight), data<T>(bias), data<T>(y), data<float>(mean),
                                    data<float>(inverse), rows, hidden, 1e-5f, nullptr);
    TestFixture::Launch::layer_norm_backward(data<T>(grad), data<T>(x), data<T>(weight), data<float>(mean),
                                             data<float>(inverse), data<T>(dx), data<float>(partial), kBlocks, rows,
                                             hidden, nullptr);
    const Tensor x_leaf = leaf(x), weight_leaf = leaf(weight), bias_leaf = leaf(bias);
    const Tensor expected = at::layer_norm(x_leaf, {hidden}, weight_leaf, bias_leaf, 1e-5);
    const auto gradients = torch::autograd::grad({expected}, {x_leaf, weight_leaf, bias_leaf}, {grad.to(at::kDouble)});
    expect_near(y, expected, kTolerance<T>, "y");
    expect_near(mean, x_leaf.mean(-1), kTolerance<float>, "the mean");
    expect_near(inverse, (x_leaf.var(-1, /*unbiased=*/false) + 1e-5).rsqrt(), kTolerance<float>, "1 / deviation");
    expect_near(dx, gradients[0], kTolerance<T>, "the gradient of x");
    expect_near(partial[0].sum(0), gradients[1], kTolerance<float>, "the gradient of the weight");
    expect_near(partial[1].sum(0), gradients[2], kTolerance<float>, "the gradient of the bias");
  });
}

TYPED_TEST(CudaKernels, LayerNormWithoutWeightAndBias) {
  using T = TypeParam;
  for (const int64_t hidden : {7, 64}) {
    const int64_t rows = 1;
    const Tensor x = this->random({rows, hidden}), grad = this->random({rows, hidden});
    const Tensor y = this->like(x), dx = this->like(x), mean = this->floats({rows}), inverse = this->floats({rows});
    const Tensor partial = this->floats({2, kBlocks, hidden});
    TestFixture::Launch::layer_norm(data<T>(x), nullptr, nullptr, data<T>(y), data<float>(mean), data<float>(inverse),
                                    rows, hidden, 1e-5f, nullptr);
    TestFixture::Launch::layer_norm_backward(data<T>(grad), data<T>(x), nullptr, data<float>(mean),
                                             data<float>(inverse), data<T>(dx), data<float>(partial), kBlocks, rows,
                                             hidden, nullptr);
    const Tensor x_leaf = leaf(x);
    const Tensor expected = at::layer_norm(x_leaf, {hidden}, {}, {}, 1e-5);
    expect_near(y, expected, kTolerance<T>, "y");
    expect_near(dx, torch::autograd::grad({expected}, {x_leaf}, {grad.to(at::kDouble)})[0], kTolerance<T>,
                "the gradient of x");
    expect_near(partial[1].sum(0), grad[0], kTolerance<float>, "the sums, including a block without rows");
  }
}

TEST(CudaNorms, BackwardScalesBlocksWithRows) {
  for (const bool is_layer_norm : {false, true})
    for (const int64_t hidden : {1, 768, 1024, 8192, 100000}) {
      EXPECT_EQ(cuda::norm_backward_blocks(is_layer_norm, 0, hidden), 1);
      EXPECT_EQ(cuda::norm_backward_blocks(is_layer_norm, 24, hidden), hidden <= 1024 ? 3 : 24);
      EXPECT_EQ(cuda::norm_backward_blocks(is_layer_norm, 1 << 20, hidden) % 132, 0);
    }
}

TYPED_TEST(CudaKernels, GatedActivation) {
  using T = TypeParam;
  for (const int64_t count : {1, 7, 8, 2051}) {
    for (const bool is_silu : {false, true}) {
      const Tensor gate = this->random({count}), up = this->random({count}), grad = this->random({count});
      const Tensor y = this->like(gate), dgate = this->like(gate), dup = this->like(gate);
      TestFixture::Launch::gated(is_silu, data<T>(gate), data<T>(up), data<T>(y), count, nullptr);
      TestFixture::Launch::gated_backward(is_silu, data<T>(grad), data<T>(gate), data<T>(up), data<T>(dgate),
                                          data<T>(dup), count, nullptr);
      const Tensor gate_leaf = leaf(gate), up_leaf = leaf(up);
      const Tensor expected = plain::gated_activation(is_silu ? "silu" : "gelu_pytorch_tanh", gate_leaf, up_leaf);
      const auto gradients = torch::autograd::grad({expected}, {gate_leaf, up_leaf}, {grad.to(at::kDouble)});
      expect_near(y, expected, kTolerance<T>, "y");
      expect_near(dgate, gradients[0], kTolerance<T>, "the gradient of the gate");
      expect_near(dup, gradients[1], kTolerance<T>, "the gradient of the gated value");
    }
  }
}

TYPED_TEST(CudaKernels, Rotary) {
  using T = TypeParam;
  const int64_t batch = 2, heads = 3, seq = 5;
  for (const int64_t dim : {2, 6, 16, 64}) {
    for (const int64_t tables : {int64_t{1}, batch}) {
      // In the memory layout of projections: positions before heads, adjacent in a larger row.
      const Tensor x = this->random({batch, seq, heads + 1, dim}).narrow(2, 1, heads).transpose(1, 2);
      const Tensor cos = this->random({tables, seq, dim}), sin = this->random({tables, seq, dim});
      const cuda::RotaryShape shape{batch,       heads,       seq,         dim,
                                    x.stride(0), x.stride(1), x.stride(2), tables == 1 ? 0 : seq * dim};
      const Tensor y = this->like(at::empty({batch, seq, heads, dim}, x.options())), dx = this->like(y);
      TestFixture::Launch::rotary(data<T>(x), data<T>(cos), data<T>(sin), data<T>(y), shape, 1.0f, nullptr);
      TestFixture::Launch::rotary(data<T>(x), data<T>(cos), data<T>(sin), data<T>(dx), shape, -1.0f, nullptr);
      const Tensor x_leaf = leaf(x), wide_cos = cos.to(at::kDouble), wide_sin = sin.to(at::kDouble);
      const Tensor expected = plain::rotary(x_leaf, wide_cos, wide_sin);
      const auto gradients = torch::autograd::grad({expected}, {x_leaf}, {x.to(at::kDouble)});
      expect_near(y.transpose(1, 2), expected, kTolerance<T>, "y");
      expect_near(dx.transpose(1, 2), gradients[0], kTolerance<T>, "the gradient");
    }
  }
}

TYPED_TEST(CudaKernels, CrossEntropy) {
  using T = TypeParam;
  const int64_t rows = 5;
  for (const auto [vocab, row] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {9, 9}, {9, 16}, {256, 256}, {2057, 2057}, {2057, 2064}}) {
    // Including rows with room after them.
    const Tensor logits = (8 * at::randn({rows, row})).to(kType<T>).narrow(1, 0, vocab);
    const Tensor targets = at::randint(0, vocab, {rows}, at::kLong);
    targets[1] = kIgnoredTarget;
    const Tensor losses = this->floats({rows}), log_sum_exp = this->floats({rows}), dlogits = this->like(logits);
    const Tensor grad = at::full({}, 0.5f);
    TestFixture::Launch::cross_entropy(data<T>(logits), data<int64_t>(targets), data<float>(losses),
                                       data<float>(log_sum_exp), rows, vocab, logits.stride(0), kIgnoredTarget,
                                       nullptr);
    TestFixture::Launch::cross_entropy_backward(data<float>(grad), data<T>(logits), data<int64_t>(targets),
                                                data<float>(log_sum_exp), data<T>(dlogits), rows, vocab,
                                                logits.stride(0), dlogits.stride(0), kIgnoredTarget, nullptr);
    const Tensor in_place = at::full({rows, row}, 77.0f, logits.options()).narrow(1, 0, vocab).copy_(logits);
    TestFixture::Launch::cross_entropy_backward(data<float>(grad), data<T>(in_place), data<int64_t>(targets),
                                                data<float>(log_sum_exp), data<T>(in_place), rows, vocab,
                                                in_place.stride(0), in_place.stride(0), kIgnoredTarget, nullptr);
    const Tensor wide = leaf(logits);
    const Tensor expected = at::cross_entropy_loss(wide, targets, {}, at::Reduction::None, kIgnoredTarget);
    const auto gradients = torch::autograd::grad({expected.sum()}, {wide}, {grad.to(at::kDouble)});
    expect_near(losses, expected, 2e-6, "the losses");
    expect_near(log_sum_exp, wide.logsumexp(-1).masked_fill(targets.eq(kIgnoredTarget), 0), 2e-6, "the normalizers");
    expect_near(dlogits, gradients[0], kTolerance<T>, "the gradient");
    expect_near(in_place, gradients[0], kTolerance<T>, "the in-place gradient");
    EXPECT_TRUE(in_place.as_strided({rows, row}, {row, 1}).slice(1, vocab).eq(77.0f).all().template item<bool>());
  }
}

TYPED_TEST(CudaKernels, CrossEntropyWithHiddenClasses) {
  using T = TypeParam;
  const Tensor logits = this->random({2, 300});
  logits.narrow(1, 0, 280).fill_(-INFINITY);
  const Tensor targets = at::full({2}, 290, at::kLong);
  const Tensor losses = this->floats({2}), log_sum_exp = this->floats({2});
  TestFixture::Launch::cross_entropy(data<T>(logits), data<int64_t>(targets), data<float>(losses),
                                     data<float>(log_sum_exp), 2, 300, 300, kIgnoredTarget, nullptr);
  expect_near(log_sum_exp, logits.to(at::kDouble).logsumexp(-1), 2e-6, "the normalizers");
}

TYPED_TEST(CudaKernels, Dropout) {
  using T = TypeParam;
  for (const int64_t columns : {3, 64, 200}) {
    for (const int64_t part : {0, 1}) {
      const Tensor x = this->random({2, 5, columns}), samples = at::tensor({3, 71}, at::kLong);
      const DropoutRng rng = {.samples = samples, .key = 12345, .p = 0.3, .part = part, .first_row = 5 * part};
      const cuda::Drop drop = {.samples = data<int64_t>(samples),
                               .key = rng.key,
                               .threshold = static_cast<uint32_t>(plain::dropout_threshold(rng.p)),
                               .scale = static_cast<float>(1.0 / (1.0 - rng.p)),
                               .first_column = part * columns,
                               .first_row = rng.first_row};
      const Tensor y = this->like(x);
      TestFixture::Launch::dropout(data<T>(x), data<T>(y), drop, 2, 5, columns, nullptr);
      const Tensor expected = plain::dropout(x.to(at::kDouble), rng);
      EXPECT_TRUE(y.eq(0).equal(expected.eq(0))) << "the same elements are dropped";
      expect_near(y, expected, kTolerance<T>, "y");
    }
  }
}

// The update of several tensors at once, aligned and not, matches the CPU's; so do the sums of squares.
TEST(CudaAdamW, MatchesTheCpu) {
  std::vector<AdamWParameter> on_gpu, on_cpu;
  std::vector<Tensor> gradients;
  cuda::AdamWTensors tensors = {};
  for (const int64_t size : {1, 7, 300, 16384, 40001, 1000}) {
    const int64_t first = size == 1000 ? 1 : 0;
    const Tensor gradient = at::randn({size + first}).to(at::kBFloat16).slice(0, first), value = at::randn({size}),
                 mean = at::randn({size}), square = at::randn({size}).square();
    const AdamWParameter& parameter = on_gpu.emplace_back(
        AdamWParameter{value.clone(), mean.clone(), square.clone(), gradient, at::empty_like(gradient)});
    on_cpu.push_back({value, mean, square, gradient, at::empty_like(gradient)});
    gradients.push_back(gradient);
    tensors.items[tensors.count++] = {data<__nv_bfloat16>(gradient),
                                      data<float>(parameter.value),
                                      data<float>(parameter.exp_avg),
                                      data<float>(parameter.exp_avg_sq),
                                      data<__nv_bfloat16>(parameter.compute_copy),
                                      size,
                                      first == 0};
  }
  const AdamWFactors factors = adamw_factors(1e-2, 0.9, 0.98, 1e-8, 0.1, 3);
  const Tensor divisor = at::full({}, 2.5f), skipped = at::zeros({});
  cuda::launch_adamw(tensors, factors, data<float>(divisor), data<float>(skipped), nullptr);
  adamw(on_cpu, factors, divisor, skipped);
  for (size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_TRUE(at::allclose(on_gpu[i].value, on_cpu[i].value, 1e-6, 1e-7));
    EXPECT_TRUE(at::allclose(on_gpu[i].exp_avg, on_cpu[i].exp_avg, 1e-6, 1e-7));
    EXPECT_TRUE(at::allclose(on_gpu[i].exp_avg_sq, on_cpu[i].exp_avg_sq, 1e-6, 1e-7));
    EXPECT_TRUE(on_gpu[i].compute_copy.equal(on_gpu[i].value.to(at::kBFloat16)));
  }
  const Tensor sums = at::full({cuda::count_adamw_blocks(tensors)}, NAN);
  cuda::launch_sums_of_squares(tensors, data<float>(sums), nullptr);
  const double expected = sum_of_squares(gradients).item<double>();
  EXPECT_NEAR(sums.sum(at::kDouble).item<double>(), expected, 1e-6 * expected);
}

// Full and partial tiles, in row-major order and transposed.
TEST(CudaFloat8, MatchesTheCpu) {
  for (const auto type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{16, 16}, {64, 128}, {80, 48}}) {
      const Tensor matrix = at::randn(sizes).to(at::kBFloat16);
      const Float8 expected = to_float8(matrix, type, {.values = true, .transposed = true});
      const Tensor values = at::empty_like(expected.values), transposed = at::empty_like(expected.transposed);
      const Tensor found = at::zeros({}, at::kFloat), scale = at::full({}, NAN, at::kFloat);
      cuda::launch_largest(data<__nv_bfloat16>(matrix), matrix.numel(), data<float>(found), nullptr);
      cuda::launch_to_float8(type == at::kFloat8_e5m2, data<__nv_bfloat16>(matrix), data<float>(found),
                             data<unsigned char>(values), data<unsigned char>(transposed), data<float>(scale), sizes[0],
                             sizes[1], nullptr);
      EXPECT_TRUE(found.equal(expected.largest));
      EXPECT_TRUE(scale.equal(expected.scale));
      EXPECT_TRUE(values.view(at::kByte).equal(expected.values.view(at::kByte)));
      EXPECT_TRUE(transposed.view(at::kByte).equal(expected.transposed.view(at::kByte)));
    }
}

}  // namespace
}  // namespace modular
