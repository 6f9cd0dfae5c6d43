// Initial values by counter: against Random123's published words, closed forms of the distributions, and each part
// against the whole.
#include "runtime/parallel/draws.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace modular {
namespace {

using init::Distribution;
using Kind = Distribution::Kind;

at::Tensor drawn(const Distribution& from, std::vector<int64_t> shape, uint64_t key = 7) {
  const std::vector<int64_t> origin(shape.size(), 0);
  return draw_part(from, key, shape, origin, shape);
}

/// The largest distance between a sample's distribution and that of `cumulative` (Kolmogorov & Smirnov), times the root
/// of the sample's size: above 1.95 once in a thousand samples.
template <class Cumulative>
double distance(const at::Tensor& sample, const Cumulative& cumulative) {
  const at::Tensor sorted = std::get<0>(sample.flatten().sort());
  const auto* values = sorted.const_data_ptr<float>();
  const auto size = static_cast<double>(sorted.numel());
  double largest = 0.0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const double expected = cumulative(static_cast<double>(values[i]));
    largest =
        std::max({largest, expected - static_cast<double>(i) / size, static_cast<double>(i + 1) / size - expected});
  }
  return largest * std::sqrt(size);
}

double normal_cumulative(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(Draws, AreTheWordsOfRandom123) {
  // kat_vectors of Random123: philox4x32-10 of counter 0 and key 0.
  const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const at::Tensor uniform = drawn({Kind::uniform, 0.0, 1.0}, {64}, /*key=*/0);
  for (int64_t word = 0; word < 4; ++word)
    EXPECT_EQ(uniform[16 * word].item<float>(), (static_cast<float>(words[word] >> 9) + 0.5F) / 8388608.0F);
}

TEST(Draws, HaveTheirDistributions) {
  const at::Tensor normal = drawn({Kind::normal, 3.0, 0.5}, {1000, 1000});
  EXPECT_LT(distance(normal, [](double x) { return normal_cumulative((x - 3.0) / 0.5); }), 1.95);
  EXPECT_NEAR(normal.to(at::kDouble).mean().item<double>(), 3.0, 0.5 * 4e-3);
  EXPECT_GT((normal - 3.0).abs().max().item<double>(), 0.5 * 4.3) << "tails";
  const at::Tensor uniform = drawn({Kind::uniform, -2.0, 6.0}, {1000, 1000});
  EXPECT_LT(distance(uniform, [](double x) { return std::clamp((x + 2.0) / 8.0, 0.0, 1.0); }), 1.95);
  const at::Tensor cut = drawn({Kind::normal, 0.0, 0.02, 2.0}, {1000, 1000});
  EXPECT_LE(cut.abs().max().item<double>(), 0.04 + 1e-9);
  const double share = normal_cumulative(2.0) - normal_cumulative(-2.0);
  EXPECT_LT(distance(cut,
                     [&](double x) {
                       return std::clamp((normal_cumulative(x / 0.02) - normal_cumulative(-2.0)) / share, 0.0, 1.0);
                     }),
            1.95);
  EXPECT_TRUE(drawn({Kind::constant, 1.5}, {3, 5}).eq(1.5).all().item<bool>());
}

TEST(Draws, OfOneElementTellNothingOfAnother) {
  const at::Tensor values = drawn({Kind::normal, 0.0, 1.0}, {1 << 20});
  for (const int64_t lag : {1, 4, 16, 64, 1024}) {
    const double product =
        (values.narrow(0, 0, values.numel() - lag) * values.narrow(0, lag, values.numel() - lag)).mean().item<double>();
    EXPECT_LT(std::abs(product), 4e-3) << lag;
  }
  const at::Tensor other = drawn({Kind::normal, 0.0, 1.0}, {1 << 20}, /*key=*/8);
  EXPECT_LT(std::abs((values * other).mean().item<double>()), 4e-3) << "of another key";
}

TEST(Draws, OfAPartAreThoseOfTheWhole) {
  const Distribution from{.kind = Kind::normal, .second = 1.0, .zero_row = 4};
  const std::vector<int64_t> shape = {7, 5, 131};
  const at::Tensor whole = drawn(from, shape);
  EXPECT_TRUE(whole[4].eq(0).all().item<bool>());
  EXPECT_EQ(whole.eq(0).sum().item<int64_t>(), 5 * 131);
  for (const auto& [offset, size] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{0, 0, 0}, {1, 1, 1}},
                                                                          {{3, 1, 63}, {4, 3, 2}},
                                                                          {{2, 4, 130}, {5, 1, 1}},
                                                                          {{6, 0, 1}, {1, 5, 130}},
                                                                          {{1, 0, 0}, {0, 5, 131}}}) {
    at::Tensor expected = whole;
    for (int64_t dim = 0; dim < 3; ++dim)
      expected = expected.narrow(dim, offset[static_cast<size_t>(dim)], size[static_cast<size_t>(dim)]);
    EXPECT_TRUE(draw_part(from, 7, shape, offset, size).equal(expected));
  }
  EXPECT_TRUE(drawn(from, {655}).narrow(0, 100, 555).equal(draw_part(from, 7, {655}, {100}, {555})));
  EXPECT_EQ(drawn({Kind::uniform, 0.0, 1.0}, {}).dim(), 0);
}

}  // namespace
}  // namespace modular
