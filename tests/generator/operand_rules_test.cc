// Tests of the shard-type rules for operands that differ from what a rule may expect: sizes of 1 that another operand
// stretches, slices of other sizes, integers, dimensions in variables.
#include "tests/generator/shard_rule_values.h"

namespace modgen {
namespace {

TEST(ShardRules, UnknownDimensionsAreNotTheDefault) {
  EXPECT_REFUSED("no rule", ".softmax", {split(2, 4), count()});
  EXPECT_REFUSED("no rule", ".select", {split(2, 4), count(), literal(0)});
  EXPECT_REFUSED("no rule", ".chunk", {split(2, 4), literal(2), count()});
  EXPECT_REFUSED("no rule", "cat", {list({split(2, 4), split(2, 4)}), count()});
  EXPECT_REFUSED("no rule", ".flatten", {split(0, 4), count()});
  EXPECT_REFUSED("no rule", ".flatten", {split(0, 4), literal(1), count()});
  EXPECT_REFUSED("no rule", ".squeeze", {split(2, 4), count()});
  Value axes;  // a std::vector that is a member
  axes.kind = Value::Kind::object;
  for (const char* name : {".flip", ".squeeze"}) EXPECT_REFUSED("no rule", name, {split(2, 4), axes});
  EXPECT_REFUSED("no rule", ".roll", {split(2, 4), literal(1), axes});
}

TEST(ShardRules, GatherTakesAnIndexOfTheSameSizeWhereBothAreSplit) {
  const Value heads = split(1, 4), full_index = full(4, false), index = Value::tensor(sharded(1), false, 4);
  EXPECT_REFUSED("not known to have as many elements", "gather", {heads, literal(-1), index});
  const auto of_heads = [](const std::string& product) {
    Value value = Value::tensor(sharded(1), false, 4);
    value.counts = {"num_heads"};
    value.sizes = Sizes({field_count("#batch"), factors({product, "num_heads"}).count, Count(), Count()});
    return value;
  };
  EXPECT_TYPE(sharded(1), "gather", {of_heads("1"), literal(-1), of_heads("1")});
  EXPECT_REFUSED("not known to have as many elements", "gather", {of_heads("2"), literal(-1), of_heads("1")});
  EXPECT_TYPE(sharded(1), "gather", {split_of_size(1, 4, "a"), literal(-1), split_of_size(1, 4, "a")});
  EXPECT_TYPE(kInvariant, "gather", {full(4), literal(-1), full_index});
  EXPECT_TYPE(kPartial, "gather", {partial(4), literal(-1), full_index});
  EXPECT_REFUSED("gather along dimension 1", "gather", {split(1, 4), literal(1), index});
}

TEST(ShardRules, PartialSumsAreNotRounded) {
  for (const char* name : {".to", ".type_as"})
    EXPECT_REFUSED("not known to be a floating type", name, {partial(3), full(2)});
}

TEST(ShardRules, PartialSumsAreNotAddedUpAsIntegers) {
  OnValues sum(".sum", {partial(3), literal(-1), Value::number(), Value::number()});
  sum.expr.operands[3].type = "c10::ScalarType";
  for (const char* type : {"at::kLong", "at::kDouble"}) {
    sum.expr.operands[3].name = type;
    sum.op.message.clear();
    apply_rule(sum.op, find_rule(".sum"));
    EXPECT_EQ(sum.rejected(), sum.expr.operands[3].name == "at::kLong") << type;
  }
}

/// A value with a last dimension of size 1.
Value of_one_feature(int64_t rank) {
  Value value = full(rank);
  std::vector<Count> sizes(static_cast<size_t>(rank), field_count("#batch"));
  sizes.back() = literal_count(1);
  value.sizes = Sizes(std::move(sizes));
  value.ones = {-1};
  return value;
}

TEST(ShardRules, WeightOfANormStretchesOneFeature) {
  const Value normed = Applied("rms_norm", {of_one_feature(3), full(1), count()}).result;
  EXPECT_FALSE(normed.sizes[2].is_known());
  EXPECT_EQ(normed.sizes[1], field_count("#batch"));
  EXPECT_TRUE(normed.ones.empty());
  EXPECT_REFUSED("full on every tp rank meets one that is split", "op +", {split(2, 3), normed});
  EXPECT_TYPE(sharded(2), "op +", {split(2, 3), of_one_feature(3)});
  EXPECT_REFUSED("no rule", "rms_norm", {full(1), full(2), count()});  // more dimensions than the value
}

TEST(ShardRules, TablesOfRotaryAndKeysStretchOneRow) {
  Value queries = split(1, 4), table = full(3, /*gradient=*/false);
  queries.sizes = Sizes({literal_count(1), field_count("heads"), literal_count(1), field_count("dim")});
  queries.ones = {-4, -2};
  const Value rotated = Applied("rotary", {queries, table, table}).result;
  EXPECT_FALSE(rotated.sizes[0].is_known());
  EXPECT_FALSE(rotated.sizes[2].is_known());
  EXPECT_TRUE(rotated.ones.empty());
  const Value attended = Applied("attention", {queries, split(1, 4), split(1, 4), Value(), count()}).result;
  EXPECT_FALSE(attended.sizes[0].is_known());
  EXPECT_FALSE(attended.sizes[1].is_known());
}

TEST(ShardRules, CatLeavesOutEmptyTensorsOfOneDimension) {
  EXPECT_EQ(Applied("cat", {list({full(3), full(3)}), literal(-1)}).result.rank, 3);
  EXPECT_FALSE(Applied("cat", {list({full(1), full(3)}), literal(-1)}).result.rank);
}

TEST(ShardRules, VocabulariesMayBeSplitUnevenly) {
  Value logits = split(2, 3);
  logits.is_vocabulary = true;
  const Value scaled = Applied("op *", {logits, literal(2)}).result;
  EXPECT_TRUE(scaled.is_vocabulary);
  EXPECT_FALSE(Applied("tp::gather", {scaled}).result.is_vocabulary);
  EXPECT_REFUSED("of which ranks may hold unequal slices", "Dropout layer", {Value(), scaled});
  EXPECT_REFUSED("of which ranks may hold unequal slices", "rms_norm", {scaled, split(0, 1), count()});
  EXPECT_TYPE(sharded(2), "Dropout layer", {Value(), split(2, 3)});
}

TEST(ShardRules, GroupsThatAVariableCountsAreNotShared) {
  Value groups = count(/*local=*/true);
  groups.counts = {"n_groups"};
  OnValues norm("gated_rms_norm", {split(2, 3), split(2, 3), split(0, 1), groups, count()});
  for (const Expr::Kind kind : {Expr::Kind::local, Expr::Kind::field}) {
    norm.expr.operands[3].kind = kind;
    norm.op.separate.clear();
    apply_rule(norm.op, find_rule("gated_rms_norm"));
    EXPECT_EQ(norm.op.separate.contains("n_groups"), kind == Expr::Kind::local);
  }
}

}  // namespace
}  // namespace modgen
