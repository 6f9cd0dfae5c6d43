// Communication volume and time match the documented closed forms.
#include <gtest/gtest.h>

#include "runtime/advise/communication.h"
#include "runtime/advise/step_time.h"
#include "tests/advise/transformer_profile.h"

namespace modular::testing {
namespace {

constexpr DecoderSizes kSmall = {8, 1024, 4096, 16, 16, 32000};

ModelProfile float_profile() {
  ModelProfile model = decoder_profile(kSmall, 128, {{"none", 0.0}, {"full", 1.0}});
  model.gathered_bytes = 4.0;  // so that gathers and reductions both have P bytes
  return model;
}

Received received_bytes(const Layout& layout, double rows = 1.0) {
  return received(count_step_traffic(float_profile(), layout, rows), layout);
}

// docs/guide/parallelism.md: a step's bytes with m micro-batches and P bytes of parameters, times (n - 1)/n.
TEST(Bytes, OfDataParallelRanksMatchTheDocumentation) {
  const ModelProfile model = float_profile();
  const double parameters = 4.0 * model.elements(), root = 4.0 * model.root.all(), last = 4.0 * model.last_unit.all();
  constexpr double kShare = 7.0 / 8.0, kMicroBatches = 4.0;
  EXPECT_DOUBLE_EQ(received_bytes({.dp_replicate = 8, .micro_batches = 4}).dp_replicate, 2.0 * parameters * kShare);
  EXPECT_DOUBLE_EQ(received_bytes({.dp_shard = 8, .zero_stage = 1, .micro_batches = 4}).dp_shard,
                   2.0 * parameters * kShare);
  EXPECT_DOUBLE_EQ(received_bytes({.dp_shard = 8, .zero_stage = 2, .micro_batches = 4}).dp_shard,
                   (kMicroBatches + 1.0) * parameters * kShare);
  EXPECT_NEAR(received_bytes({.dp_shard = 8, .zero_stage = 3, .micro_batches = 4}).dp_shard,
              (3.0 * kMicroBatches * parameters - (2.0 * kMicroBatches - 1.0) * root - kMicroBatches * last) * kShare,
              1.0);
  // HSDP: replicas all-reduce the shard of a rank.
  EXPECT_DOUBLE_EQ(received_bytes({.dp_replicate = 2, .dp_shard = 4}).dp_replicate, 2.0 * (parameters / 4.0) / 2.0);
}

// Shoeybi et al., Megatron-LM: two all-reduces of a layer's output in the forward, two in the backward.
TEST(Bytes, OfTensorParallelRanksAreFourAllReducesPerLayer) {
  constexpr double kRows = 2.0, kValue = 2.0 * 128 * 1024 * kRows;
  EXPECT_DOUBLE_EQ(received_bytes({.tp = 4}, kRows).tp, (4 * 8 + 2) * kValue * 2.0 * 3.0 / 4.0);
  EXPECT_DOUBLE_EQ(received_bytes({.tp = 4, .keeping = 1}, kRows).tp, (6 * 8 + 2) * kValue * 2.0 * 3.0 / 4.0);
  EXPECT_DOUBLE_EQ(received_bytes({.tp = 4, .micro_batches = 3}, kRows).tp, 3.0 * received_bytes({.tp = 4}, kRows).tp);
}

// Korthikanti et al.: a reduce-scatter and an all-gather in place of each all-reduce, and in the backward of a layer
// that is not recomputed, gathers of what its matrices read.
TEST(Bytes, OfSequenceParallelRanksAreThoseOfTensorParallelRanksAndOfTwoGathersPerLayer) {
  ModelProfile model = float_profile();
  const Layout layout{.tp = 4, .micro_batches = 3};
  const StepTraffic whole = count_step_traffic(model, layout, 2.0);
  model.sequence = true;
  const StepTraffic parts = count_step_traffic(model, layout, 2.0);
  constexpr double kValue = 2.0 * 128 * 1024 * 2.0, kShare = 3.0 / 4.0;
  EXPECT_DOUBLE_EQ(received(parts, layout).tp, received(whole, layout).tp + 3.0 * 2 * 8 * kValue * kShare);
  EXPECT_DOUBLE_EQ(parts.tp.count, 3.0 * (2.0 * (4 * 8 + 2) + 2 * 8));
  const Layout recomputed{.tp = 4, .micro_batches = 3, .keeping = 1};
  const StepTraffic again = count_step_traffic(model, recomputed, 2.0);
  model.sequence = false;
  EXPECT_DOUBLE_EQ(received(again, recomputed).tp, received(count_step_traffic(model, recomputed, 2.0), recomputed).tp);
  EXPECT_DOUBLE_EQ(
      gather_seconds(again.tp.bytes, again.tp.count, {4, 1}, {.per_node = 4, .link = 1e9}),
      all_reduce_seconds(again.tp.bytes / 2.0, again.tp.count / 2.0, {4, 1}, {.per_node = 4, .link = 1e9}));
}

TEST(Bytes, OfMessagesAreDividedOverTpWithSequenceParallelism) {
  ModelProfile model = float_profile();
  const Layout layout{.pp = 2, .tp = 4, .micro_batches = 8};
  constexpr double kValue = 2.0 * 128 * 1024;
  EXPECT_DOUBLE_EQ(count_step_traffic(model, layout, 1.0).pp.bytes, 8.0 * kValue);
  model.sequence = true;
  EXPECT_DOUBLE_EQ(count_step_traffic(model, layout, 1.0).pp.bytes, 8.0 * kValue / 4.0);
  // Positions that tp does not divide stay on every rank.
  model.lengths = {128, 126};
  EXPECT_DOUBLE_EQ(count_step_traffic(model, layout, 1.0).pp.bytes, 8.0 * kValue);
  EXPECT_DOUBLE_EQ(count_step_traffic(model, layout, 1.0).tp.bytes,
                   count_step_traffic(float_profile(), layout, 1.0).tp.bytes);
}

// docs/guide/parallelism.md: (n - 1)/n B S 2 K d elements of keys and values, or (n - 1)/n B S/n (2 H + 2 K) d of
// heads, for each layer in the forward and again in the backward.
TEST(Bytes, OfContextParallelRanksMatchTheDocumentation) {
  constexpr double kRows = 3.0, kTokens = 128.0, kLayers = 8.0, kBytes = 2.0, kHeadSize = 64.0;
  const auto attention = [&](bool exchanges, int64_t cp, int64_t tp) {
    ModelProfile model = float_profile();
    add_contexts(model, kSmall, {cp}, {tp}, exchanges);
    return count_step_traffic(model, {.cp = cp, .tp = tp, .micro_batches = 2}, kRows);
  };
  const double others = 2.0 * 2.0 * kLayers * kRows * kTokens * kBytes * kHeadSize * 3.0 / 4.0;
  const StepTraffic gathered = attention(false, 4, 2), exchanged = attention(true, 4, 2);
  EXPECT_DOUBLE_EQ(gathered.cp.bytes, others * 2.0 * 8.0);  // 8 of 16 heads on a tp rank
  EXPECT_EQ(gathered.exchanged_cp, 0.0);
  EXPECT_DOUBLE_EQ(exchanged.cp.bytes, others / 4.0 * 4.0 * 8.0);
  EXPECT_DOUBLE_EQ(exchanged.exchanged_cp, exchanged.cp.bytes);
  EXPECT_EQ(attention(true, 16, 2).exchanged_cp, 0.0);  // 16 ranks do not divide 8 heads
  // Recomputed layers gather keys a second time.
  ModelProfile model = float_profile();
  add_contexts(model, kSmall, {4}, {1});
  EXPECT_DOUBLE_EQ(count_step_traffic(model, {.cp = 4, .keeping = 1}, 1.0).cp.bytes,
                   1.5 * count_step_traffic(model, {.cp = 4}, 1.0).cp.bytes);
}

TEST(Bytes, OfOtherAxesAreThoseOfFewerPositions) {
  ModelProfile model = float_profile();
  add_contexts(model, kSmall, {2, 8}, {1, 4});
  const auto bytes = [&](const Layout& layout, double rows) {
    return received(count_step_traffic(model, layout, rows), layout);
  };
  EXPECT_DOUBLE_EQ(bytes({.cp = 2, .tp = 4}, 2.0).tp, bytes({.tp = 4}, 1.0).tp);
  EXPECT_DOUBLE_EQ(bytes({.pp = 4, .cp = 2, .micro_batches = 8}, 2.0).pp, bytes({.pp = 4, .micro_batches = 8}, 1.0).pp);
  // cp ranks shard parameters with those of dp_shard.
  for (const int64_t zero_stage : {1, 2, 3})
    EXPECT_DOUBLE_EQ(bytes({.cp = 8, .zero_stage = zero_stage}, 1.0).dp_shard,
                     bytes({.dp_shard = 8, .zero_stage = zero_stage}, 1.0).dp_shard);
  EXPECT_DOUBLE_EQ(bytes({.dp_replicate = 2, .dp_shard = 2, .cp = 2}, 1.0).dp_replicate,
                   bytes({.dp_replicate = 2, .dp_shard = 4}, 1.0).dp_replicate);
}

TEST(Bytes, OfAPipelineRankAreOneMessagePerStageAndDirection) {
  constexpr double kValue = 2.0 * 128 * 1024;
  EXPECT_DOUBLE_EQ(received_bytes({.pp = 4, .micro_batches = 8}).pp, 2.0 * 8 * kValue);
  EXPECT_DOUBLE_EQ(received_bytes({.pp = 4, .micro_batches = 8, .schedule = "interleaved"}).pp, 4.0 * 8 * kValue);
  EXPECT_DOUBLE_EQ(received_bytes({.pp = 2, .micro_batches = 8}).pp, 8 * kValue);
  EXPECT_EQ(received_bytes({}).pp, 0.0);
}

Cluster h100() {
  return {.nodes = 4,
          .per_node = 8,
          .memory = 80 * 0x1p30,
          .link = 400e9,
          .between = 25e9,
          .latency = 1e-6,
          .latency_between = 1e-5,
          .flops = 989e12};
}

TEST(Seconds, OfRingsFollowFromTheSlowestLink) {
  const Cluster cluster = h100();
  EXPECT_DOUBLE_EQ(gather_seconds(8e9, 1, {8, 1}, cluster), 3e-6 + 7e9 / 400e9);
  EXPECT_DOUBLE_EQ(all_reduce_seconds(8e9, 1, {8, 1}, cluster), 2.0 * (3e-6 + 7e9 / 400e9));
  // Groups with eight ranks per node have eight links between nodes; groups with one rank per node have one.
  EXPECT_DOUBLE_EQ(ring_speed({32, 1}, cluster), 200e9);
  EXPECT_DOUBLE_EQ(ring_speed({4, 8}, cluster), 25e9);
  EXPECT_DOUBLE_EQ(ring_speed({8, 4}, cluster), 50e9);
  EXPECT_DOUBLE_EQ(gather_seconds(32e9, 2, {32, 1}, cluster), 2 * 5e-5 + 31e9 / 200e9);
  EXPECT_EQ(gather_seconds(8e9, 1, {1, 1}, cluster), 0.0);
  EXPECT_DOUBLE_EQ(message_seconds(4e9, {4, 8}, cluster), 1e-5 + 4e9 / 25e9);
  EXPECT_DOUBLE_EQ(message_seconds(4e9, {4, 2}, cluster), 1e-6 + 4e9 / 400e9);
}

// An all-to-all sends to each rank separately: only its own device's link leads to other nodes.
TEST(Seconds, OfExchangesCountEachRanksOwnLink) {
  const Cluster cluster = h100();
  EXPECT_DOUBLE_EQ(exchange_seconds(7e9, 1, {8, 1}, cluster), 3e-6 + 7e9 / 400e9);
  EXPECT_DOUBLE_EQ(exchange_seconds(31e9, 2, {32, 1}, cluster), 2 * 5e-5 + 24e9 / 25e9);
  EXPECT_DOUBLE_EQ(exchange_seconds(3e9, 1, {4, 8}, cluster), 2e-5 + 3e9 / 25e9);
  EXPECT_EQ(exchange_seconds(7e9, 1, {1, 1}, cluster), 0.0);
  const StepTraffic traffic{.cp = {10e9, 4}, .exchanged_cp = 3e9};
  EXPECT_DOUBLE_EQ(context_seconds(traffic, {8, 1}, cluster), 4 * 3e-6 + 10e9 / 400e9);
}

TEST(Groups, PutContextRanksBetweenTensorAndDataParallelRanks) {
  const Layout layout{.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 4, .tp = 2};
  EXPECT_EQ(layout.devices(), 64);
  EXPECT_EQ(cp_group(layout).size, 4);
  EXPECT_EQ(cp_group(layout).stride, 2);
  EXPECT_EQ(dp_shard_group(layout).size, 8);
  EXPECT_EQ(dp_shard_group(layout).stride, 2);
  EXPECT_EQ(dp_replicate_group(layout).stride, 16);
  EXPECT_EQ(pp_group(layout).stride, 32);
  EXPECT_FALSE(crosses_nodes(cp_group(layout), h100()));
}

TEST(Groups, FollowTheOrderOfTheMeshAxes) {
  const Layout layout{.pp = 2, .dp_replicate = 2, .dp_shard = 4, .tp = 2};
  EXPECT_EQ(tp_group(layout).stride, 1);
  EXPECT_EQ(dp_shard_group(layout).stride, 2);
  EXPECT_EQ(dp_replicate_group(layout).stride, 8);
  EXPECT_EQ(pp_group(layout).stride, 16);
  EXPECT_FALSE(crosses_nodes(dp_shard_group(layout), h100()));
  EXPECT_TRUE(crosses_nodes(dp_replicate_group(layout), h100()));
  EXPECT_TRUE(crosses_nodes(pp_group(layout), h100()));
}

// docs/guide/parallelism.md: a rank of 1F1B waits for (p - 1)/(m + p - 1) of its step, and with interleaved stages for
// (p - 1)/(v m + p - 1).
TEST(Bubble, MatchesTheDocumentation) {
  ModelProfile model = float_profile();
  model.boundary = 0.0;
  model.layers = 64;  // divisible by the number of stages
  const auto share = [&](const Layout& layout) {
    PipelineClock clock;
    const StepTime time = step_time(model, layout, 1.0, h100(), clock);
    return time.bubble / (time.bubble + time.compute);
  };
  EXPECT_NEAR(share({.pp = 4, .micro_batches = 8}), 3.0 / 11.0, 2e-3);
  EXPECT_NEAR(share({.pp = 4, .micro_batches = 32}), 3.0 / 35.0, 2e-3);
  EXPECT_NEAR(share({.pp = 4, .micro_batches = 8, .schedule = "interleaved"}), 3.0 / 19.0, 2e-3);
  EXPECT_NEAR(share({.pp = 4, .micro_batches = 8, .schedule = "zbv"}), 3.0 / 51.0, 2e-2);
  EXPECT_EQ(share({.micro_batches = 8}), 0.0);
}

}  // namespace
}  // namespace modular::testing
