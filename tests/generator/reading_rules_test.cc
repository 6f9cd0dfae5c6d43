// Tests of the rules for values that are split by the rows of the batch, or by the positions of the sequence, among
// forwards or among ranks.
#include "generator/source/names.h"
#include "tests/generator/rule_values.h"

namespace modgen {
namespace {

Value split(int64_t dim, std::optional<int64_t> rank) {
  Value value = Value::tensor(sharded(dim), true, rank);
  value.axis = Axis::rows;
  return value;
}
Value alike(int64_t rank) { return Value::tensor(kInvariant, true, rank); }
Value partial() { return Value::tensor(kPartial, true, 0); }
Value flag() { return Value::number(); }

Value of_size_one(int64_t rank, int64_t dim) {
  Value value = alike(rank);
  value.ones = {dim - rank};
  return value;
}

/// The number of a rank's rows or of a forward's positions.
Value share() { return Value::number(true); }

Value batch() {
  Value value;
  value.kind = Value::Kind::object;
  value.members["input_ids"] = split(0, 2);
  return value;
}

/// Applies an operation in a reading. Functions of the contract have their namespace.
struct Applied : OnValues {
  Applied(Axis axis, const std::string& name, std::vector<Value> values)
      : OnValues(std::string(unqualified(name)), std::move(values)) {
    if (name.starts_with("modular::")) {
      auto callee = std::make_shared<Callee>();
      callee->home = Callee::Home::contract;
      callee->name = name;
      expr.kind = Expr::Kind::call;
      expr.callee = callee;
    }
    op.axis = axis;
    result = apply_in_reading(op, find_rule(op.name));
  }
};

#define EXPECT_TYPE(expected, ...)            \
  do {                                        \
    const Applied applied(__VA_ARGS__);       \
    EXPECT_EQ(applied.op.message, "");        \
    EXPECT_EQ(applied.result.type, expected); \
  } while (false)

#define EXPECT_REJECTED(part, ...)                                                                    \
  do {                                                                                                \
    const Applied applied(__VA_ARGS__);                                                               \
    EXPECT_NE(applied.op.message.find(part), std::string::npos) << "message: " << applied.op.message; \
    EXPECT_FALSE(applied.op.advice.empty());                                                          \
  } while (false)

TEST(RowsOfTheBatch, StayInViewsThatStartWithThem) {
  Value x = split(0, 3);
  x.sizes = Sizes({field_count("#batch"), field_count("#seq"), literal_count(8)});
  EXPECT_TYPE(sharded(0), Axis::rows, ".view", {x, list({share(), literal(4), literal(2)})});
  EXPECT_TYPE(sharded(0), Axis::rows, ".view", {x, list({literal(-1), literal(8)})});
  EXPECT_TYPE(sharded(1), Axis::rows, ".view", {x, list({literal(1), share(), literal(8)})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view", {x, list({literal(4), share(), literal(8)})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view", {x, list({literal(4), literal(-1)})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view", {x, list({share(), share()})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view",
                  {split(1, 3), list({literal(-1), literal(8)})});
  EXPECT_REJECTED("joins several of them", Axis::rows, ".view", {x, list({literal(-1), literal(16)})});
  EXPECT_REJECTED("joins several of them", Axis::rows, ".view", {split(0, 3), list({literal(-1), literal(8)})});
  EXPECT_REJECTED("no rule", Axis::rows, ".view", {alike(3), list({share(), literal(8)})});
}

TEST(RowsOfTheBatch, AreReducedBySumsOnly) {
  const Value x = split(0, 3);
  EXPECT_TYPE(sharded(0), Axis::rows, ".mean", {x, literal(1)});
  EXPECT_TYPE(kPartial, Axis::rows, ".sum", {x});
  for (const char* name : {".mean", ".amax", ".max", ".softmax", ".cumsum", ".flip", "max"})
    EXPECT_REJECTED("over", Axis::rows, name, {x, literal(0)});
  for (const char* name : {".std", "std", "batch_norm", ".item", ".nonzero", ".unique", "einsum"})
    EXPECT_NE(Applied(Axis::rows, name, {x}).op.message, "") << name;
  EXPECT_REJECTED("not linear", Axis::rows, ".tanh", {partial()});
  EXPECT_REJECTED("count it once", Axis::rows, "op +", {partial(), alike(0)});
}

TEST(RowsOfTheBatch, MeetValuesOfOneRow) {
  const Value x = split(0, 3);
  EXPECT_TYPE(sharded(0), Axis::rows, "op +", {x, alike(1)});
  EXPECT_TYPE(sharded(0), Axis::rows, "op +", {x, of_size_one(3, 0)});
  EXPECT_REJECTED("full on every tp rank meets", Axis::rows, "op +", {x, alike(3)});
  EXPECT_REJECTED("different dimensions", Axis::rows, "op +", {split(0, 2), split(1, 2)});
}

TEST(RowsOfTheBatch, ThatMayBeOneAreNotSummed) {
  const Value positions = Applied(Axis::rows, "modular::position_ids", {batch()}).result;
  EXPECT_EQ(positions.type, sharded(0));
  EXPECT_TRUE(positions.may_be_one);
  EXPECT_TRUE(Applied(Axis::rows, ".unsqueeze", {positions, literal(-1)}).result.may_be_one);
  EXPECT_FALSE(Applied(Axis::rows, "op +", {positions, split(0, 2)}).result.may_be_one);
  EXPECT_REJECTED("or has size 1", Axis::rows, ".sum", {positions});
}

TEST(RowsOfTheBatch, ThatMayBeOneAreNotCounted) {
  Value positions = split(0, 2), x = split(0, 3);
  positions.may_be_one = x.may_be_one = true;
  positions.sizes = Sizes({field_count("#1"), field_count("#seq")});
  x.sizes = Sizes({field_count("#1"), field_count("#seq"), field_count("hidden")});
  const Value rows = Applied(Axis::rows, ".size", {positions, literal(0)}).result;
  EXPECT_TRUE(rows.may_be_one);
  EXPECT_TYPE(sharded(0), Axis::rows, ".view", {x, list({rows, literal(-1)})});
  EXPECT_REJECTED("or has size 1", Axis::rows, ".view", {split(0, 3), list({rows, literal(-1)})});
  for (const char* name : {"ones", ".expand"})
    EXPECT_REJECTED("or has size 1", Axis::rows, name, {list({rows}), flag()});
  EXPECT_REJECTED("or has size 1", Axis::rows, "op /", {share(), rows});
}

TEST(RowsOfTheBatch, OfAMaskAloneAreNotSummed) {
  Value mask;
  mask.kind = Value::Kind::object;
  mask.members["padding"] = split(0, 2);
  const Value queries = of_size_one(4, 0);
  EXPECT_TRUE(Applied(Axis::rows, "modular::attention", {queries, queries, queries, mask, flag()}).result.may_be_one);
  const Value keys = split(0, 4);
  EXPECT_FALSE(Applied(Axis::rows, "modular::attention", {queries, keys, keys, mask, flag()}).result.may_be_one);
}

TEST(RowsOfTheBatch, GiveNoNumberOfClasses) {
  EXPECT_TYPE(sharded(0), Axis::rows, "one_hot", {split(0, 2), literal(8)});
  EXPECT_REJECTED("without a number of classes", Axis::rows, "one_hot", {split(0, 2)});
  EXPECT_REJECTED("without a number of classes", Axis::rows, "one_hot", {split(0, 2), literal(-1)});
}

TEST(RowsOfTheBatch, AreNotTheChannelsOfAConvolution) {
  EXPECT_TYPE(sharded(0), Axis::rows, "Conv1d layer", {Value(), split(0, 3)});
  EXPECT_REJECTED("no rule", Axis::rows, "Conv1d layer", {Value(), split(0, 2)});
  EXPECT_REJECTED("no rule", Axis::rows, "Conv2d layer", {Value(), split(0, 3)});
}

TEST(RowsOfTheBatch, AreThoseOfTheLabelsToo) {
  const auto with_labels = [](const Value& labels) {
    Value changed = batch();
    changed.members["labels"] = labels;
    return changed;
  };
  const auto apply = [](const Value& changed, const std::string& targets_of) {
    OnValues outputs("cross_entropy_outputs", {split(0, 3), changed, Value()});
    auto callee = std::make_shared<Callee>();
    callee->home = Callee::Home::contract;
    callee->name = "modular::cross_entropy_outputs";
    outputs.expr.kind = Expr::Kind::call;
    outputs.expr.callee = callee;
    outputs.expr.operands[2].name = targets_of;
    outputs.op.axis = Axis::rows;
    apply_in_reading(outputs.op, find_rule("cross_entropy_outputs"));
    return outputs.op.message;
  };
  EXPECT_EQ(apply(with_labels(split(0, 2)), "modular::same_labels"), "");
  EXPECT_NE(apply(with_labels(split(1, 2)), "modular::same_labels").find("a batch whose labels is split"),
            std::string::npos);
  EXPECT_NE(apply(with_labels(split(0, 2)), "modular::alpha::turned").find("other than next_tokens"),
            std::string::npos);
}

TEST(RowsOfTheBatch, AreThoseOfOutputsThatForwardReads) {
  const Value outputs = Applied(Axis::rows, "modular::classification_outputs", {split(0, 2), batch(), flag()}).result;
  EXPECT_EQ(outputs.members.at("logits").type, sharded(0));
  for (const char* name : {"loss_sum", "token_count"}) EXPECT_EQ(outputs.members.at(name).type, kPartial) << name;
}

TEST(RowsOfTheBatch, StayWhereOtherDimensionsChange) {
  Value x = split(1, 3);
  x.sizes = Sizes({field_count("a"), field_count("#batch"), field_count("b")});
  EXPECT_TYPE(sharded(2), Axis::rows, ".unflatten", {x, literal(0), list({literal(2), literal(-1)})});
  EXPECT_TYPE(sharded(1), Axis::rows, ".unflatten", {x, literal(2), list({literal(2), literal(-1)})});
  EXPECT_REJECTED("no rule", Axis::rows, ".unflatten", {x, literal(1), list({literal(2), literal(-1)})});
  EXPECT_TYPE(sharded(2), Axis::rows, ".repeat", {x, list({literal(2), literal(3), literal(1), literal(2)})});
  EXPECT_REJECTED("no rule", Axis::rows, ".repeat", {x, list({literal(1), literal(2), literal(1)})});
  EXPECT_TYPE(sharded(1), Axis::rows, ".expand_as", {x, x});
  EXPECT_REJECTED("no rule", Axis::rows, ".expand_as", {x, split(0, 3)});
  EXPECT_TYPE(sharded(1), Axis::rows, ".prod", {x, literal(-1)});
  EXPECT_REJECTED("arange of", Axis::rows, "arange", {share()});
  EXPECT_TYPE(sharded(2), Axis::rows, "stack", {list({x, x}), literal(0)});
  EXPECT_TYPE(sharded(1), Axis::rows, ".scatter", {x, literal(0), x, literal(1)});
  EXPECT_REJECTED("over dimension 1", Axis::rows, ".scatter", {x, literal(1), x, literal(1)});
  EXPECT_REJECTED("as many elements", Axis::rows, ".scatter", {x, literal(0), alike(3), literal(1)});
  EXPECT_TYPE(sharded(1), Axis::rows, ".gather", {x, literal(0), x});
  EXPECT_REJECTED("as many elements", Axis::rows, ".gather", {x, literal(0), split(1, 3)});
  EXPECT_REJECTED("over dimension 1", Axis::rows, ".gather", {x, literal(1), x});
}

TEST(RowsOfTheBatch, MayBeAnInnerPartOfADimension) {
  Value x = split(1, 3);
  x.sizes = Sizes({field_count("#seq"), field_count("#batch"), field_count("hidden")});
  const Value flat = Applied(Axis::rows, ".flatten", {x, literal(0), literal(1)}).result;
  EXPECT_EQ(flat.type, sharded(0));
  EXPECT_EQ(flat.outer, field_count("#seq"));
  EXPECT_EQ(Applied(Axis::rows, "linear layer", {Value(), flat}).result.outer, field_count("#seq"));
  const Value seq = Value::number(field_count("#seq"));
  EXPECT_TYPE(sharded(1), Axis::rows, ".view", {flat, list({seq, share(), literal(-1)})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view", {flat, list({share(), seq, literal(-1)})});
  EXPECT_REJECTED("not known to be the value's own", Axis::rows, ".view", {flat, list({literal(-1), seq})});
  EXPECT_REJECTED("no rule", Axis::rows, "op +", {flat, split(0, 2)});
  EXPECT_REJECTED("no rule", Axis::rows, "modular::dp::gather", {flat});
  EXPECT_REJECTED("of a value", Axis::rows, "modular::balance_experts", {flat, flat, flat, flat});
}

TEST(RowsOfTheBatch, PassThroughLayersAndFunctionsOfTheContract) {
  EXPECT_TYPE(sharded(0), Axis::rows, "linear layer", {Value(), split(0, 3)});
  EXPECT_REJECTED("each rank sees only its slice", Axis::rows, "linear layer", {Value(), split(2, 3)});
  EXPECT_TYPE(sharded(0), Axis::rows, "embedding layer", {Value(), split(0, 2)});
  EXPECT_TYPE(sharded(0), Axis::rows, "Dropout layer", {Value(), split(0, 3)});
  EXPECT_REJECTED("dropout", Axis::rows, "Dropout layer", {Value(), split(1, 3)});
  const Value heads = split(0, 4), tables = split(0, 3);
  EXPECT_TYPE(sharded(0), Axis::rows, "modular::rotary", {heads, tables, tables});
  EXPECT_TYPE(sharded(0), Axis::rows, "modular::attention", {heads, heads, heads, Value(), flag()});
  EXPECT_REJECTED("attention of a value", Axis::rows, "modular::attention",
                  {split(2, 4), heads, heads, Value(), flag()});
  EXPECT_TYPE(kPartial, Axis::rows, "modular::cross_entropy", {split(0, 3), split(0, 2)});
  EXPECT_REJECTED("a loss", Axis::rows, "modular::cross_entropy", {split(0, 3), alike(2)});
  EXPECT_REJECTED("a loss", Axis::rows, "modular::cross_entropy", {split(1, 2), split(0, 1)});
  EXPECT_TYPE(kInvariant, Axis::rows, "modular::dp::gather", {split(0, 2)});
  EXPECT_REJECTED("no rule", Axis::rows, "modular::dp::gather", {alike(2)});
  EXPECT_REJECTED("no rule", Axis::rows, "modular::not_a_function", {split(0, 2)});
}

TEST(Positions, AreNotReadInFunctionsThatDoNotKnowTheCache) {
  const Value x = split(1, 3), heads = split(2, 4);
  EXPECT_REJECTED("over", Axis::positions, ".cumsum", {x, literal(1)});
  EXPECT_TYPE(sharded(1), Axis::positions, ".cumsum", {x, literal(2)});
  Value mask;
  mask.kind = Value::Kind::object;
  mask.members["causal"] = literal(1);
  EXPECT_TYPE(sharded(1), Axis::positions, "modular::attention", {heads, heads, heads, mask, flag()});
  EXPECT_REJECTED("attention of a value", Axis::positions, "modular::attention",
                  {of_size_one(4, 2), heads, heads, mask, flag()});
  EXPECT_REJECTED("hide the keys after", Axis::positions, "modular::attention",
                  {heads, heads, heads, of_size_one(4, 2), flag()});
  EXPECT_REJECTED("next_tokens of tokens", Axis::positions, "modular::next_tokens", {split(1, 2)});
  EXPECT_TYPE(sharded(1), Axis::positions, "modular::causal_conv1d", {x, alike(3), alike(1)});
  EXPECT_REJECTED("all positions", Axis::positions, "modular::mean_pooling", {x, alike(2)});
  EXPECT_REJECTED("all positions", Axis::positions, "scaled_dot_product_attention", {heads, heads, heads});
  EXPECT_REJECTED("meets one", Axis::positions, "op *", {x, alike(3)});
}

TEST(Context, IsKnownToFunctionsThatLookAlongTheSequence) {
  const Value x = split(1, 3), heads = split(2, 4), ids = split(1, 2);
  EXPECT_TYPE(sharded(1), Axis::context, "modular::attention", {heads, heads, heads, Value(), flag()});
  EXPECT_TYPE(sharded(1), Axis::context, "modular::next_tokens", {ids});
  EXPECT_TYPE(sharded(0), Axis::context, "modular::key_distances", {ids});
  EXPECT_TYPE(sharded(1), Axis::context, "modular::position_ids", {ids});
  EXPECT_TYPE(kInvariant, Axis::context, "modular::mean_pooling", {x, ids});
  EXPECT_TYPE(kInvariant, Axis::context, "modular::first_tokens", {x});
  EXPECT_TYPE(kInvariant, Axis::context, "modular::key_mask", {batch()});
  EXPECT_REJECTED("over", Axis::context, ".cumsum", {x, literal(1)});
  EXPECT_TYPE(sharded(1), Axis::context, "modular::causal_conv1d", {x, alike(3), alike(1)});
  EXPECT_REJECTED("all positions", Axis::context, "scaled_dot_product_attention", {heads, heads, heads});
}

TEST(Context, IsNotLookedAtWithValuesOfAllPositions) {
  EXPECT_REJECTED("attention of a value", Axis::context, "modular::attention",
                  {alike(4), alike(4), alike(4), Value(), flag()});
  EXPECT_REJECTED("first_tokens of a value", Axis::context, "modular::first_tokens", {alike(3)});
  EXPECT_REJECTED("next_tokens of a value", Axis::context, "modular::next_tokens", {alike(2)});
  EXPECT_REJECTED("no rule", Axis::context, "modular::attention",
                  {split(2, 4), split(2, 4), split(2, 4), batch(), flag()});
}

TEST(Context, DropsRowsThatTheRuntimeKnows) {
  Value rows = split(0, 2);
  rows.outer = field_count("#batch");
  EXPECT_TYPE(sharded(1), Axis::context, "Dropout layer", {Value(), split(1, 3)});
  EXPECT_TYPE(sharded(0), Axis::context, "Dropout layer", {Value(), rows});
  EXPECT_TYPE(kInvariant, Axis::context, "Dropout layer", {Value(), alike(2)});
  EXPECT_REJECTED("dropout", Axis::context, "Dropout layer", {Value(), split(2, 4)});
  EXPECT_REJECTED("dropout", Axis::context, "Dropout layer", {Value(), alike(3)});
}

TEST(Context, CountsALossOfRowsOnce) {
  Value of_rows = batch(), of_tokens = batch();
  of_rows.members["input_ids"] = of_tokens.members["input_ids"] = split(1, 2);
  of_rows.members["labels"] = alike(1), of_tokens.members["labels"] = split(1, 2);
  const auto loss_type = [](const Value& logits, const Value& labels) {
    return Applied(Axis::context, "modular::classification_outputs", {logits, labels, flag()})
        .result.members["loss_sum"]
        .type;
  };
  EXPECT_EQ(loss_type(alike(2), of_rows), kInvariant);
  EXPECT_EQ(loss_type(split(1, 3), of_tokens), kPartial);
  EXPECT_REJECTED("a loss over logits", Axis::context, "modular::classification_outputs",
                  {alike(2), of_tokens, flag()});
}

TEST(Messages, NameTheReading) {
  EXPECT_EQ(to_words(Axis::rows, "mean over dimension 0, which is split over tp: each rank sees only its slice"),
            "mean over dimension 0, which is split by the rows of the batch: each rank sees only its rows");
  EXPECT_EQ(to_words(Axis::positions, "a partial sum over tp"), "a sum over a forward's positions");
  EXPECT_EQ(to_words(Axis::context, "a partial sum over tp"), "a sum over a rank's positions");
  EXPECT_EQ(to_words(Axis::tp, "a partial sum over tp"), "a partial sum over tp");
}

}  // namespace
}  // namespace modgen
