// Ranking of layouts on examples with a known order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/advise/advice.h"
#include "tests/advise/transformer_profile.h"

namespace modular::testing {
namespace {

constexpr DecoderSizes kOneB = {16, 2048, 8192, 32, 8, 128256};

ModelProfile llama(const DecoderSizes& sizes) {
  return decoder_profile(sizes, 2048, {{"none", 0.0}, {"[\"norm\", \"activation\"]", 0.06}, {"full", 1.0}});
}

Cluster h100(int64_t nodes, double between = 25e9) {
  return {.nodes = nodes, .per_node = 8, .memory = 80 * 0x1p30, .link = 450e9, .between = between, .flops = 989e12};
}

LayoutSearch search(const ModelProfile& model, int64_t rows) {
  LayoutSearch all;
  all.rows = rows;
  all.keepings = model.keepings.size();
  all.makes = [layers = model.layers](int64_t stages) { return stages <= layers; };
  return all;
}

Choice estimate_layout(const ModelProfile& model, const Layout& layout, int64_t rows, const Cluster& cluster) {
  PipelineClock clock;
  return estimate(model, layout, rows, cluster, clock);
}

TEST(Layouts, UseAllDevicesWithTensorParallelismInANode) {
  const ModelProfile model = llama(kOneB);
  const Cluster cluster = h100(3);
  const auto layouts = find_layouts(cluster, search(model, 96));
  ASSERT_FALSE(layouts.empty());
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.devices(), 24);
    EXPECT_EQ(8 % layout.tp, 0);
    EXPECT_EQ(96 % (layout.data_parallel() * layout.micro_batches), 0);
    if (layout.pp > 1 && layout.schedule == "interleaved") {
      EXPECT_EQ(layout.micro_batches % layout.pp, 0);
      EXPECT_LE(layout.pp * 2, model.layers);
    }
  }
  const auto has = [&](const Layout& wanted) { return std::ranges::find(layouts, wanted) != layouts.end(); };
  EXPECT_TRUE(has({.dp_replicate = 24, .micro_batches = 4}));
  EXPECT_TRUE(has({.pp = 3, .dp_shard = 8, .zero_stage = 1, .micro_batches = 6}));
  EXPECT_FALSE(has({.dp_shard = 8, .tp = 3}));
}

// cp ranks read the same rows: one row occupies all devices. Without long sequences there are no such layouts.
TEST(Layouts, DivideSequencesOnlyIfTheSearchSaysSo) {
  const ModelProfile model = llama(kOneB);
  LayoutSearch one_row = search(model, 1);
  const auto has_context = [](const Layout& layout) { return layout.cp > 1; };
  EXPECT_TRUE(std::ranges::none_of(find_layouts(h100(1), one_row), has_context));
  one_row.divides_context = [](int64_t cp, int64_t tp) { return cp * tp <= 8; };
  const auto layouts = find_layouts(h100(1), one_row);
  const auto has = [&](const Layout& wanted) { return std::ranges::find(layouts, wanted) != layouts.end(); };
  for (const int64_t stage : {1, 2, 3}) EXPECT_TRUE(has({.cp = 8, .zero_stage = stage}));
  EXPECT_TRUE(has({.cp = 4, .tp = 2}));
  EXPECT_TRUE(has({.pp = 2, .cp = 2, .tp = 2, .keeping = 1}));
  for (const Layout& layout : layouts) {
    EXPECT_EQ(layout.devices(), 8);
    EXPECT_EQ(layout.data_parallel(), 1);
  }
}

TEST(Layouts, AreNamedByTheirAxes) {
  EXPECT_EQ(Layout{}.describe(), "1 device");
  EXPECT_EQ((Layout{.dp_shard = 4, .tp = 2}.describe()), "dp_shard 4 (ZeRO 3) x tp 2");
  EXPECT_EQ((Layout{.pp = 2, .dp_replicate = 2, .dp_shard = 4, .cp = 2, .tp = 8, .zero_stage = 1}.describe()),
            "pp 2 x dp_replicate 2 x dp_shard 4 x cp 2 (ZeRO 1) x tp 8");
  EXPECT_EQ(Layout{.cp = 8}.describe(), "cp 8 (ZeRO 3)");
  EXPECT_FALSE(Layout{.cp = 8}.same_mesh({.dp_shard = 8}));
  EXPECT_TRUE((Layout{.cp = 8}.same_mesh({.cp = 8, .zero_stage = 1, .micro_batches = 4})));
}

TEST(Layouts, AreUnique) {
  const auto layouts = find_layouts(h100(2), search(llama(kOneB), 64));
  for (size_t i = 0; i < layouts.size(); ++i)
    for (size_t j = i + 1; j < layouts.size(); ++j) ASSERT_FALSE(layouts[i] == layouts[j]) << layouts[i].describe();
}

TEST(Order, DataParallelismIsFastestIfTheModelFits) {
  const ModelProfile model = llama(kOneB);
  const Layout best = estimate_all(model, h100(1), search(model, 128)).front().layout;
  EXPECT_EQ(best.data_parallel(), 8);
  EXPECT_EQ(best.keeping, 0U);
  // Tensor parallelism has exposed all-reduces, and pipelines have bubbles.
  const Cluster cluster = h100(1);
  const double ddp = estimate_layout(model, {.dp_replicate = 8}, 128, cluster).time.total;
  EXPECT_LT(ddp, estimate_layout(model, {.tp = 8, .micro_batches = 8}, 128, cluster).time.total);
  EXPECT_LT(ddp, estimate_layout(model, {.pp = 8, .micro_batches = 32}, 128, cluster).time.total);
}

TEST(Order, SlowLinksKeepShardsWithinANode) {
  const ModelProfile model = llama(kLlama3_8B);
  const Cluster slow = h100(8, 1e9);
  // ZeRO 3 gathers and reduces over all links for each micro-batch; replicas all-reduce once per step.
  const double everywhere = estimate_layout(model, {.dp_shard = 64, .micro_batches = 4}, 256, slow).time.total;
  EXPECT_LT(estimate_layout(model, {.dp_replicate = 8, .dp_shard = 8, .micro_batches = 4}, 256, slow).time.total,
            0.5 * everywhere);
  EXPECT_LT(estimate_layout(model, {.pp = 8, .dp_shard = 8, .micro_batches = 32}, 256, slow).time.total,
            0.5 * everywhere);
  // With fast links a pipeline only adds bubbles.
  const Cluster fast = h100(8, 100e9);
  EXPECT_LT(estimate_layout(model, {.dp_shard = 64}, 512, fast).time.total,
            estimate_layout(model, {.pp = 8, .dp_shard = 8, .micro_batches = 32}, 512, fast).time.total);
}

TEST(Order, BubblesShrinkWithMicroBatchesAndStages) {
  const ModelProfile model = llama(kLlama3_8B);
  const auto bubble = [&](const Layout& layout) { return estimate_layout(model, layout, 64, h100(1)).time.bubble; };
  EXPECT_LT(bubble({.pp = 8, .micro_batches = 32}), bubble({.pp = 8, .micro_batches = 8}));
  EXPECT_LT(bubble({.pp = 8, .micro_batches = 32, .schedule = "interleaved"}), bubble({.pp = 8, .micro_batches = 32}));
  EXPECT_LT(bubble({.pp = 8, .micro_batches = 32, .schedule = "zbv"}), bubble({.pp = 8, .micro_batches = 32}));
  // Units that run as one piece leave zbv no weight gradients to fill its bubbles with.
  EXPECT_GT(bubble({.pp = 8, .micro_batches = 32, .schedule = "zbv", .keeping = 2}),
            bubble({.pp = 8, .micro_batches = 32, .schedule = "zbv"}) * 1.5);
}

TEST(Order, RecomputationTradesTimeForMemory) {
  const ModelProfile model = llama(kLlama3_8B);
  const Choice kept = estimate_layout(model, {.dp_shard = 8}, 32, h100(1)),
               recomputed = estimate_layout(model, {.dp_shard = 8, .keeping = 2}, 32, h100(1));
  EXPECT_NEAR(recomputed.time.compute / kept.time.compute, 4.0 / 3.0, 0.05);
  EXPECT_LT(recomputed.estimated.peak, kept.estimated.peak - 0.7 * kept.estimated.activations);
}

constexpr int64_t kLong = 131072;

ModelProfile long_llama(bool exchanges = true, bool sequence = false) {
  ModelProfile model = decoder_profile(kLlama3_8B, kLong, {{"none", 0.0}, {"full", 1.0}}, false, sequence);
  add_contexts(model, kLlama3_8B, {2, 4, 8}, {1, 2, 4, 8}, exchanges);
  return model;
}

// A rank of cp 8 computes an eighth of a row, as one of dp_shard 8 computes an eighth of the rows.
TEST(Context, DividesARowsComputeActivationsAndState) {
  const ModelProfile model = long_llama();
  const Cluster cluster = h100(1);
  const Choice by_rows = estimate_layout(model, {.dp_shard = 8}, 8, cluster),
               by_positions = estimate_layout(model, {.cp = 8, .micro_batches = 8}, 8, cluster);
  EXPECT_NEAR(by_positions.time.compute / by_rows.time.compute, 1.0, 0.01);
  EXPECT_DOUBLE_EQ(by_positions.estimated.parameters, by_rows.estimated.parameters);
  EXPECT_DOUBLE_EQ(by_positions.estimated.optimizer, by_rows.estimated.optimizer);
  EXPECT_DOUBLE_EQ(by_positions.estimated.activations, by_rows.estimated.activations / 8.0);
  EXPECT_GT(by_positions.time.cp.exposed, 0.0);
  EXPECT_EQ(by_positions.time.cp.exposed, by_positions.time.cp.all);  // attention waits for keys
  EXPECT_EQ(by_rows.time.cp.all, 0.0);
}

TEST(Context, GatheredKeysStayUntilTheBackward) {
  const Layout layout{.cp = 8};
  const auto kept = [&](bool exchanges, size_t keeping) {
    Layout with = layout;
    with.keeping = keeping;
    return estimate_layout(long_llama(exchanges), with, 1, h100(1)).estimated;
  };
  // 2 x 8 heads of 128 features of the other ranks' positions in 32 layers, in bfloat16.
  const double keys = 2.0 * 8 * 128 * 32 * 2.0 * kLong * 7.0 / 8.0;
  EXPECT_NEAR(kept(false, 0).activations - kept(true, 0).activations, keys, 1.0);
  EXPECT_DOUBLE_EQ(kept(false, 1).activations, kept(true, 1).activations);
  EXPECT_NEAR(kept(false, 1).working - kept(true, 1).working, keys / 32.0, 1.0);  // of one layer at a time
}

// The last of contiguous ranks sees 2 - 1/n times the keys of the mean one. Zigzag and an exchange of heads balance.
TEST(Context, ContiguousPositionsDelayTheLastRank) {
  ModelProfile model = long_llama(/*exchanges=*/false);
  const double balanced = compute_time(model, {.cp = 8}, 1.0, h100(1)).all();
  const double attention = 12.0 * 32 * 4096 * static_cast<double>(kLong) * static_cast<double>(kLong);
  model.zigzag = false;
  model.skewed_flops = attention;
  const double uneven = compute_time(model, {.cp = 8}, 1.0, h100(1)).all();
  const double more = attention * 7.0 / 8.0 / 8.0;
  EXPECT_NEAR(uneven - balanced, more / attained_flops(kLong / 8.0, model.width, h100(1)), 1e-3 * uneven);
  ModelProfile exchanged = long_llama();
  const double before = compute_time(exchanged, {.cp = 8}, 1.0, h100(1)).all();
  exchanged.skewed_flops = attention;
  EXPECT_DOUBLE_EQ(compute_time(exchanged, {.cp = 8}, 1.0, h100(1)).all(), before);
}

TEST(Context, IsFastestForOneLongSequence) {
  const ModelProfile model = long_llama();
  LayoutSearch one_row = search(model, 1);
  one_row.divides_context = [&](int64_t cp, int64_t tp) { return model.contexts.contains({cp, tp}); };
  const auto choices = estimate_all(model, h100(1), one_row);
  EXPECT_EQ(choices.front().layout.cp, 8);
  // Attention over slow links between nodes costs more than within a node.
  const auto seconds = [&](const Cluster& cluster) {
    return estimate_layout(model, {.cp = 8, .tp = 2}, 1, cluster).time.cp.all;
  };
  EXPECT_GT(seconds(h100(2)), 2.0 * seconds({.per_node = 16, .link = 450e9, .flops = 989e12}));
}

// Korthikanti et al., table 2: 34 bytes per token and channel of a layer, all of them divided by tp, instead of 10 +
// 24/tp.
TEST(Memory, SequenceParallelismDividesWhatIsBetweenLayers) {
  const auto kept = [&](bool sequence, int64_t tp) {
    return estimate_layout(long_llama(true, sequence), {.tp = tp}, 1, h100(1)).estimated.activations;
  };
  const double values = static_cast<double>(kLong) * 4096 * 32, head = 6.0 * static_cast<double>(kLong) * 128256;
  EXPECT_DOUBLE_EQ(kept(false, 8), (10.0 + 24.0 / 8.0) * values + head / 8.0);
  EXPECT_DOUBLE_EQ(kept(true, 8), 34.0 / 8.0 * values + head / 8.0);
  EXPECT_DOUBLE_EQ(kept(true, 1), kept(false, 1));
  // Less is read and written, too.
  const auto seconds = [&](bool sequence) {
    return compute_time(long_llama(true, sequence), {.tp = 8}, 1.0, h100(1)).all();
  };
  EXPECT_LT(seconds(true), seconds(false));
}

TEST(Memory, DecreasesWithEachZeroStage) {
  const ModelProfile model = llama(kLlama3_8B);
  const auto peak = [&](const Layout& layout) { return estimate_layout(model, layout, 64, h100(1)).estimated.peak; };
  const double none = peak({.dp_replicate = 8, .micro_batches = 8}),
               one = peak({.dp_shard = 8, .zero_stage = 1, .micro_batches = 8}),
               two = peak({.dp_shard = 8, .zero_stage = 2, .micro_batches = 8}),
               three = peak({.dp_shard = 8, .zero_stage = 3, .micro_batches = 8});
  EXPECT_LT(one, none);
  EXPECT_LT(two, one);
  EXPECT_LT(three, two);
  // Each rank keeps an eighth of the 16 bytes per element (Rajbhandari et al., ZeRO).
  const auto kept = estimate_layout(model, {.dp_shard = 8}, 64, h100(1)).estimated;
  EXPECT_NEAR(kept.parameters + kept.gradients + kept.optimizer, 16.0 * model.elements() / 8.0, 1e6);
}

TEST(Memory, OffloadingMovesTheUpdateToTheHost) {
  const ModelProfile model = llama(kLlama3_8B);
  const Choice on_device = estimate_layout(model, {.dp_shard = 8}, 8, h100(1)),
               on_host = estimate_layout(model, {.dp_shard = 8, .offload = Offloaded::optimizer}, 8, h100(1));
  EXPECT_NEAR(on_device.estimated.peak - on_host.estimated.peak, 8.0 * model.elements() / 8.0, 1e6);
  EXPECT_GT(on_host.time.total, on_device.time.total);
  EXPECT_GT(on_host.time.host.exposed, 0.0);
}

TEST(Step, IsTheSumOfItsParts) {
  ModelProfile model = llama(kLlama3_8B);
  add_contexts(model, kLlama3_8B, {2}, {4});
  const Choice choice = estimate_layout(
      model, {.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 4, .micro_batches = 4}, 64, h100(8));
  const StepTime& time = choice.time;
  double sum = time.compute + time.update + time.bubble;
  for (const AxisTime& axis : {time.tp, time.cp, time.dp_shard, time.dp_replicate, time.pp, time.host}) {
    EXPECT_LE(axis.exposed, axis.all);
    sum += axis.exposed;
  }
  EXPECT_DOUBLE_EQ(time.total, sum);
  EXPECT_NEAR(time.idle_fraction(), 1.0 - (time.compute + time.update) / sum, 1e-12);
  EXPECT_GT(time.hidden(), 0.0);
}

}  // namespace
}  // namespace modular::testing
