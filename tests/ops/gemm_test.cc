// GEMMs with the selected backend against float64: each layout of layers and their gradients, sizes on both sides of
// the selection rule's limits, and a layer's bias.
#include "runtime/ops/cpu/replacements.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/ops/cpu/operations.h"

#include "runtime/model/cache.h"
#include "runtime/ops/cpu/kernels.h"

namespace modular {
namespace {

using at::Tensor;

struct Size {
  int64_t rows, in, out;
};

const Size kSizes[] = {{3, 5, 7},       {64, 256, 255},  {64, 256, 256}, {1, 2048, 2048}, {2048, 2048, 1},
                       {200, 333, 129}, {512, 96, 1000}, {97, 1030, 65}, {33, 4100, 47},  {70, 1100, 1500},
                       {2048, 32, 81},  {77, 160, 90},   {0, 64, 64},    {64, 0, 64}};

double largest_error(const Tensor& found, const Tensor& expected) {
  EXPECT_EQ(found.sizes(), expected.sizes());
  if (expected.numel() == 0) return 0.0;
  return ((found.to(at::kDouble) - expected).abs().max() / (expected.abs().max() + 1e-30)).item<double>();
}

Tensor wide(const Tensor& tensor) { return tensor.to(at::kDouble); }

/// Copies a tensor into a slice of a larger one, so that its rows are not contiguous.
Tensor spread(const Tensor& tensor) {
  return at::zeros({tensor.size(0), tensor.size(1) + 3}, tensor.options()).narrow(1, 1, tensor.size(1)).copy_(tensor);
}

class Gemm : public ::testing::Test {
 protected:
  void SetUp() override {
    cpu::install_gemm();
    at::manual_seed(3);
  }
};

TEST_F(Gemm, IsCorrectInEachLayout) {
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

TEST_F(Gemm, AddsABiasOrAnyOtherTensor) {
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

TEST_F(Gemm, OfABatchIsCorrectInEachLayout) {
  for (const auto& [rows, in, out] : {Size{40, 70, 90}, Size{256, 64, 256}, Size{33, 1100, 47}}) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out);
    const Tensor x = at::randn({5, rows, in}), weight = at::randn({5, out, in}), heads = at::randn({rows, 5, in});
    EXPECT_LE(largest_error(at::bmm(x, weight.mT()), wide(x).bmm(wide(weight).mT())), 2e-6);
    EXPECT_LE(largest_error(at::bmm(weight, x.mT()), wide(weight).bmm(wide(x).mT())), 2e-6);
    EXPECT_LE(largest_error(at::bmm(x.mT(), at::ones({5, rows, out})),
                            wide(x).mT().bmm(at::ones({5, rows, out}, at::kDouble))),
              2e-6);
    EXPECT_LE(
        largest_error(at::bmm(heads.transpose(0, 1), weight.mT()), wide(heads).transpose(0, 1).bmm(wide(weight).mT())),
        2e-6);
    // One matrix for the full batch.
    EXPECT_LE(largest_error(at::bmm(x[0].expand({5, rows, in}), weight.mT()),
                            wide(x[0]).expand({5, rows, in}).bmm(wide(weight).mT())),
              2e-6);
    const Tensor half = x.to(at::kBFloat16), other = weight.to(at::kBFloat16);
    EXPECT_LE(largest_error(at::bmm(half, other.mT()), wide(half).bmm(wide(other).mT())), 4.1e-3);
  }
}

TEST_F(Gemm, RejectsInvalidOperands) {
  EXPECT_THROW(at::bmm(at::ones({3, 300, 300}), at::ones({2, 300, 300})), c10::Error);

  EXPECT_THROW(at::mm(at::ones({300, 300}), at::ones({299, 300})), c10::Error);
  EXPECT_THROW(at::mm(at::ones({300, 300}), at::ones({300, 300}, at::kDouble)), c10::Error);
  EXPECT_THROW(at::addmm(at::ones({299}), at::ones({300, 300}), at::ones({300, 300})), c10::Error);
}

TEST_F(Gemm, IsDeterministic) {
  const Tensor x = at::randn({700, 300}), weight = at::randn({500, 300}), gradient = at::randn({700, 500});
  EXPECT_TRUE(at::equal(at::mm(x, weight.t()), at::mm(x, weight.t())));
  EXPECT_TRUE(at::equal(at::mm(gradient.t(), x), at::mm(gradient.t(), x)));
}

/// Adjacent magnitudes from 1e-6 to 1e6.
Tensor make_mixed_magnitudes(at::IntArrayRef sizes) {
  return at::randn(sizes) * at::pow(10.0, at::rand(sizes) * 12 - 6);
}

// The largest error of an element, relative to the sum of its terms' magnitudes, to which float32 rounding is relative.
double largest_relative_error(const Tensor& found, const Tensor& left, const Tensor& right) {
  const Tensor expected = wide(left).mm(wide(right)), scale = wide(left).abs().mm(wide(right).abs());
  return ((wide(found) - expected).abs() / (scale + 1e-300)).max().item<double>();
}

TEST_F(Gemm, IsAsExactAsFloat32) {
  const Size sizes[] = {{96, 40, 1200}, {256, 256, 256}, {65, 5000, 64}};
  for (const auto& [rows, in, out] : sizes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out);
    for (const bool spread_out : {false, true}) {
      const Tensor left = spread_out ? make_mixed_magnitudes({rows, in}) : at::randn({rows, in});
      const Tensor right = spread_out ? make_mixed_magnitudes({in, out}) : at::randn({in, out});
      const double mkl_error = largest_relative_error(at::cpu::mm(left, right), left, right);
      EXPECT_LE(largest_relative_error(at::mm(left, right), left, right), std::max(2.0 * mkl_error, 2.5e-7));
    }
  }
}

TEST_F(Gemm, IsExactForIntegersThatFitFloat32) {
  // 12 bits times 12 bits: nothing may be lost, however a backend splits the numbers into parts.
  const Tensor left =
      at::randint(-4095, 4096, {128, 1}).to(at::kFloat).expand({128, 256}) * at::eye(256).narrow(0, 0, 128);
  const Tensor right = at::randint(-4095, 4096, {256, 160}).to(at::kFloat);
  EXPECT_TRUE(at::equal(wide(at::mm(left, right)), wide(left).mm(wide(right))));
}

TEST_F(Gemm, MatchesLibtorchForNonFiniteOperands) {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::max()}) {
    Tensor left = at::randn({160, 200}), right = at::randn({200, 170});
    left[3][5] = value;
    right[7][9] = value;
    EXPECT_TRUE(at::allclose(at::mm(left, right), at::cpu::mm(left, right), 1e-4, 1e-4, /*equal_nan=*/true)) << value;
    const Tensor bias = at::randn({170});
    EXPECT_TRUE(at::allclose(at::addmm(bias, left, right), at::cpu::addmm(bias, left, right), 1e-4, 1e-4,
                             /*equal_nan=*/true))
        << value;
  }
}

TEST_F(Gemm, KeepsTheDigitsOfTinyNumbers) {
  const Tensor left = at::randn({160, 200}) * 1e-30, right = at::randn({200, 170}) * 1e25;
  EXPECT_LE(largest_relative_error(at::mm(left, right), left, right), 1e-6);
}

TEST_F(Gemm, RoundsBfloat16Once) {
  for (const auto& [rows, in, out] : kSizes) {
    SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out);
    const auto half = [](at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); };
    const Tensor x = half({rows, in}), weight = half({out, in}), gradient = half({rows, out}), bias = half({out});
    EXPECT_LE(largest_error(at::mm(x, weight.t()), wide(x).mm(wide(weight).t())), 4.1e-3);
    EXPECT_LE(largest_error(at::mm(spread(x), spread(weight).t()), wide(x).mm(wide(weight).t())), 4.1e-3);
    EXPECT_LE(largest_error(at::mm(gradient, weight), wide(gradient).mm(wide(weight))), 4.1e-3);
    EXPECT_LE(largest_error(at::mm(gradient.t(), x), wide(gradient).t().mm(wide(x))), 4.1e-3);
    EXPECT_LE(largest_error(at::addmm(bias, x, weight.t()), wide(x).mm(wide(weight).t()) + wide(bias)), 4.1e-3);
  }
}

/// Copies a tensor to the end of accessible memory; reads past its end fail.
class AtTheEndOfMemory {
 public:
  explicit AtTheEndOfMemory(const Tensor& values) : pages_((values.nbytes() + kPage - 1) / kPage * kPage) {
    memory_ =
        static_cast<char*>(mmap(nullptr, pages_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    TORCH_CHECK(memory_ != MAP_FAILED && mprotect(memory_ + pages_, kPage, PROT_NONE) == 0);
    tensor_ = at::from_blob(memory_ + pages_ - values.nbytes(), values.sizes(), values.options()).copy_(values);
  }
  ~AtTheEndOfMemory() { munmap(memory_, pages_ + kPage); }
  const Tensor& tensor() const { return tensor_; }

 private:
  static constexpr size_t kPage = 1 << 16;
  size_t pages_;
  char* memory_;
  Tensor tensor_;
};

TEST_F(Gemm, ReadsNothingPastItsOperands) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [rows, in, out] :
         {Size{333, 256, 300}, Size{128, 250, 96}, Size{3000, 33, 65}, Size{16, 2048, 512}}) {
      SCOPED_TRACE(::testing::Message() << type << ": " << rows << " x " << in << " x " << out);
      const AtTheEndOfMemory x(at::randn({rows, in}).to(type)), weight(at::randn({out, in}).to(type));
      const AtTheEndOfMemory gradient(at::randn({rows, out}).to(type));
      const Tensor wide_x = wide(x.tensor()), wide_gradient = wide(gradient.tensor());
      EXPECT_LE(largest_error(at::mm(x.tensor(), weight.tensor().t()), wide_x.mm(wide(weight.tensor()).t())), 4.1e-3);
      EXPECT_LE(largest_error(at::mm(gradient.tensor(), weight.tensor()), wide_gradient.mm(wide(weight.tensor()))),
                4.1e-3);
      EXPECT_LE(largest_error(at::mm(gradient.tensor().t(), x.tensor()), wide_gradient.t().mm(wide_x)), 4.1e-3);
    }
}

TEST_F(Gemm, OnAmxDoesNotDependOnTheThreads) {
  if (cpu::gemm_backend() != "AMX") GTEST_SKIP() << "no AMX";
  const Tensor x = at::randn({700, 1300}), weight = at::randn({500, 1300}), gradient = at::randn({700, 500});
  const int threads = at::get_num_threads();
  const auto multiply_with = [&](int count) {
    at::set_num_threads(count);
    return at::cat({at::mm(x, weight.t()).flatten(), at::mm(gradient, weight).flatten(),
                    at::mm(gradient.t(), x).flatten(),
                    at::mm(x.to(at::kBFloat16), weight.to(at::kBFloat16).t()).flatten()});
  };
  const Tensor single = multiply_with(1);
  for (const int count : {2, 3, 4}) EXPECT_TRUE(at::equal(multiply_with(count), single)) << count;
  at::set_num_threads(threads);
  // Nor on the other rows.
  EXPECT_TRUE(at::equal(at::mm(x.narrow(0, 100, 300), weight.t()), at::mm(x, weight.t()).narrow(0, 100, 300)));
}

TEST_F(Gemm, UsesTheRequestedBackend) {
  const char* const requested = std::getenv("MODULAR_CPU_GEMM");
  if (!requested) GTEST_SKIP() << "the CPU decides";
  if (std::string_view(requested) == "mkl") {
    EXPECT_EQ(cpu::gemm_backend(), "MKL");
  } else if (std::string_view(requested) == "amx" && cpu::amx_present()) {
    EXPECT_EQ(cpu::gemm_backend(), "AMX");
  }
}

TEST_F(Gemm, OfFewRowsIsCorrect) {
  const at::NoGradGuard no_grad;
  cache::Cache cache;
  Parallel generating;
  generating.cache = &cache;
  const Binding binding(generating);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t rows : {1, 2, 3, 7, 8, 13, 16, 17})
      for (const auto& [in, out] : {std::pair<int64_t, int64_t>{32, 1}, {96, 5}, {576, 131}, {1536, 64}, {40, 64}}) {
        SCOPED_TRACE(::testing::Message() << type << ' ' << rows << " x " << in << " x " << out);
        const Tensor x = at::randn({rows, in}).to(type), weight = at::randn({out, in}).to(type);
        const Tensor bias = at::randn({out}).to(type), product = wide(x).mm(wide(weight).t());
        const double rounding = type == at::kFloat ? 2e-6 : 8e-3;
        EXPECT_LE(largest_error(at::mm(x, weight.t()), product), rounding);
        EXPECT_LE(largest_error(at::addmm(bias, x, weight.t()), product + wide(bias)), rounding);
        const Tensor strided = at::zeros({rows, 2 * in}, type).narrow(1, 0, in).copy_(x);
        EXPECT_LE(largest_error(at::mm(strided, weight.t()), product), rounding);
        EXPECT_EQ(cpu::skinny_gemm(x, weight.t()).defined(), rows <= 16 && in % 32 == 0);
      }
}

TEST_F(Gemm, OfFewRowsUsesTheLibraryOutsideGeneration) {
  EXPECT_FALSE(cpu::skinny_gemm(at::randn({2, 32}), at::randn({8, 32}).t()).defined());
  const at::NoGradGuard no_grad;  // as in the forward of a recomputed unit
  EXPECT_FALSE(cpu::skinny_gemm(at::randn({2, 32}), at::randn({8, 32}).t()).defined());
}

}  // namespace
}  // namespace modular
