// Tests of the shard-type rules: the result of each operation on full, partial and split values, and its errors.
#include <gtest/gtest.h>

#include "generator/weave/shard_types.h"

namespace modgen {
namespace {

/// `value` with sizes #0, #1, …
Value sized(Value value) {
  std::vector<Count> sizes;
  for (int64_t i = 0; i < *value.rank; ++i) sizes.push_back(field_count("#" + std::to_string(i)));
  value.sizes = Sizes(std::move(sizes));
  return value;
}

Value full(int64_t rank, bool gradient = true) { return sized(Value::tensor(kInvariant, gradient, rank)); }
Value partial(int64_t rank) { return Value::tensor(kPartial, true, rank); }
Value split(int64_t dim, int64_t rank) { return sized(Value::tensor(sharded(dim), true, rank)); }
Value count(bool local = false) { return Value::number(local); }

Value literal(int64_t number) { return Value::number(literal_count(number)); }

/// A count or a product of counts, traced to config fields.
Value factors(std::vector<std::string> names, bool local = false) {
  Count product = literal_count(1);
  for (const std::string& name : names)
    product = product_of(product, read_literal(name).is_known() ? read_literal(name) : field_count(name));
  product.is_share = local;
  return Value::number(product);
}

/// Size `dim` of a value that has sizes.
Value size(int64_t dim = 0) { return factors({"#" + std::to_string(dim)}); }

/// A value whose split dimension has that global size.
Value split_of_size(int64_t dim, int64_t rank, const std::string& size) {
  Value value = split(dim, rank);
  value.split_size = size;
  return value;
}

Value list(std::vector<Value> elements) {
  Value value;
  value.kind = Value::Kind::tuple;
  value.elements = std::move(elements);
  return value;
}

/// Applies rule `name` to expressions that match the values.
struct Applied {
  Applied(std::string name, std::vector<Value> values, std::string type = "at::Tensor") {
    expr.type = std::move(type);
    expr.operands.resize(values.size());
    op.name = std::move(name);
    op.expr = &expr;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].kind == Value::Kind::tuple) {
        expr.operands[i].kind = Expr::Kind::list;
        expr.operands[i].operands.resize(values[i].elements.size());
      }
      op.operands.push_back(&expr.operands[i]);
    }
    op.values = std::move(values);
    const Rule rule = find_rule(op.name);
    EXPECT_NE(rule, nullptr) << op.name;
    if (rule) result = apply_rule(op, rule);
  }

  bool rejected() const { return !op.message.empty(); }

  Expr expr;
  Operation op;
  Value result;
};

#define EXPECT_TYPE(expected, ...)                          \
  do {                                                      \
    const Applied applied(__VA_ARGS__);                     \
    EXPECT_FALSE(applied.rejected()) << applied.op.message; \
    EXPECT_EQ(applied.result.type, expected);               \
  } while (false)

#define EXPECT_REFUSED(part, ...)                                                                     \
  do {                                                                                                \
    const Applied applied(__VA_ARGS__);                                                               \
    EXPECT_NE(applied.op.message.find(part), std::string::npos) << "message: " << applied.op.message; \
  } while (false)

TEST(ShardRules, ColumnWiseLayerEntersFullValuesAndRejectsSplitOnes) {
  const Applied applied("tp_colwise", {Value(), full(3)});
  EXPECT_EQ(applied.result.type, sharded(2));
  EXPECT_EQ(applied.op.entered, std::vector<size_t>{1});
  EXPECT_TRUE(Applied("tp_colwise", {Value(), full(3, /*gradient=*/false)}).op.entered.empty())
      << "nothing flows back into it";
  EXPECT_REFUSED("reads a value that is split", "tp_colwise", {Value(), split(2, 3)});
  EXPECT_REFUSED("reads a partial sum", "tp_colwise", {Value(), partial(3)});
}

TEST(ShardRules, RowWiseLayerTakesAnInputSplitByFeatureAndSumsAtItsExit) {
  const Applied applied("tp_rowwise", {Value(), split(2, 3)});
  EXPECT_EQ(applied.op.call, Call::exit);
  EXPECT_EQ(applied.result.type, kInvariant);
  EXPECT_REFUSED("reads a value that is full", "tp_rowwise", {Value(), full(3)});
  EXPECT_REFUSED("split over tp along dimension 1", "tp_rowwise", {Value(), split(1, 3)});
}

TEST(ShardRules, VocabularyEmbeddingReturnsFullRows) {
  const Applied applied("tp_vocab embedding", {Value(), full(2, false)});
  EXPECT_EQ(applied.op.call, Call::embedding);
  EXPECT_EQ(applied.result.type, kInvariant);
  EXPECT_EQ(applied.result.rank, 3);
}

TEST(ShardRules, RowsOfATableThatIsSplitByColumnAreSplit) {
  const Applied applied("embedding", {split(1, 2), full(2, false)});
  EXPECT_EQ(applied.result.type, sharded(2));
  EXPECT_EQ(applied.result.rank, 3);
  EXPECT_TYPE(kInvariant, "embedding", {full(2), full(2, false)});
  EXPECT_REFUSED("splits by row", "embedding", {split(0, 2), full(2, false)});
}

TEST(ShardRules, LayerWithoutAnnotationTakesFullValues) {
  EXPECT_TYPE(kInvariant, "linear layer", {Value(), full(3)});
  EXPECT_REFUSED("a layer without an annotation", "linear layer", {Value(), split(2, 3)});
  EXPECT_REFUSED("a layer without an annotation", "linear layer", {Value(), split(1, 3)});
  EXPECT_REFUSED("a layer reads a partial sum", "linear layer", {Value(), partial(3)});
}

TEST(ShardRules, ElementwiseFunctionsKeepASplitAndRejectAPartialSum) {
  for (const char* name : {"silu", "gelu", "sigmoid", ".pow", ".exp"}) {
    EXPECT_TYPE(sharded(2), name, {split(2, 3)});
    EXPECT_REFUSED("is not linear", name, {partial(3)});
  }
  EXPECT_TYPE(kPartial, "neg", {partial(3)});
  EXPECT_TYPE(kPartial, ".to", {partial(3), Value()});
}

TEST(ShardRules, SumsTakePartialSumsOnBothSides) {
  EXPECT_TYPE(kPartial, "op +", {partial(3), partial(3)});
  EXPECT_REFUSED("would count it once for every rank", "op +", {partial(3), full(3)});
  EXPECT_REFUSED("would count it once for every rank", "op -", {full(3, false), partial(3)});
  EXPECT_REFUSED("would count it once for every rank", "op +", {partial(3), literal(1)});
}

TEST(ShardRules, ProductsTakeOnePartialSum) {
  EXPECT_TYPE(kPartial, "op *", {partial(3), literal(2)});
  EXPECT_TYPE(kPartial, "op *", {partial(3), full(3, false)});
  EXPECT_TYPE(kPartial, "op /", {partial(3), literal(2)});
  EXPECT_REFUSED("product of two partial sums", "op *", {partial(3), partial(3)});
  EXPECT_REFUSED("division by a partial sum", "op /", {full(3, false), partial(3)});
  EXPECT_REFUSED("meets a factor", "op *", {partial(3), split(2, 3)});
  const Applied gated("op *", {full(3), partial(3)});
  EXPECT_EQ(gated.result.type, kPartial);
  EXPECT_EQ(gated.op.entered, std::vector<size_t>{0}) << "its gradient on each rank is of that rank's part";
}

TEST(ShardRules, SplitValuesCombineIfSplitTheSameWay) {
  EXPECT_TYPE(sharded(2), "op *", {split(2, 3), split(2, 3)});
  EXPECT_REFUSED("along different dimensions", "op *", {split(2, 3), split(1, 3)});
  EXPECT_REFUSED("meets one that is split", "op *", {split(2, 3), full(3)});
  EXPECT_REFUSED("meets one that is split", "op *", {split(2, 3), full(1)});
  EXPECT_TYPE(sharded(2), "op *", {split(2, 3), literal(3)});
}

TEST(ShardRules, FullValueBroadcastAlongTheSplitIsEnteredIfItHasAGradient) {
  const Applied scale("op *", {split(1, 4), full(1)});  // [head_dim] on [batch, heads, seq, head_dim]
  EXPECT_EQ(scale.result.type, sharded(1));
  EXPECT_EQ(scale.op.entered, std::vector<size_t>{1});
  const Applied table("op *", {split(1, 4), full(1, false)});
  EXPECT_TRUE(table.op.entered.empty());
}

TEST(ShardRules, DimensionsOfUnknownRanksAreComparedFromTheEnd) {
  EXPECT_TYPE(sharded(-1), "op *",
              {Value::tensor(sharded(-1), true, std::nullopt), Value::tensor(sharded(-1), true, std::nullopt)});
  EXPECT_REFUSED("unproven", "op *", {Value::tensor(sharded(1), true, std::nullopt), split(1, 3)});
}

TEST(ShardRules, LocalCountIsNotAFactorOfATensor) {
  EXPECT_REFUSED("a tp-local count", "op *", {full(3), count(/*local=*/true)});
  EXPECT_REFUSED("a tp-local count", "op /", {split(2, 3), count(true)});
}

TEST(ShardRules, LocalCounts) {
  EXPECT_TRUE(Applied("op *", {count(true), count()}, "long").result.count.is_share);
  EXPECT_FALSE(Applied("op /", {count(true), count(true)}, "long").result.count.is_share)
      << "heads per key head are the same on every rank";
  EXPECT_REFUSED("two tp-local counts", "op *", {count(true), count(true)}, "long");
  EXPECT_REFUSED("unproven", "op /", {count(true), literal(2)}, "long");
  EXPECT_REFUSED("meets a number that is not split", "op +", {count(true), literal(1)}, "long");
}

TEST(ShardRules, ViewFactorsTheSplitDimensionByALocalCount) {
  EXPECT_TYPE(sharded(2), ".view", {split(2, 3), list({size(0), size(1), count(true), count()})});
  EXPECT_REFUSED("without a tp-local count", ".view", {split(2, 3), list({size(0), size(1), count(), count()})});
  EXPECT_REFUSED("to dimension 3", ".view", {split(2, 3), list({size(0), size(1), count(), count(true)})});
  EXPECT_REFUSED("two tp-local counts", ".view", {split(2, 3), list({size(0), size(1), count(true), count(true)})});
  EXPECT_REFUSED("of a value that is full", ".view", {full(3), list({size(0), size(1), count(true), count()})});
  EXPECT_TYPE(sharded(2), ".view", {split(2, 4), list({size(0), size(1), count(true)})});
  EXPECT_TYPE(sharded(2), ".view", {split(2, 4), list({size(0), size(1), literal(-1)})});
  EXPECT_REFUSED("without a tp-local count", ".view", {split(2, 3), list({size(0), size(1), literal(-1), count()})});
}

TEST(ShardRules, ViewTakesTheValuesOwnSizesBeforeTheSplit) {
  // With [batch, 2 * seq, heads, head_dim / 2] each rank would see other elements than its slice of the full view.
  EXPECT_REFUSED("not known to be the value's own", ".view",
                 {split(2, 3), list({size(0), factors({"#1", "2"}), count(true), count()})});
  EXPECT_REFUSED("not known to be the value's own", ".view", {split(2, 3), list({size(0), count(), count(true)})});
}

TEST(ShardRules, ViewIsProvenIfItsSizesFactorTheSplitDimension) {
  const Value x = split_of_size(2, 3, "d * n"), n = factors({"n"}, true), d = factors({"d"});
  EXPECT_TYPE(sharded(2), ".view", {x, list({size(0), size(1), n, d})});
  EXPECT_TYPE(sharded(2), ".view", {x, list({literal(1), literal(-1), n, d})});
  EXPECT_TYPE(sharded(2), ".view", {x, list({factors({"#0", "2"}), count(), n, d})});
  // [1, batch * seq, n, d / 2 …]: the sizes before the split are arbitrary.
  EXPECT_REFUSED("not known to be the value's own", ".view", {x, list({literal(1), literal(-1), n, count()})});
  // [batch, 1, n, seq * d]: merges rows of different positions.
  EXPECT_REFUSED("not known to be the value's own", ".view", {x, list({size(0), literal(1), n, literal(-1)})});
  EXPECT_REFUSED("not known to be the value's own", ".view", {x, list({size(0), size(0), n, count()})});
}

TEST(ShardRules, SizeOfTheSplitDimensionIsKeptIfAllAgree) {
  EXPECT_EQ(Applied("op *", {split_of_size(2, 3, "n"), split_of_size(2, 3, "n")}).result.split_size, "n");
  EXPECT_EQ(Applied("op *", {split_of_size(2, 3, "n"), split(2, 3)}).result.split_size, "");
  EXPECT_EQ(Applied("silu", {split_of_size(2, 3, "n")}).result.split_size, "n");
  EXPECT_EQ(Applied(".repeat_interleave", {split_of_size(1, 4, "n"), literal(2), literal(1)}).result.split_size, "");
  const Value fused = Value::tensor(sharded(-1, {"a", "b"}), true, 3);
  const Applied parts(".split", {fused, list({factors({"a"}, true), factors({"b"}, true)}), literal(-1)});
  ASSERT_EQ(parts.result.elements.size(), 2u) << parts.op.message;
  EXPECT_EQ(parts.result.elements[1].split_size, "b");
}

TEST(ShardRules, LocalCountIsReadOnlyByRulesThatSupportIt) {
  EXPECT_REFUSED("a tp-local count in select", ".select", {full(3), literal(1), count(true)});
  EXPECT_REFUSED("a tp-local count in chunk", ".chunk", {full(3), count(true), literal(1)});
  EXPECT_REFUSED("a tp-local count in repeat_interleave", ".repeat_interleave", {full(3), count(true), literal(1)});
  EXPECT_REFUSED("a tp-local count in roll", ".roll", {full(3), count(true), literal(1)});
  EXPECT_REFUSED("a tp-local count in tril", ".tril", {full(3), count(true)});
  EXPECT_REFUSED("a tp-local count in soft_cap", "soft_cap", {full(3), count(true)});
  EXPECT_REFUSED("a tp-local count in rms_norm", "rms_norm", {full(3), full(1), count(true)});
}

TEST(ShardRules, OperandsThatARuleDoesNotReadAreChecked) {
  EXPECT_REFUSED("unproven", "soft_cap", {full(3), split(2, 3)});
  EXPECT_REFUSED("unproven", "soft_cap", {full(3), partial(3)});
  EXPECT_TYPE(kInvariant, ".type_as", {full(3), split(2, 3)});
}

TEST(ShardRules, PartsOfAFusedLayerAreSplitSeparately) {
  const Value fused = sized(Value::tensor(sharded(-1, {"a * d", "b * d", "b * d"}), true, 3));
  const Value a = factors({"a", "d"}, true), b = factors({"b", "d"}, true);
  for (const char* name : {".split", ".split_with_sizes"}) {
    const Applied parts(name, {fused, list({a, b, b}), literal(-1)});
    ASSERT_EQ(parts.result.elements.size(), 3u) << parts.op.message;
    for (const Value& part : parts.result.elements) EXPECT_EQ(part.type, sharded(2));
    EXPECT_REFUSED("by other sizes than its parts'", name, {fused, list({a, b}), literal(-1)});
    EXPECT_REFUSED("by other sizes than its parts'", name, {fused, list({b, a, b}), literal(-1)});
    EXPECT_REFUSED("by other sizes than its parts'", name,
                   {fused, list({factors({"a", "d"}), factors({"b", "d"}), factors({"b", "d"})}), literal(-1)});
  }
  const Value both = Applied("op +", {b, b}, "long").result;
  const Applied run(".split_with_sizes", {fused, list({a, both}), literal(-1)});
  ASSERT_EQ(run.result.elements.size(), 2u) << run.op.message;
  EXPECT_EQ(run.result.elements[1].type, sharded(2, {"b * d", "b * d"})) << "parts that follow one another";
  EXPECT_REFUSED("by other sizes than its parts'", ".split_with_sizes", {fused, list({both, a}), literal(-1)});
  EXPECT_REFUSED("which are not its parts", ".chunk", {fused, literal(3), literal(-1)});
  EXPECT_REFUSED("its parts would interleave", ".view",
                 {fused, list({size(0), size(1), literal(3), count(true), count()})});
  EXPECT_REFUSED("within different parts", "op +", {fused, split(2, 3)});
  EXPECT_REFUSED("reads a value that is split over tp along its last dimension within the parts", "tp_rowwise",
                 {Value(), fused});
  EXPECT_REFUSED("a loss over logits", "cross_entropy", {fused, full(2, false)});
}

TEST(ShardRules, EqualPartsAreChunksOrASeparateDimension) {
  const Value fused = sized(Value::tensor(sharded(-1, {"a", "a"}), true, 3));
  const Applied halves(".chunk", {fused, literal(2), literal(-1)});
  ASSERT_EQ(halves.result.elements.size(), 2u) << halves.op.message;
  EXPECT_EQ(halves.result.elements[0].type, sharded(2));
  EXPECT_REFUSED("which are not its parts", ".chunk", {fused, literal(3), literal(-1)});
  EXPECT_TYPE(sharded(3), ".view", {fused, list({size(0), size(1), literal(2), count(true), count()})});
  EXPECT_TYPE(sharded(2, {"a", "a"}), "silu", {fused});
}

TEST(ShardRules, ColumnWiseLayerOfParts) {
  Value layer;
  layer.kind = Value::Kind::module;
  layer.type = sharded(0, {"a", "b"});
  EXPECT_TYPE(sharded(2, {"a", "b"}), "tp_colwise", {layer, full(3)});
}

TEST(ShardRules, TableThatIsSplitByColumn) {
  Value table;
  table.kind = Value::Kind::module;
  table.type = sharded(1);
  EXPECT_TYPE(sharded(2), "tp_shard embedding", {table, full(2, false)});
  table.type = sharded(0);
  EXPECT_REFUSED("splits by row", "tp_shard embedding", {table, full(2, false)});
}

TEST(ShardRules, ShapeOperationsCarryTheSplitAlong) {
  EXPECT_TYPE(sharded(1), ".transpose", {split(2, 4), literal(1), literal(2)});
  EXPECT_TYPE(sharded(1), ".transpose", {split(2, 4), literal(-2), literal(1)});
  EXPECT_TYPE(sharded(2), ".flatten", {split(2, 4), literal(2)});
  EXPECT_REFUSED("would interleave", ".flatten", {split(3, 4), literal(2)});
  EXPECT_TYPE(sharded(2), ".unsqueeze", {split(1, 3), literal(0)});
  EXPECT_TYPE(sharded(1), ".unsqueeze", {split(1, 3), literal(-1)});
  EXPECT_TYPE(sharded(2), ".permute", {split(1, 4), list({literal(0), literal(2), literal(1), literal(3)})});
  EXPECT_TYPE(sharded(1), ".repeat_interleave", {split(1, 4), count(), literal(1)});
}

TEST(ShardRules, OneForAllHeadsIsExpandedToEachRanksHeads) {
  Value one = full(4);
  one.ones = {-3};
  const Applied applied(".expand", {one, list({size(), count(true), size(), size()})});
  EXPECT_EQ(applied.result.type, sharded(1));
  EXPECT_EQ(applied.op.entered, std::vector<size_t>{0}) << "the heads' gradients add";
  EXPECT_REFUSED("not known to have size 1 there", ".expand", {full(4), list({size(), count(true), size(), size()})});
  EXPECT_REFUSED("two tp-local counts", ".expand", {one, list({size(), count(true), count(true), size()})});
  Value sum = partial(4);
  sum.ones = {-3};
  EXPECT_REFUSED("an expansion", ".expand", {sum, list({size(), count(true), size(), size()})});
}

TEST(ShardRules, SplitDimensionIsNotCut) {
  EXPECT_REFUSED("each rank sees only its slice", ".chunk", {split(2, 3), literal(2), literal(-1)});
  EXPECT_REFUSED("each rank sees only its slice", ".narrow", {split(2, 3), literal(2), literal(0), literal(5)});
  EXPECT_REFUSED("would interleave", "cat", {list({split(2, 3), split(2, 3)}), literal(-1)});
  EXPECT_TYPE(sharded(2), "cat", {list({split(2, 3), split(2, 3)}), literal(1)});
  EXPECT_REFUSED("cat of values", "cat", {list({split(2, 3), full(3)}), literal(1)});
}

TEST(ShardRules, StackInsertsADimension) {
  EXPECT_TYPE(sharded(2), "stack", {list({split(1, 3), split(1, 3)})});
  EXPECT_TYPE(sharded(2), "stack", {list({split(1, 3), split(1, 3)}), literal(1)});
  EXPECT_TYPE(sharded(1), "stack", {list({split(1, 3), split(1, 3)}), literal(2)});
  EXPECT_TYPE(sharded(1), "stack", {list({split(1, 3), split(1, 3)}), literal(-1)});
  EXPECT_TYPE(sharded(2), "stack", {list({split(1, 3), split(1, 3)}), literal(-3)});
  EXPECT_REFUSED("stack of values", "stack", {list({split(1, 3), full(3)})});
}

TEST(ShardRules, GatherTakesAnIndexThatIsSplitLikeItsValue) {
  auto split_index = Value::tensor(sharded(1), false, 4), full_index = full(4, false), heads = split(1, 4);
  EXPECT_REFUSED("not known to have as many elements", "gather", {heads, literal(-1), split_index});
  heads.counts = {"num_heads"}, split_index.counts = {"num_key_value_heads"};
  EXPECT_REFUSED("not known to have as many elements", "gather", {heads, literal(-1), split_index});
  split_index.counts = {"num_heads"};
  EXPECT_TYPE(sharded(1), "gather", {heads, literal(-1), split_index});
  EXPECT_TYPE(kInvariant, "gather", {full(4), literal(-1), full_index});
  EXPECT_TYPE(kPartial, "gather", {partial(4), literal(-1), full_index});
  EXPECT_REFUSED("gather along dimension 1", "gather", {split(1, 4), literal(1), split_index});
}

TEST(ShardRules, ElementsAreNotNamedByALocalCount) {
  EXPECT_REFUSED("an index that is a tp-local count", "op []", {full(3), count(true)});
  EXPECT_REFUSED("an index that is a tp-local count", "op []", {list({full(3), full(3)}), count(true)});
}

TEST(ShardRules, ReductionsOverTheSplit) {
  EXPECT_TYPE(kPartial, ".sum", {split(2, 3)});
  EXPECT_TYPE(kPartial, ".sum", {split(2, 3), literal(-1)});
  EXPECT_TYPE(sharded(1), ".sum", {split(2, 3), literal(1)});
  EXPECT_REFUSED("each rank sees only its slice", ".mean", {split(2, 3), literal(-1)});
  EXPECT_REFUSED("each rank sees only its slice", "softmax", {split(2, 3), literal(-1)});
  EXPECT_REFUSED("is not linear", "softmax", {partial(3), literal(-1)});
}

/// A boolean that is not a literal.
Value flag() { return Value::number(); }

TEST(ShardRules, ReductionThatMayKeepItsDimensionIsUnproven) {
  EXPECT_REFUSED("no rule for sum", ".sum", {split(2, 4), literal(1), flag()});
  EXPECT_FALSE(Applied(".sum", {full(4), literal(1), flag()}).result.rank) << "it may have one dimension less";
  EXPECT_TYPE(kPartial, ".sum", {split(2, 4), literal(2), flag()});
}

TEST(ShardRules, ReductionOfAnUnknownRankCountsFromTheEnd) {
  const Value last = Value::tensor(sharded(-1), true, std::nullopt), before = Value::tensor(sharded(-2), true, {});
  EXPECT_TYPE(sharded(-1), ".mean", {last, literal(-2)});
  EXPECT_TYPE(sharded(-1), ".mean", {before, literal(-1)});
  EXPECT_REFUSED("no rule for mean", ".mean", {last, literal(0)});
}

TEST(ShardRules, ReductionsOverSeveralDimensions) {
  EXPECT_TYPE(sharded(0), ".mean", {split(1, 4), list({literal(0), literal(-1)})});
  EXPECT_TYPE(kPartial, ".sum", {split(1, 4), list({literal(0), literal(1)})});
  EXPECT_REFUSED("each rank sees only its slice", ".mean", {split(1, 4), list({literal(0), literal(-3)})});
  EXPECT_EQ(Applied(".mean", {full(4), list({literal(0), literal(1)})}).result.rank, 2);
}

TEST(ShardRules, QuotientsAreLinearInTheDividend) {
  for (const char* name : {"div", ".div", "op /"}) {
    EXPECT_TYPE(kPartial, name, {partial(3), literal(2)});
    EXPECT_REFUSED("division by a partial sum", name, {full(3, false), partial(3)});
  }
  EXPECT_REFUSED("is not linear", ".div", {partial(3), literal(2), Value::number()});  // rounding_mode
}

TEST(ShardRules, PartialSumsAreNotRounded) {
  EXPECT_REFUSED("not known to be a floating type", ".type_as", {partial(3), full(2, /*gradient=*/false)});
  EXPECT_TYPE(kPartial, ".type_as", {partial(3), full(2)});
}

TEST(ShardRules, SqueezedDimensionMayStay) {
  Value one = split(1, 3);
  one.ones = {-3};
  EXPECT_EQ(Applied(".squeeze", {one, literal(0)}).result.type, sharded(0));
  EXPECT_EQ(Applied(".squeeze", {one, literal(0)}).result.rank, 2);
  for (const int dim : {0, 2})
    EXPECT_REFUSED("only if its size is 1, which is not known here", ".squeeze", {split(1, 3), literal(dim)});
  Value unranked = split(1, 3);
  unranked.rank.reset();
  EXPECT_EQ(Applied(".squeeze", {unranked, literal(2)}).result.type, sharded(1));
  EXPECT_FALSE(Applied(".squeeze", {full(3), literal(0)}).result.rank);
}

TEST(ShardRules, RollOfAllElementsMovesThemAcrossSlices) {
  EXPECT_REFUSED("no rule for roll", ".roll", {split(1, 3), literal(2)});
  EXPECT_TYPE(sharded(1), ".roll", {split(1, 3), literal(1), literal(2)});
  EXPECT_REFUSED("each rank sees only its slice", ".roll", {split(1, 3), literal(2), literal(1)});
}

TEST(ShardRules, RepeatedDimensionHasNoLongerSizeOne) {
  Value mask = full(4, false);
  mask.ones = {-3};
  EXPECT_TRUE(Applied(".repeat_interleave", {mask, literal(4), literal(1)}).result.ones.empty());
  EXPECT_EQ(Applied(".repeat_interleave", {full(4), literal(4)}).result.rank, 1);
}

TEST(ShardRules, ExpandToOneLocalCountOnly) {
  Value x = split(2, 4);
  x.ones = {-3};
  EXPECT_TYPE(sharded(2), ".expand", {x, list({size(), literal(1), count(true), size()})});
  EXPECT_REFUSED("no rule for expand", ".expand", {x, list({size(), count(true), count(true), size()})});
}

TEST(ShardRules, RemainderOfLocalCountsIsLocal) {
  EXPECT_TRUE(Applied("op %", {count(true), count(true)}, "long").result.count.is_share);
  EXPECT_REFUSED("unproven: a remainder", "op %", {count(true), literal(2)}, "long");
}

TEST(ShardRules, VectorHasNoRows) {
  EXPECT_EQ(Applied("matmul", {full(3), full(1)}).result.rank, 2);
  EXPECT_EQ(Applied("matmul", {full(1), full(1)}).result.rank, 0);
  const Value unknown = Value::tensor(kInvariant, true, std::nullopt);
  EXPECT_REFUSED("unproven", "matmul", {split(1, 3), unknown});
  EXPECT_TYPE(sharded(0), ".t", {split(0, 1)});
  EXPECT_REFUSED("no rule for t", ".t", {Value::tensor(sharded(-1), true, std::nullopt)});
}

TEST(ShardRules, SizesNameTheirNumber) {
  EXPECT_EQ(Applied(".size", {full(3), literal(-3)}, "long").result.count, field_count("#0"));
  EXPECT_FALSE(Applied(".size", {Value::tensor(kInvariant, true, 3), literal(0)}, "long").result.count.is_known());
  const Value view_of_others = list({factors({"#7"}), size(1), count(true), count()});
  EXPECT_REFUSED("not known to be the value's own", ".view", {split(2, 3), view_of_others});
  // Their order does not matter.
  EXPECT_TYPE(sharded(2), ".view", {split(2, 3), list({size(1), size(0), count(true), count()})});
}

TEST(ShardRules, SizesFollowTheirDimensions) {
  const auto sizes = [](const Value& value) {
    std::string text;
    for (int64_t i = 0; i < value.sizes.rank(); ++i)
      text += (i > 0 ? ", " : "") + (value.sizes[i].literal() == 1 ? "1"
                                     : value.sizes[i].is_known()   ? product_text(value.sizes[i])
                                                                   : "?");
    return text;
  };
  const Value x = full(3);
  Value layer;
  layer.kind = Value::Kind::module;
  layer.sizes = Sizes({field_count("out")});
  EXPECT_EQ(sizes(Applied("linear layer", {layer, x}).result), "#0, #1, out");
  EXPECT_EQ(sizes(Applied("embedding layer", {layer, x}).result), "#0, #1, #2, out");
  EXPECT_EQ(sizes(Applied(".transpose", {x, literal(0), literal(-1)}).result), "#2, #1, #0");
  EXPECT_EQ(sizes(Applied(".permute", {x, list({literal(2), literal(0), literal(1)})}).result), "#2, #0, #1");
  EXPECT_EQ(sizes(Applied(".unsqueeze", {x, literal(1)}).result), "#0, 1, #1, #2");
  EXPECT_EQ(sizes(Applied(".flatten", {x, literal(0), literal(1)}).result), "#0 * #1, #2");
  EXPECT_EQ(sizes(Applied(".select", {x, literal(1), literal(0)}).result), "#0, #2");
  EXPECT_EQ(sizes(Applied(".narrow", {x, literal(1), literal(0), count()}).result), "#0, ?, #2");
  EXPECT_EQ(sizes(Applied("op +", {x, full(3)}).result), "#0, #1, #2");
  EXPECT_EQ(sizes(Applied("op +", {x, full(1)}).result), "#0, #1, ?");
  EXPECT_EQ(sizes(Applied(".view", {x, list({size(0), literal(-1)})}).result), "#0, ?");
  EXPECT_EQ(sizes(Applied("matmul", {x, full(2)}).result), "#0, #1, #1");
  EXPECT_EQ(sizes(Applied(".mean", {x, literal(1)}).result), "#0, #2");
  EXPECT_EQ(sizes(Applied(".mean", {x, literal(-1)}).result), "#0, #1");
  EXPECT_EQ(sizes(Applied(".norm", {x, literal(2), literal(1)}).result), "#0, #2");
  EXPECT_EQ(sizes(Applied(".roll", {x, literal(1), literal(-1)}).result), "#0, #1, #2");
  EXPECT_EQ(sizes(Applied(".sum", {x}).result), "");
  // The batch's sizes may be any number, so that what they broadcast with is 1 or the same.
  Value batch = full(2), other = Value::tensor(kInvariant, true, 2);
  batch.sizes = Sizes({field_count("#batch"), field_count("n")});
  EXPECT_EQ(sizes(Applied("op +", {batch, other}).result), "#batch, ?");
  EXPECT_EQ(sizes(Applied("op +", {full(2), other}).result), "?, ?");
  Value of_others = full(2);
  EXPECT_EQ(sizes(Applied("op +", {batch, of_others}).result), "#batch, ?");
  of_others.sizes = Sizes({field_count("#seq"), field_count("n")});
  EXPECT_EQ(sizes(Applied("op +", {batch, of_others}).result), "?, n");
}

TEST(ShardRules, ViewOfAnUnknownRankNeedsItsSizes) {
  Value x = Value::tensor(sharded(-1), true, std::nullopt);
  EXPECT_REFUSED("with an unknown number of dimensions before", ".view", {x, list({size(0), literal(-1)})});
  x.split_size = "d * n";
  EXPECT_TYPE(sharded(2), ".view", {x, list({size(0), size(1), factors({"n"}, true), factors({"d"})})});
}

TEST(ShardRules, PartsThatRepresentHeadsOrGroups) {
  const Value heads = Value::tensor(sharded(1, {"a", "a"}), true, 4);
  EXPECT_REFUSED("within the parts", "attention", {heads, heads, heads, Value(), count()});
  const Value x = Value::tensor(sharded(2, {"a", "b"}), true, 3),
              weight = Value::tensor(sharded(0, {"a", "b"}), true, 1);
  EXPECT_REFUSED("groups may span parts", "gated_rms_norm", {x, x, weight, count(true), count()});
}

TEST(ShardRules, LastSizeOfABroadcastResult) {
  Value x = full(3), y = full(3);
  x.last_size = "n";
  EXPECT_EQ(Applied("op +", {x, y}).result.last_size, "") << "n may be 1";
  y.ones = {-1};
  EXPECT_EQ(Applied("op +", {x, y}).result.last_size, "n");
  EXPECT_EQ(Applied("op +", {x, x}).result.last_size, "n");
  EXPECT_EQ(Applied("matmul", {x, x}).result.last_size, "");
}

TEST(ShardRules, NormOfAVectorReadsItsPowerFirst) {
  EXPECT_REFUSED("each rank sees only its slice", ".norm", {split(1, 4), literal(2), literal(1)});
  EXPECT_TYPE(sharded(1), ".norm", {split(1, 4), literal(2), literal(3)});
  EXPECT_REFUSED("each rank sees only its slice", ".norm", {split(1, 4), literal(1)});
}

TEST(ShardRules, SizesOfTheSplitDimensionAreLocal) {
  EXPECT_TRUE(Applied(".size", {split(2, 3), literal(-1)}, "long").result.count.is_share);
  EXPECT_FALSE(Applied(".size", {split(2, 3), literal(1)}, "long").result.count.is_share);
}

TEST(ShardRules, Matmuls) {
  EXPECT_TYPE(kPartial, "matmul", {split(3, 4), split(2, 4)});
  EXPECT_TYPE(sharded(1), "matmul", {split(1, 4), split(1, 4)});
  EXPECT_REFUSED("only one side is split", "matmul", {split(3, 4), full(4)});
  const Applied columns("matmul", {full(3), split(1, 2)});
  EXPECT_EQ(columns.result.type, sharded(2));
  EXPECT_EQ(columns.op.entered, std::vector<size_t>{0});
  EXPECT_REFUSED("unproven", "matmul", {full(3), split(0, 1)});  // a vector has no columns
}

TEST(ShardRules, LinearFunctionOfSplitWeights) {
  EXPECT_TYPE(kPartial, "linear", {split(2, 3), split(1, 2)});
  EXPECT_REFUSED("a bias is added to a partial sum", "linear", {split(2, 3), split(1, 2), full(1)});
  EXPECT_REFUSED("split by input feature meets", "linear", {full(3), split(1, 2)});
  EXPECT_TYPE(sharded(2), "linear", {full(3), split(0, 2)});
}

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

TEST(ShardRules, ConvolutionsTakeFullValues) {
  const Applied patches("Conv2d layer", {Value(), full(4, /*gradient=*/false)});
  EXPECT_EQ(patches.result, Value::tensor(kInvariant, true, 4));
  EXPECT_TRUE(Applied("Conv2d layer", {Value(), split(1, 4)}).rejected());
  EXPECT_TRUE(Applied("Conv2d layer", {Value(), partial(4)}).rejected());
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

TEST(ShardRules, BiasAddedToAMatmul) {
  const Applied columns("addmm", {split(0, 1), full(2), split(1, 2)});
  EXPECT_EQ(columns.result.type, sharded(1)) << columns.op.message;
  EXPECT_EQ(columns.op.entered, std::vector<size_t>{1});
  EXPECT_REFUSED("would count it once for every rank", "addmm", {full(1), split(1, 2), split(0, 2)});
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

TEST(ShardRules, UnknownDimensionsAreNotTheDefault) {
  EXPECT_REFUSED("no rule", ".softmax", {split(2, 4), count()});
  EXPECT_REFUSED("no rule", ".select", {split(2, 4), count(), literal(0)});
  EXPECT_REFUSED("no rule", ".chunk", {split(2, 4), literal(2), count()});
  EXPECT_REFUSED("no rule", "cat", {list({split(2, 4), split(2, 4)}), count()});
  EXPECT_REFUSED("no rule", ".flatten", {split(0, 4), count()});
  EXPECT_REFUSED("no rule", ".flatten", {split(0, 4), literal(1), count()});
  EXPECT_REFUSED("no rule", ".squeeze", {split(2, 4), count()});
}

TEST(ShardRules, NumbersTooLargeForADimensionAreUnknown) {
  const Applied product("op *", {literal(1LL << 40), literal(1LL << 40)}, "int64_t");
  EXPECT_FALSE(product.result.count.is_known());
  const Applied sum("op +", {literal(2), literal(3)}, "int64_t");
  EXPECT_EQ(sum.result.count.literal(), 5);
}

TEST(ShardRules, PathsThatDisagree) {
  EXPECT_EQ(join(split(2, 3), split(2, 3)), split(2, 3));
  EXPECT_EQ(join(split(2, 3), full(3)).kind, Value::Kind::mismatch);
  EXPECT_EQ(join(Value(), split(2, 3)), split(2, 3)) << "an undefined tensor has every type";
  const Value unknown = Value::unknown("the result of now", {});
  EXPECT_EQ(join(unknown, full(3)), unknown);
  EXPECT_EQ(join(list({full(3)}), unknown), unknown);
}

TEST(ShardRules, MembersThatOnePathDoesNotSet) {
  const auto object = [](bool is_built, std::map<std::string, Value> members) {
    Value value;
    value.kind = Value::Kind::object;
    value.is_built = is_built;
    value.members = std::move(members);
    return value;
  };
  // Members that are not listed are not known in a built object, and the same on every rank in another one.
  EXPECT_EQ(join(object(true, {{"a", full(1)}}), object(true, {})), object(true, {}));
  EXPECT_EQ(join(object(true, {{"a", full(1)}}), object(false, {})), object(true, {{"a", full(1)}}));
  EXPECT_EQ(join(object(false, {}), object(false, {{"a", split(0, 1)}})).kind, Value::Kind::mismatch);
}

TEST(ShardRules, UnknownAndVariantPartsOfAValue) {
  const Value unknown = Value::unknown("the result of now", {});
  EXPECT_TRUE(find_unknown(list({full(1), unknown})));
  EXPECT_FALSE(find_variant(list({full(1), unknown})));
  EXPECT_TRUE(find_variant(list({unknown, split(0, 1)})));
  EXPECT_FALSE(list({full(1), unknown}).is_invariant());
}

}  // namespace
}  // namespace modgen
