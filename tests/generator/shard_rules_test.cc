// Tests of the shard-type rules: the result of each operation on full, partial and split values, and its errors.
#include "tests/generator/shard_rule_values.h"

namespace modgen {
namespace {

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
  EXPECT_REFUSED("combined with a global number", "op +", {count(true), literal(1)}, "long");
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
  EXPECT_EQ(sizes(Applied(".view", {x, list({size(0), literal(-1)})}).result), "#0, #1 * #2");
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
  EXPECT_TYPE(sharded(1), "linear", {split(1, 3), full(2)});
  EXPECT_REFUSED("no rule for linear", "linear", {Value::tensor(sharded(1), true, std::nullopt), full(2)});
  EXPECT_REFUSED("no rule for linear", "linear", {full(3), split(0, 1)});  // a vector is contracted
  EXPECT_TYPE(sharded(2), "linear", {full(3), split(0, 2), split(0, 1)});
  EXPECT_REFUSED("with a bias that is not", "linear", {full(3), split(0, 2), split(0, 2)});
}

TEST(ShardRules, ConvolutionsTakeFullValues) {
  const Applied patches("Conv2d layer", {Value(), full(4, /*gradient=*/false)});
  EXPECT_EQ(patches.result, Value::tensor(kInvariant, true, 4));
  EXPECT_TRUE(Applied("Conv2d layer", {Value(), split(1, 4)}).rejected());
  EXPECT_TRUE(Applied("Conv2d layer", {Value(), partial(4)}).rejected());
}

TEST(ShardRules, BiasOfALinearMapIsSplitAsItsWeightIs) {
  EXPECT_TYPE(sharded(1), "linear", {split(1, 3), full(2), full(1)});
  EXPECT_TYPE(sharded(2), "linear", {full(3), split(0, 2), split(0, 1)});
  EXPECT_REFUSED("full on every tp rank with a bias", "linear", {split(1, 3), full(2), split(0, 1)});
  EXPECT_REFUSED("with a bias that is not", "linear", {full(3), split(0, 2), full(1)});
}

TEST(ShardRules, BiasAddedToAMatmul) {
  const Applied columns("addmm", {split(0, 1), full(2), split(1, 2)});
  EXPECT_EQ(columns.result.type, sharded(1)) << columns.op.message;
  EXPECT_EQ(columns.op.entered, std::vector<size_t>{1});
  EXPECT_REFUSED("would count it once for every rank", "addmm", {full(1), split(1, 2), split(0, 2)});
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
