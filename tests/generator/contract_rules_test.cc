// Tests of the shard-type rules of the contract's functions and layers.
#include "tests/generator/shard_rule_values.h"

namespace modgen {
namespace {

TEST(ShardRules, Norm) {
  EXPECT_TYPE(kInvariant, "rms_norm", {full(3), full(1), count()});
  EXPECT_REFUSED("over the last dimension, which is split", "rms_norm", {split(2, 3), full(1), count()});
  EXPECT_REFUSED("a norm of a partial sum", "rms_norm", {partial(3), full(1), count()});
  const Applied heads("rms_norm", {split(2, 4), full(1), count()});
  EXPECT_EQ(heads.op.entered, std::vector<size_t>{1}) << "each rank has a part of the weight's gradient";
  EXPECT_REFUSED("unproven", "rms_norm", {Value::tensor(sharded(1), true, std::nullopt), full(1), count()});
  EXPECT_REFUSED("a norm whose weight is a partial sum", "rms_norm", {split(1, 4), partial(1), count()});
}

TEST(ShardRules, NormOverASplitDimensionSumsSquaresIfTheWeightIsSplitTheSameWay) {
  const Applied applied("rms_norm", {split(2, 3), split(0, 1), count()});
  EXPECT_EQ(applied.op.call, Call::rms_norm);
  EXPECT_EQ(applied.result.type, sharded(2));
  EXPECT_TRUE(applied.op.entered.empty());
  EXPECT_REFUSED("whose weight is full", "rms_norm", {split(2, 3), full(1), count()});
  const Value fused = Value::tensor(sharded(2, {"a", "b"}), true, 3);
  EXPECT_REFUSED("whose weight is split over tp along its last dimension", "rms_norm", {fused, split(0, 1), count()});
  EXPECT_REFUSED("full on every tp rank meets one that is split", "rms_norm", {full(3), split(0, 1), count()});
  EXPECT_REFUSED("a norm whose weight is split", "rms_norm", {split(1, 3), split(0, 1), count()});
}

TEST(ShardRules, AlibiSlopesAreThoseOfLocalHeads) {
  EXPECT_TYPE(kInvariant, "alibi_slopes", {count(), Value()});
  const Applied own("alibi_slopes", {count(/*local=*/true), Value()});
  EXPECT_EQ(own.op.call, Call::alibi_slopes);
  EXPECT_EQ(own.result, Value::tensor(sharded(0), false, 1));

  EXPECT_EQ(Applied("alibi_mask", {Value(), own.result, Value()}).result, Value::tensor(sharded(1), false, 4));
  EXPECT_EQ(Applied("alibi_mask", {Value(), split(0, 1), Value()}).result, Value::tensor(sharded(1), true, 4));
  EXPECT_EQ(Applied("alibi_mask", {Value(), full(1, false), Value()}).result, Value::tensor(kInvariant, false, 4));
  EXPECT_REFUSED("unproven", "alibi_mask", {Value(), split(1, 2), Value()});
  EXPECT_REFUSED("unproven", "alibi_mask", {Value(), partial(1), Value()});
  for (const char* name : {"attention", "attention_with_biases"}) {
    const auto with = [](const Value& biases) {
      return std::vector<Value>{split(1, 4), split(1, 4), split(1, 4), biases, count()};
    };
    EXPECT_TYPE(sharded(2), name, with(Value::tensor(sharded(1), false, 4)));
    EXPECT_REFUSED("not known to be the same for every head", name, with(full(4, false)));
  }
}

TEST(ShardRules, SinksAreSplitIfHeadsAre) {
  const auto attend = [](const Value& heads, const Value& sinks) {
    return Applied("attention_with_sinks", {heads, heads, heads, Value(), count(), sinks});
  };
  EXPECT_EQ(attend(split(1, 4), split(0, 1)).result.type, sharded(2));
  EXPECT_EQ(attend(full(4), full(1)).result.type, kInvariant);
  EXPECT_NE(attend(split(1, 4), full(1)).op.message.find("with sinks that are full"), std::string::npos);
  EXPECT_NE(attend(full(4), split(0, 1)).op.message.find("with sinks that are split"), std::string::npos);
  EXPECT_NE(attend(split(1, 4), partial(1)).op.message.find("unproven"), std::string::npos);
  EXPECT_NE(attend(split(2, 4), split(0, 1)).op.message.find("attention over a value that is split"),
            std::string::npos);
}

TEST(ShardRules, LayerNormEntersBothParametersOverHeads) {
  const Applied heads("layer_norm", {split(2, 4), list({count()}), full(1), full(1), count()});
  EXPECT_EQ(heads.op.entered, (std::vector<size_t>{2, 3}));
  EXPECT_REFUSED("over the last dimension, which is split", "layer_norm",
                 {split(2, 3), list({count()}), full(1), full(1), count()});
  EXPECT_REFUSED("a norm over dimensions of which one is split", "layer_norm",
                 {split(2, 4), list({count(), count()}), full(2), full(2), count()});
  EXPECT_EQ(Applied("LayerNorm layer", {Value(), split(2, 4)}).op.call, Call::layer_norm);
  EXPECT_TYPE(kInvariant, "LayerNorm layer", {Value(), full(3)});
}

TEST(ShardRules, AttentionByHeads) {
  const Value heads = split(1, 4);
  Value mask = full(4, false);
  mask.ones = {-3};
  EXPECT_TYPE(sharded(2), "attention", {heads, heads, heads, mask, count()});
  EXPECT_TYPE(sharded(2), "attention", {heads, heads, heads, split(1, 4), count()});
  EXPECT_REFUSED("a mask that is not known to be the same for every head", "attention",
                 {heads, heads, heads, full(4, false), count()});
  EXPECT_REFUSED("heads that are split over tp and others that are not", "attention",
                 {heads, full(4), full(4), mask, count()});
  EXPECT_REFUSED("attention over a value that is split over tp along dimension 2", "attention",
                 {split(2, 4), split(2, 4), split(2, 4), mask, count()});
}

TEST(ShardRules, AttentionMasks) {
  const Value heads = split(1, 4);
  Value mask;
  mask.kind = Value::Kind::object;
  for (const char* name : {"attention", "attention_with_sinks"}) {
    std::vector<Value> operands = {heads, heads, heads, mask, count()};
    if (name == std::string("attention_with_sinks")) operands.push_back(split(0, 1));
    EXPECT_TYPE(sharded(2), name, operands);
    operands[3].members["padding"] = split(1, 2);
    EXPECT_REFUSED("attention with a mask that is a struct whose padding is split over tp along its last dimension",
                   name, operands);
  }
  const Applied visible("visible_keys", {mask, count(), Value()});
  EXPECT_EQ(visible.result.type, kInvariant) << visible.op.message;
  EXPECT_EQ(visible.result.ones, std::vector<int64_t>{-3});
  EXPECT_TYPE(sharded(2), "attention", {heads, heads, heads, visible.result, count()});
  mask.members["documents"] = partial(2);
  EXPECT_REFUSED("unproven", "visible_keys", {mask, count(), Value()});
  EXPECT_REFUSED("unproven", "causal_mask", {split(1, 2), count()});
  EXPECT_EQ(Applied("causal_mask", {full(2), count()}).result.kind, Value::Kind::object);
}

TEST(ShardRules, StateSpacesByHeadsAndTheirGroups) {
  const auto duality = [](const Value& x, const Value& step, const Value& rates, const Value& shared) {
    return std::vector<Value>{x, step, rates, shared, shared, rates, count()};
  };
  EXPECT_TYPE(sharded(2), "state_space_duality", duality(split(2, 4), split(2, 3), split(0, 1), split(2, 4)));
  EXPECT_TYPE(kInvariant, "state_space_duality", duality(full(4), full(3), full(1), full(4)));
  EXPECT_REFUSED("some are split over tp and others are full", "state_space_duality",
                 duality(split(2, 4), split(2, 3), split(0, 1), full(4)));
  EXPECT_REFUSED("a value that is split over tp along its last dimension", "state_space_duality",
                 duality(split(2, 4), split(2, 3), split(0, 1), split(3, 4)));
  EXPECT_TYPE(sharded(2), "gated_rms_norm", {split(2, 3), split(2, 3), split(0, 1), count(true), count()});
  EXPECT_REFUSED("with a count of groups that is the same on every tp rank", "gated_rms_norm",
                 {split(2, 3), split(2, 3), split(0, 1), count(), count()});
}

TEST(ShardRules, StateSpacesByChannels) {
  const Applied scan("selective_scan", {split(2, 3), split(2, 3), split(0, 2), full(3), full(3), split(0, 1)});
  EXPECT_EQ(scan.result.type, sharded(2)) << scan.op.message;
  EXPECT_EQ(scan.op.entered, (std::vector<size_t>{3, 4}));
  const Value fused = Value::tensor(sharded(-1, {"a", "b"}), true, 3);
  const Value weight = Value::tensor(sharded(0, {"a", "b"}), true, 3),
              bias = Value::tensor(sharded(0, {"a", "b"}), true, 1);
  EXPECT_TYPE(sharded(2, {"a", "b"}), "causal_conv1d", {fused, weight, bias});
  EXPECT_TYPE(sharded(2), "causal_conv1d", {split(2, 3), split(0, 3), Value()});
  EXPECT_REFUSED("causal_conv1d of a value that is split", "causal_conv1d", {fused, split(0, 3), Value()});
  EXPECT_REFUSED("causal_conv1d of a partial sum", "causal_conv1d", {partial(3), full(3), full(1)});
  EXPECT_TYPE(sharded(2), "without_padding", {split(2, 3), full(2, false)});
  EXPECT_REFUSED("no rule for without_padding", "without_padding", {split(1, 3), full(2, false)});
}

TEST(ShardRules, ExpertsSplitWithinGateAndUpGiveAPartialSum) {
  const Value gate_up = Value::tensor(sharded(1, {"inner", "inner"}), true, 3), down = split(2, 3);
  const auto experts = [](const Value& one, const Value& other) {
    return std::vector<Value>{Value(), full(2), one, other, full(2, false), full(2)};
  };
  const Applied split_experts("mix_experts", experts(gate_up, down));
  EXPECT_EQ(split_experts.op.call, Call::sum);
  EXPECT_EQ(split_experts.op.entered, (std::vector<size_t>{1, 5})) << "rows and weights, not what is chosen";
  const Applied full_experts("mix_experts", experts(full(3), full(3)));
  EXPECT_EQ(full_experts.op.call, Call::none);
  EXPECT_EQ(full_experts.result.type, kInvariant);
  EXPECT_TRUE(full_experts.op.entered.empty());
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts", experts(gate_up, full(3)));
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts", experts(full(3), down));
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts", experts(split(1, 3), down));
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts", experts(gate_up, split(1, 3)));
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts",
                 experts(Value::tensor(sharded(1, {"inner", "other"}), true, 3), down));
  EXPECT_REFUSED("experts whose gate and up are", "mix_experts", experts(split(0, 3), split(0, 3)));
  std::vector<Value> of_partial = experts(gate_up, down);
  of_partial[1] = partial(2);
  EXPECT_REFUSED("experts of a partial sum", "mix_experts", of_partial);
  of_partial[1] = split(1, 2);
  EXPECT_REFUSED("experts with a value that is split", "mix_experts", of_partial);
}

TEST(ShardRules, ClampedExpertsAreSplitByInnerFeature) {
  const auto experts = [](const Value& gate_up, const Value& bias, const Value& down) {
    return std::vector<Value>{full(2), gate_up, bias, down, full(2, false), full(2), Value(), Value()};
  };
  const Applied split_experts("mix_clamped_experts", experts(split(2, 3), split(1, 2), split(1, 3)));
  EXPECT_EQ(split_experts.op.call, Call::sum);
  EXPECT_EQ(split_experts.op.entered, (std::vector<size_t>{0, 5})) << "rows and weights, not what is chosen";
  const Applied full_experts("mix_clamped_experts", experts(full(3), full(2), full(3)));
  EXPECT_EQ(full_experts.op.call, Call::none);
  EXPECT_EQ(full_experts.result.type, kInvariant);
  EXPECT_REFUSED("experts whose gate and up are", "mix_clamped_experts", experts(split(2, 3), full(2), split(1, 3)));
  EXPECT_REFUSED("experts whose gate and up are", "mix_clamped_experts", experts(split(2, 3), split(1, 2), full(3)));
  EXPECT_REFUSED("experts whose gate and up are", "mix_clamped_experts",
                 experts(split(1, 3), split(1, 2), split(2, 3)));
  const Value halves = Value::tensor(sharded(2, {"inner", "inner"}), true, 3);
  EXPECT_REFUSED("experts whose gate and up are", "mix_clamped_experts", experts(halves, split(1, 2), split(1, 3)));
}

TEST(ShardRules, LossOverASplitVocabulary) {
  const Applied loss("cross_entropy", {split(2, 3), full(2, false)});
  EXPECT_EQ(loss.op.call, Call::cross_entropy);
  EXPECT_EQ(loss.result.type, kInvariant);
  EXPECT_EQ(Applied("cross_entropy", {full(3), full(2, false)}).op.call, Call::none);
  EXPECT_REFUSED("a loss of a partial sum", "cross_entropy", {partial(3), full(2, false)});
}

TEST(ShardRules, LossOverASampleOfClasses) {
  const Value targets = full(2, false), temperature = Value::number();
  const auto of = [&](const Value& hidden, const Value& weight, const Value& bias) {
    return Applied("sampled_cross_entropy", {hidden, weight, bias, targets, temperature});
  };
  const Applied loss = of(full(3), split(0, 2), split(0, 1));
  EXPECT_EQ(loss.op.call, Call::sampled_cross_entropy);
  EXPECT_TRUE(loss.result.is_invariant());
  EXPECT_TRUE(loss.op.entered.empty());  // its gradients are full on every rank
  EXPECT_EQ(of(full(3), full(2), full(1)).op.call, Call::none);
  EXPECT_REFUSED("a loss of a partial sum", "sampled_cross_entropy",
                 {partial(3), split(0, 2), split(0, 1), targets, temperature});
  EXPECT_REFUSED("a loss over a sample of classes", "sampled_cross_entropy",
                 {full(3), split(1, 2), full(1), targets, temperature});
}

/// `value`, which depends on these tp-local counts.
Value counted(Value value, std::set<std::string> counts) {
  value.counts = std::move(counts);
  return value;
}

TEST(ShardRules, HeadsThatServeOthersAreFollowed) {
  using Counts = std::set<std::string>;
  const Value query = counted(split(1, 4), {"heads"}), key = counted(split(1, 4), {"groups"});
  const Applied attended("attention", {query, key, key, Value(), count()});
  EXPECT_EQ(attended.op.serving, Counts{"groups"});
  EXPECT_EQ(attended.op.separate, Counts());
  EXPECT_EQ(attended.result.counts, Counts{"heads"});
  EXPECT_EQ(Applied(".transpose", {key, literal(1), literal(2)}).result.counts, Counts{"groups"});
  EXPECT_EQ(Applied(".sum", {key, literal(1)}).op.separate, Counts{"groups"}) << "every head counts once";
  const Value sizes = list({size(0), size(1), counted(factors({"heads"}, true), {"heads"}), factors({"head_dim"})});
  const Value keys = counted(split(2, 5), {"groups"});
  EXPECT_EQ(Applied(".reshape", {keys, sizes}).op.separate, (Counts{"groups", "heads"}))
      << "a rank's share of the groups is not its share of the heads";
  EXPECT_EQ(Applied(".view", {split(2, 3), sizes}).op.separate, Counts());
  EXPECT_EQ(Applied(".view", {split(2, 3), sizes}).result.counts, Counts{"heads"});
  const Value heads = counted(count(true), {"heads"}), groups = counted(count(true), {"groups"});
  EXPECT_EQ(Applied("op /", {heads, groups}, "long").op.separate, (Counts{"groups", "heads"}));
}

}  // namespace
}  // namespace modgen
