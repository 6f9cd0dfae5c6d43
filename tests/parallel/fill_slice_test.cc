// Counter-based initial values, compared with libtorch's Philox and its quantiles in double precision, with closed
// forms of the distributions, and each rank's slice with the full tensor.
#include "runtime/parallel/random/initialization.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/parallel/fsdp/unit_layout.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

using init::Distribution;
using Kind = Distribution::Kind;
using Shape = std::vector<int64_t>;

constexpr uint64_t kKey = 7;

at::Tensor filled_part(const Distribution& from, const Shape& full, const Shape& offset, const Shape& shape,
                       uint64_t key = kKey) {
  const at::Tensor part = at::full(shape, std::nan(""), at::kFloat);
  fill_slice(from, key, full, offset, part);
  return part;
}

at::Tensor filled(const Distribution& from, const Shape& shape, uint64_t key = kKey) {
  return filled_part(from, shape, Shape(shape.size(), 0), shape, key);
}

/// Philox words of elements first … first + count - 1, int64.
at::Tensor split_words(uint64_t key, int64_t first, int64_t count) {
  const at::Tensor words = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = first + i;
    at::Philox4_32 engine(key, /*subsequence=*/0, /*offset=*/static_cast<uint64_t>(element / 64 * 16 + element % 16));
    uint32_t word = 0;
    for (int64_t i = 0; i <= element / 16 % 4; ++i) word = engine();
    words.mutable_data_ptr<int64_t>()[i] = word;
  }
  return words;
}

/// Standard normal values of words, in double precision. Half of the words with the same sign lie below a word's rank.
at::Tensor to_normals(const at::Tensor& words, double cutoff = INFINITY) {
  const double within = std::erf(cutoff / std::sqrt(2.0));
  const at::Tensor rank = words.bitwise_and(0x7fffffff).to(at::kDouble);
  const at::Tensor beyond = (rank + 0.5) * (within / 4294967296.0) + (1.0 - within) / 2;
  return at::where(words.ge(int64_t{1} << 31), 1.0, -1.0) * at::special_ndtri(beyond);
}

double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).abs() / (expected.abs() + 1e-6)).max().item<double>();
}

TEST(PhiloxFill, MatchesLibtorchsPhilox) {
  // Rows whose counters exceed 32 bits.
  const Shape full = {int64_t{1} << 30, 4096}, offset = {(int64_t{1} << 30) - 9, 37}, shape = {9, 300};
  const at::Tensor uniform = filled_part({Kind::uniform, 0.0, 1.0}, full, offset, shape);
  const at::Tensor normal = filled_part({Kind::normal, 0.0, 1.0}, full, offset, shape);
  const at::Tensor cut = filled_part({Kind::normal, 0.0, 1.0, 1.5}, full, offset, shape);
  for (int64_t row = 0; row < shape[0]; ++row) {
    const at::Tensor words = split_words(kKey, (offset[0] + row) * full[1] + offset[1], shape[1]);
    EXPECT_TRUE(uniform[row].equal(words.bitwise_right_shift(8).to(at::kFloat) / 16777216.0F));
    EXPECT_LT(largest_error(normal[row], to_normals(words)), 6e-7);
    EXPECT_LT(largest_error(cut[row], to_normals(words, 1.5)), 6e-7);
  }
}

TEST(PhiloxFill, IsPreciseInTheTailsAndInTheMiddle) {
  // Some of the largest and smallest deviations among 10^8 words of this key.
  for (const int64_t element : {62450827, 33052992, 52246487, 83691151, 47147813}) {
    const at::Tensor found = filled_part({Kind::normal, 0.0, 1.0}, {100000000}, {element}, {1});
    const double expected = to_normals(split_words(kKey, element, 1)).item<double>();
    EXPECT_TRUE(std::abs(expected) > 5.5 || std::abs(expected) < 1e-6) << expected;
    EXPECT_NEAR(found.item<double>() / expected, 1.0, 6e-7);
  }
}

TEST(PhiloxFill, IsBitwiseTheSameOnEveryCpu) {
  const at::Tensor normal = filled({Kind::normal, 0.0, 1.0}, {64}, /*key=*/0);
  const float expected[4] = {0x1.05f4a0p-2F, -0x1.3769e6p-2F, -0x1.70b902p-1F, -0x1.403c4ap+0F};
  for (int64_t word = 0; word < 4; ++word) EXPECT_EQ(normal[16 * word].item<float>(), expected[word]);
}

/// Kolmogorov-Smirnov statistic: the largest distance between a sample's distribution and `cumulative`, times the
/// square root of the sample size. Above 1.95 once in a thousand samples.
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

TEST(PhiloxFill, FollowsItsDistributions) {
  const at::Tensor normal = filled({Kind::normal, 3.0, 0.5}, {1000, 1000});
  EXPECT_LT(distance(normal, [](double x) { return normal_cumulative((x - 3.0) / 0.5); }), 1.95);
  EXPECT_NEAR(normal.to(at::kDouble).mean().item<double>(), 3.0, 0.5 * 4e-3);
  EXPECT_NEAR(normal.to(at::kDouble).std().item<double>(), 0.5, 0.5 * 4e-3);
  const at::Tensor uniform = filled({Kind::uniform, -2.0, 6.0}, {1000, 1000});
  EXPECT_LT(distance(uniform, [](double x) { return std::clamp((x + 2.0) / 8.0, 0.0, 1.0); }), 1.95);
  EXPECT_GE(uniform.min().item<double>(), -2.0);
  EXPECT_LE(uniform.max().item<double>(), 6.0);
  const at::Tensor cut = filled({Kind::normal, 0.0, 0.02, 2.0}, {1000, 1000});
  EXPECT_LE(cut.abs().max().item<double>(), 0.04 + 1e-8);
  const double within = normal_cumulative(2.0) - normal_cumulative(-2.0);
  const auto cumulative = [&](double x) {
    return std::clamp((normal_cumulative(x / 0.02) - normal_cumulative(-2.0)) / within, 0.0, 1.0);
  };
  EXPECT_LT(distance(cut, cumulative), 1.95);
  EXPECT_TRUE(filled({Kind::constant, 1.5}, {3, 5}).eq(1.5).all().item<bool>());
}

TEST(PhiloxFill, ElementsAreUncorrelated) {
  const at::Tensor values = filled({Kind::normal, 0.0, 1.0}, {1 << 20});
  const auto correlation = [&](const at::Tensor& a, const at::Tensor& b) {
    return std::abs((a * b).to(at::kDouble).mean().item<double>());
  };
  const int64_t size = values.numel();
  for (const int64_t lag : {1, 4, 16, 64, 1024})
    EXPECT_LT(correlation(values.narrow(0, 0, size - lag), values.narrow(0, lag, size - lag)), 4e-3) << lag;
  EXPECT_LT(correlation(values, filled({Kind::normal, 0.0, 1.0}, {size}, kKey + 1)), 4e-3) << "different key";
}

TEST(PhiloxFill, SliceMatchesTheFullTensor) {
  const Distribution from{.kind = Kind::normal, .second = 1.0, .zero_row = 4};
  const Shape shape = {7, 5, 131};
  const at::Tensor full = filled(from, shape);
  EXPECT_TRUE(full[4].eq(0).all().item<bool>());
  EXPECT_EQ(full.eq(0).sum().item<int64_t>(), 5 * 131);
  for (const auto& [offset, size] : std::vector<std::pair<Shape, Shape>>{{{0, 0, 0}, {1, 1, 1}},
                                                                         {{3, 1, 63}, {4, 3, 2}},
                                                                         {{2, 4, 130}, {5, 1, 1}},
                                                                         {{2, 1, 0}, {4, 3, 131}},
                                                                         {{6, 0, 1}, {1, 5, 130}},
                                                                         {{1, 0, 0}, {0, 5, 131}}}) {
    at::Tensor expected = full;
    for (size_t dim = 0; dim < 3; ++dim) expected = expected.narrow(static_cast<int64_t>(dim), offset[dim], size[dim]);
    EXPECT_TRUE(filled_part(from, shape, offset, size).equal(expected));
    // Writes into views of another tensor, into non-contiguous memory, and into other types.
    const at::Tensor larger = at::zeros({9, 6, 140});
    at::Tensor view = larger;
    for (size_t dim = 0; dim < 3; ++dim) view = view.narrow(static_cast<int64_t>(dim), 1, size[dim]);
    fill_slice(from, kKey, shape, offset, view);
    EXPECT_TRUE(view.equal(expected));
    EXPECT_EQ(larger.ne(0).sum().item<int64_t>(), expected.ne(0).sum().item<int64_t>());
    const at::Tensor turned = at::zeros({size[2], size[1], size[0]}).transpose(0, 2);
    fill_slice(from, kKey, shape, offset, turned);
    EXPECT_TRUE(turned.equal(expected));
    const at::Tensor rounded = at::zeros(size, at::kBFloat16);
    fill_slice(from, kKey, shape, offset, rounded);
    EXPECT_TRUE(rounded.equal(expected.to(at::kBFloat16)));
  }
  // Uses more than one thread.
  const at::Tensor many = filled(from, {100000});
  EXPECT_TRUE(filled_part(from, {100000}, {101}, {70000}).equal(many.narrow(0, 101, 70000)));
  EXPECT_EQ(filled({Kind::uniform, 5.0, 6.0}, {}).ge(5.0).item<bool>(), true);
}

// ---- Slices of ranks ----

struct OnRanks {
  const char* name;
  Shape shape;
  std::optional<int64_t> split;
  std::vector<SplitPart> parts;
};

void PrintTo(const OnRanks& one, std::ostream* out) { *out << one.name; }

class SlicesOnRanks : public testing::TestWithParam<OnRanks> {};

/// Initializes one rank's slices in each way that parameters are initialized.
std::vector<ShardedParameter> fill_on_rank(const OnRanks& layout_case, int64_t tp, int64_t tp_rank, int64_t shards,
                                           int64_t shard) {
  const std::vector<std::function<void(const Tensor&)>> ways = {
      [](const Tensor& parameter) { init::normal_(parameter, 0.5, 2.0); },
      [](const Tensor& parameter) { init::uniform_(parameter, -1.0, 3.0); },
      [](const Tensor& parameter) { init::truncated_normal_(parameter, 0.3, 2.0); },
      [](const Tensor& parameter) { init::fill(parameter, [](Tensor& full) { full.normal_().exp_(); }); }};
  ModelParameter parameter;
  parameter.global_shape = layout_case.shape, parameter.tensor_split = layout_case.split,
  parameter.parts = layout_case.parts;
  std::vector<ShardedParameter> kept;
  for (size_t way = 0; way < ways.size(); ++way) {
    UnitLayout layout(shards);
    const at::Tensor registered = at::empty(layout_case.shape, at::kMeta);
    layout.add(registered, local_shape(parameter, tp, tp_rank));
    const ParameterPlacement& placement = layout.parameters[0];
    const auto [first_row, rows] = layout.get_rows(placement, shard);
    ShardedParameter& slice = kept.emplace_back();
    slice.name = "layers.0.weight";
    slice.global_shape = layout_case.shape;
    slice.slices = get_slices_on_rank(parameter, tp, tp_rank, {placement.dim, first_row, rows});
    slice.local = layout.local(at::full({layout.shard_size}, std::nan("")), placement, shard);
    SliceInitializer initializer(/*seed=*/3);
    initializer.add(registered, slice);
    const Binding binding({.initializer = &initializer});
    ways[way](registered);
  }
  return kept;
}

TEST_P(SlicesOnRanks, MatchOneProcess) {
  const OnRanks& layout_case = GetParam();
  const std::vector<ShardedParameter> full = fill_on_rank(layout_case, 1, 0, 1, 0);
  for (const int64_t tp : {1, 2, 4}) {
    for (const int64_t shards : {1, 3, 4}) {
      std::vector<int64_t> counted(full.size(), 0);
      for (int64_t rank = 0; rank < tp * shards; ++rank) {
        const std::vector<ShardedParameter> kept = fill_on_rank(layout_case, tp, rank / shards, shards, rank % shards);
        for (size_t way = 0; way < kept.size(); ++way) {
          EXPECT_FALSE(kept[way].local.isnan().any().item<bool>()) << "not initialized";
          for (const ParameterSlice& slice : kept[way].slices) {
            const at::Tensor part = slice.in_local(kept[way].local);
            EXPECT_TRUE(part.equal(slice.in_global(full[way].local))) << "tp " << tp << ", shards " << shards;
            // The first tp rank owns a value that tp does not shard.
            if (slice.owner) counted[way] += part.numel();
          }
        }
      }
      for (size_t way = 0; way < full.size(); ++way) EXPECT_EQ(counted[way], full[way].local.numel());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SlicesOnRanks,
    testing::Values(
        OnRanks{"full", {12, 70}, {}, {}}, OnRanks{"rows", {12, 70}, 0, {{.size = 12}}},
        OnRanks{"columns", {12, 72}, 1, {{.size = 72}}}, OnRanks{"few_rows", {3, 72}, {}, {}},
        OnRanks{"few_rows_uneven", {2, 50}, {}, {}}, OnRanks{"few_rows_uneven_split", {2, 20, 35}, 1, {{.size = 20}}},
        OnRanks{"few_rows_split", {2, 24, 36}, 1, {{.size = 24}}},
        OnRanks{"vocabulary", {21, 33}, 0, {{.size = 21, .may_be_uneven = true}}},
        OnRanks{"tiny_vocabulary", {2, 33}, 0, {{.size = 2, .may_be_uneven = true}}},
        OnRanks{
            "fused_with_shared_heads", {16, 30}, 0, {{.size = 8}, {.size = 4, .slices = 2}, {.size = 4, .slices = 2}}},
        OnRanks{"biases", {10}, {}, {}}, OnRanks{"sinks", {12}, 0, {{.size = 12}}}, OnRanks{"number", {}, {}, {}}),
    [](const auto& info) { return info.param.name; });

TEST(SliceInitializer, LeavesLibtorchsGeneratorAsItWas) {
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  fill_on_rank({"full", {5, 7}, {}, {}}, 1, 0, 1, 0);
  EXPECT_TRUE(generator.get_state().equal(before));
}

TEST(SliceInitializer, DependsOnNameAndSeed) {
  const auto filled_as = [](const char* name, uint64_t seed) {
    const at::Tensor registered = at::empty({2}, at::kMeta);
    ShardedParameter slice;
    slice.name = name, slice.global_shape = {2}, slice.local = at::zeros({2});
    slice.slices = {{.offset = {0}, .start = {0}, .shape = {2}}};
    SliceInitializer initializer(seed);
    initializer.add(registered, slice);
    const Binding binding({.initializer = &initializer});
    init::normal_(registered, 0.0, 1.0);
    return slice.local;
  };
  EXPECT_TRUE(filled_as("a", 1).equal(filled_as("a", 1)));
  EXPECT_TRUE(filled_as("a", 1).ne(filled_as("b", 1)).all().item<bool>());
  EXPECT_TRUE(filled_as("a", 1).ne(filled_as("a", 2)).all().item<bool>());
}

/// A linear layer and a table, and no reset_parameters() of its own.
struct Layers : Module {
  Layers() { register_layers(); }
  explicit Layers(double initial_std) : Module(initial_std) { register_layers(); }
  void register_layers() {
    layer = register_module("layer", linear(40, 50, /*bias=*/true));
    table = register_module("table", embedding(60, 40, /*padding_idx=*/-1));
  }
  nn::Linear layer{nullptr};
  nn::Embedding table{nullptr};
};

TEST(InitialStd, IsThatOfTheWeightsOfLayers) {
  const auto layers = std::make_shared<Layers>(0.5);
  init::reset(*layers);
  EXPECT_NEAR(layers->layer->weight.std().item<double>(), 0.5, 0.03);
  EXPECT_NEAR(layers->table->weight.std().item<double>(), 0.5, 0.03);
  EXPECT_EQ(layers->layer->bias.count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(layers->table->weight[59].count_nonzero().item<int64_t>(), 0) << "the padding index";
}

TEST(InitialStd, HasNoDefault) {
  const auto layers = std::make_shared<Layers>();
  ShardedParameter slice;
  slice.name = "layer.weight", slice.global_shape = {50, 40}, slice.local = at::zeros({50, 40});
  slice.slices = {{.offset = {0, 0}, .start = {0, 0}, .shape = {50, 40}}};
  SliceInitializer initializer(/*seed=*/1);
  initializer.add(layers->layer->weight, slice);
  try {
    initializer.run(*layers);
    ADD_FAILURE() << "the layer was not initialized";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("no reset_parameters() initializes layer.weight: pass the standard"));
  }
}

}  // namespace
}  // namespace modular
