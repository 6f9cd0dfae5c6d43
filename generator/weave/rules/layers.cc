// Rules of layers, by their annotation or class. Operand 0 is the layer; its type says how its weight is split.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

std::optional<int64_t> rank_of_rows(const Value& ids) { return ids.rank ? std::optional(*ids.rank + 1) : std::nullopt; }

/// A full value with the layer's number of output features.
Value make_outputs(const Operation& op, std::optional<int64_t> rank) {
  Value result = Value::tensor(kInvariant, true, rank);
  result.last_size = op.values[0].last_size;
  return result;
}

Value column_wise(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_split(x))
    return op.reject("a layer that is split by output feature reads a value that is " + describe(x),
                     "it takes a full value: mark this layer TP_ROWWISE, or drop the annotation of the layer that "
                     "computes the value");
  if (is_partial(x))
    return op.reject("a layer that is split by output feature reads a partial sum over tp", kMissingSum);
  op.enter(1);
  Value result = Value::tensor(sharded(-1, op.values[0].type.parts), true, x.rank);
  result.split_size = result.last_size = op.values[0].last_size;
  return result;
}

Value row_wise(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (!is_split(x) || from_end(x) != -1)
    return op.reject(
        "a layer that is split by input feature (TP_ROWWISE) reads a value that is " + describe(x),
        "it takes a value that is split along its last dimension, such as the output of a TP_COLWISE layer");
  if (x.type.parts != op.values[0].type.parts)
    return op.reject("a layer that is split by input feature (TP_ROWWISE) reads a value that is " + describe(x),
                     "split the value into its parts first");
  op.call = Call::exit;
  return make_outputs(op, x.rank);
}

Value vocabulary_rows(Operation& op) {
  const Value& ids = op.values[1];
  if (!is_full(ids)) return op.reject("an embedding that is split by vocabulary reads ids that are " + describe(ids));
  op.call = Call::embedding;
  return make_outputs(op, rank_of_rows(ids));
}

/// An embedding whose rows are split: each rank looks up its slice of each row.
Value slices_of_rows(Operation& op) {
  const Value& ids = op.values[1];
  if (!is_full(ids)) return unproven(op, ids);
  if (op.values[0].type.dim != 1)
    return op.reject("an embedding that TP_SHARD splits by row: ids of other ranks' rows are not found",
                     "mark it TP_VOCAB, or TP_SHARD(1) to split each row");
  return Value::tensor(sharded(-1, op.values[0].type.parts), true, rank_of_rows(ids));
}

/// at::embedding(table, ids): the same for a table that is a parameter or another tensor.
Value rows_of_table(Operation& op) {
  Value& table = op.values[0];
  if (!is_full(op.values[1])) return unproven(op, op.values[1]);
  if (!is_split(table)) {
    Value rows = elementwise_of_first(op, Algebra::linear, 1);
    rows.rank = rank_of_rows(op.values[1]), rows.ones.clear();
    return rows;
  }
  if (from_end(table)) table.type.dim = 2 + *from_end(table);
  return slices_of_rows(op);
}

Value full_linear(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x)) return unproven(op, x);
  if (is_split(x))
    return op.reject("a layer without an annotation reads a value that is " + describe(x),
                     from_end(x) == -1
                         ? "mark the layer TP_ROWWISE, or drop TP_COLWISE of the layers before it"
                         : "its parameters' gradients would miss the other ranks' contributions: apply it to the full "
                           "value");
  if (is_partial(x)) return op.reject("a layer reads a partial sum over tp", kMissingSum);
  if (is_replicated(x)) return unproven(op, x);
  return make_outputs(op, x.rank);
}

Value full_embedding(Operation& op) {
  const Value& ids = op.values[1];
  if (!is_full(ids)) return unproven(op, ids);
  Value rows = make_outputs(op, rank_of_rows(ids));
  for (const int64_t one : ids.ones) rows.ones.push_back(one - 1);
  return rows;
}

/// A convolution over full channels and positions.
Value full_convolution(Operation& op) {
  const Value& x = op.values[1];
  if (is_partial(x)) return op.reject("a convolution reads a partial sum over tp", kMissingSum);
  if (!is_full(x)) return unproven(op, x);
  return Value::tensor(kInvariant, true, x.rank);
}

/// The contract's LayerNorm, over the last dimension.
Value layer_norm(Operation& op) {
  const Value& x = op.values[1];
  if (!is_tensor(x) || is_replicated(x)) return unproven(op, x);
  if (is_partial(x)) return op.reject("a norm of a partial sum over tp", kMissingSum);
  if (!is_split(x)) {
    Value result = Value::tensor(kInvariant, true, x.rank);
    result.last_size = x.last_size;
    return result;
  }
  if (from_end(x) == -1 || !from_end(x))
    return op.reject("a norm over the last dimension, which is split over tp: each rank sees only its slice");
  op.call = Call::layer_norm;
  Value result = x;
  result.gradient = true;
  return result;
}

/// Elementwise layers without parameters: activations.
Value elementwise_layer(Operation& op) { return elementwise(op, Algebra::non_linear, 1, 2); }

/// libtorch's Dropout samples numbers that differ between meshes, so the runtime does not support it.
Value torch_dropout(Operation& op) {
  return op.reject("libtorch's Dropout, whose mask depends on the mesh", "use nn::Dropout");
}

/// The dropout mask depends on an element's index in the full value, so a slice needs its offset.
Value dropout(Operation& op) {
  const Value& x = op.values[1];
  Value result = elementwise(op, Algebra::linear, 1, 2);
  if (!is_split(x)) return result;
  if (from_end(x) != -1 || !x.type.parts.empty())
    return op.reject("unproven: dropout of a value that is " + describe(x),
                     "apply it to the full value, or to features that are split as one");
  op.call = Call::dropout;
  return result;
}

Value identity(Operation& op) { return op.values[1]; }

}  // namespace

const RuleTable& layer_rules() {
  static const RuleTable table = {
      {"tp_colwise", column_wise},
      {"tp_rowwise", row_wise},
      {"tp_vocab linear", column_wise},
      {"tp_vocab embedding", vocabulary_rows},
      {"tp_shard embedding", slices_of_rows},
      {"embedding", rows_of_table},
      {"linear layer", full_linear},
      {"embedding layer", full_embedding},
      {"Conv2d layer", full_convolution},
      {"LayerNorm layer", layer_norm},
      {"GELU layer", elementwise_layer},
      {"SiLU layer", elementwise_layer},
      {"ReLU layer", elementwise_layer},
      {"Tanh layer", elementwise_layer},
      {"Dropout layer", dropout},
      {"torch::nn::Dropout layer", torch_dropout},
      {"Identity layer", identity},
  };
  return table;
}

}  // namespace modgen
