// Functions of the contract for values that are split by the rows of the batch or by positions: their shapes say which
// dimension holds the rows, and which the positions.
#include "generator/weave/rules/readings.h"

namespace modgen {
namespace {

/// The dimension of `shape` that the reading splits.
std::optional<int64_t> split_dimension(Axis axis, std::string_view shape) {
  const std::string_view letters = axis == Axis::rows ? "nb" : axis == Axis::positions ? "ns" : "nst";
  const size_t found = shape.find_first_of(letters);
  return found == std::string_view::npos ? std::nullopt : std::optional(static_cast<int64_t>(found));
}

std::string spelled(std::string_view shape) {
  static const std::map<char, std::string_view> names = {{'b', "batch"}, {'s', "seq"},     {'t', "seq"},
                                                         {'w', "seq"},   {'n', "rows"},    {'h', "heads"},
                                                         {'k', "keys"},  {'f', "features"}};
  std::string text = "[";
  for (const char letter : shape) {
    const auto name = names.find(letter);
    text.append(text.size() > 1 ? ", " : "").append(name == names.end() ? std::string_view("…") : name->second);
  }
  return text + "]";
}

/// Whether `value` has rows in dimension 0 as the batch's tensors do, or positions in dimension 1.
bool is_of_batch(Axis axis, const Value& value) {
  return is_split(value) && value.type.dim == (axis == Axis::rows ? 0 : 1) && !value.outer.is_known() &&
         !value.may_be_one;
}

/// Whether `value` is split as the member `name` of a mask or of the entry's batch.
bool is_member(Axis axis, bool is_mask, std::string_view name, const Value& value) {
  if (axis == Axis::rows) return is_of_batch(axis, value);
  // A mask has all keys, and with a cache so has the batch's attention_mask.
  const bool has_keys = is_mask || (axis == Axis::positions && name == "attention_mask");
  if (has_keys) return is_full(value) && (axis == Axis::context || covers_keys(value));
  const bool is_whole =
      name == "pixel_values" || name == "samples" || (axis == Axis::positions && name == "decoder_attention_mask");
  if (is_whole) return is_full(value);
  return is_of_batch(axis, value) || (name == "labels" && is_full(value));
}

/// Rejects operand `i`, a batch or a mask, unless its tensors are split as those of the entry's batch.
bool is_batch(Operation& op, size_t i) {
  const std::map<std::string, Value>& members = op.values[i].members;
  const bool is_mask = members.contains("padding") || op.operands[i]->type.find("AttentionMask") != std::string::npos;
  for (const auto& [name, member] : members)
    if (is_tensor(member) && !is_member(op.axis, is_mask, name, member))
      op.reject(quoted(op) + " of a " + (is_mask ? "mask" : "batch") + " whose " + name + " is " + describe(member));
  return op.message.empty();
}

/// Rejects operand `i` unless it has that shape, split where the shape says.
bool has_shape(Operation& op, size_t i, std::string_view shape) {
  const Value& value = op.values[i];
  if (!is_tensor(value)) {
    // A mask covers the keys of all context-parallel ranks.
    const bool is_cut_mask = op.axis == Axis::context && shape != "?" && !value.is_invariant();
    if (const Value* share = find_share(value))
      unproven(op, *share);
    else if (find_unknown(value) || is_cut_mask)
      unproven(op, value);
    return op.message.empty() && is_batch(op, i);
  }
  if (shape == "?") return true;
  const auto rank = static_cast<int64_t>(shape.size());
  const std::optional<int64_t> split = shape == "*" ? std::nullopt : split_dimension(op.axis, shape);
  if (is_partial(value)) {
    op.reject(quoted(op) + " of a partial sum over tp");
  } else if (is_split(value)) {
    const bool is_inner = split && value.outer.is_known() && !(op.axis != Axis::rows && shape[*split] == 'n');
    const bool fits = split && !is_inner && value.type.dim == *split && (!value.rank || value.rank == rank);
    if (!fits && op.axis != Axis::rows && shape.find_first_of("tw") != std::string_view::npos)
      op.reject(quoted(op) + " reads all positions, of a value that is " + describe(value));
    else if (!fits)
      op.reject(
          quoted(op) + " of a value that is " + describe(value),
          shape == "*" ? "this operand must be the same for all rows and positions" : "it takes " + spelled(shape));
  } else if (split && (op.axis == Axis::context || op.axis == Axis::positions) &&
             !(shape == "bhsk" && has_one(value, *split - rank))) {  // a mask may be the same for all queries
    op.reject(quoted(op) + " of a value that is " + describe(value),
              op.axis == Axis::context ? "each context-parallel rank would mistake it for its own part of the sequence"
                                       : "each forward would mistake it for its own part of the sequence");
  } else if (split && value.rank && !has_one(value, *split - rank) && *value.rank >= rank - *split) {
    op.reject(quoted(op) + " of a value that is " + describe(value) + ", next to values that are split over tp",
              "it takes " + spelled(shape));
  }
  return op.message.empty();
}

Value loss_value() { return Value::tensor(kPartial, true, 0); }

/// A loss of logits and targets that are split along the same dimension.
Value loss(Operation& op) {
  const Value &logits = op.values[0], &targets = op.values[1];
  for (const size_t i : {size_t{0}, size_t{1}})
    if (!is_split(op.values[i]) || op.values[i].type.dim != logits.type.dim)
      return op.reject("a loss of logits that are " + describe(logits) + ", and targets that are " + describe(targets));
  if (from_end(logits) == -1 || op.values.size() < 2)
    return op.reject("a loss over a dimension of logits that is split over tp: each rank sees only its slice");
  return loss_value();
}

/// classification_outputs(logits, batch, …): a loss and a count of targets, both sums, and the logits. Logits of rows
/// are the same on all context-parallel ranks, as are their loss and count.
Value outputs(Operation& op) {
  const Value& logits = op.values[0];
  const auto labels = op.values[1].members.find("labels");
  const bool has_row_labels = labels != op.values[1].members.end() && labels->second.is_invariant();
  const bool is_full = op.axis == Axis::context && has_row_labels && logits.is_invariant();
  if (op.axis == Axis::context && has_row_labels && !is_full)
    return op.reject("a loss of logits that are " + describe(logits) + ", and labels that are " +
                     describe(labels->second));
  if (!is_full && (!is_split(logits) || !is_of_batch(op.axis, logits) || from_end(logits) == -1))
    return op.reject("a loss over logits that are " + describe(logits));
  if (!is_batch(op, 1)) return Value::failure();
  Value outputs = empty_outputs();
  outputs.members["logits"] = logits;
  outputs.members["loss_sum"] = outputs.members["token_count"] =
      is_full ? Value::tensor(kInvariant, true, 0) : loss_value();
  return outputs;
}

/// cross_entropy_outputs(logits, batch, targets_of): other functions of the labels might mix rows.
Value cross_entropy_outputs(Operation& op) {
  const Expr* targets_of = op.operands[2];
  if (targets_of->kind == Expr::Kind::op && targets_of->name == "&") targets_of = targets_of->operands.data();
  if (targets_of->name != "modular::next_tokens" && targets_of->name != "modular::same_labels")
    return op.reject("unproven: a function of the labels of all rows, other than next_tokens and same_labels",
                     "pass one of these, or compute the targets, cross_entropy and count_targets in forward");
  return outputs(op);
}

Value count_targets(Operation& op) {
  return is_split(op.values[0]) ? Value::tensor(kPartial, false, 0) : unproven(op, op.values[0]);
}

/// Functions that build an AttentionMask.
Value attention_mask(Operation& op) {
  if (std::any_of(op.values.begin() + 1, op.values.end(), has_share)) return unproven(op, op.values[1]);
  if (op.axis == Axis::context && is_tensor(op.values[0]) && !has_shape(op, 0, "bt")) return Value::failure();
  const bool is_of_forward =
      op.axis == Axis::positions && is_tensor(op.values[0]) && !(is_full(op.values[0]) && covers_keys(op.values[0]));
  if (is_of_forward) return unproven(op, op.values[0]);
  if (!is_batch(op, 0)) return Value::failure();
  Value mask;
  mask.kind = Value::Kind::object;
  for (const char* name : {"padding", "documents"})
    mask.members[name] = Value::tensor(op.axis == Axis::rows ? sharded(0) : kInvariant, false, 2);
  mask.members["undivided"] = Value::number(literal_count(0));
  mask.members["causal"] = Value::number(literal_count(op.name == "causal_mask"));
  return mask;
}

/// Whether a mask may be of a sequence that context-parallel ranks do not divide.
bool may_be_undivided(const Value& mask) {
  const auto flag = mask.members.find("undivided");
  return flag != mask.members.end() && flag->second.count.literal() != 0;
}

/// Attention, by its shapes. With whole_mask() context-parallel ranks have all positions of its operands.
Value attention(Operation& op, std::string_view shapes) {
  if (op.axis == Axis::positions && op.values.size() > 3 && !hides_later_keys(op.values[3]))
    return op.reject(
        "attention with a mask that is not known to hide the keys after each query",
        "pass causal_mask(batch, window), or visible_keys() of it and what logical_and and masked_fill make "
        "of that");
  if (op.axis != Axis::context || op.values.size() < 4 || !may_be_undivided(op.values[3])) return by_shapes(op, shapes);
  for (size_t i = 0; i < 3; ++i)
    if (!is_full(op.values[i]))
      return op.reject("attention with whole_mask() of a value that is " + describe(op.values[i]),
                       "context-parallel ranks have some of its positions: pass bidirectional_mask(batch)");
  if (op.values[3].members.at("undivided").count.literal() != 1)
    return op.reject("attention with a mask that is whole_mask() on some paths only");
  for (size_t i = 4; i < op.values.size(); ++i)
    if (!op.values[i].is_invariant()) return unproven(op, op.values[i]);
  return Value::tensor(kInvariant, any_gradient(op), 3);
}
Value attention_with_biases(Operation& op) { return attention(op, "bhsf,bhsf,bhsf,bhsk,?,?->bsf"); }
Value plain_attention(Operation& op) { return attention(op, "bhsf,bhsf,bhsf,bhsk,?,?,?->bsf"); }
Value attention_with_sinks(Operation& op) { return attention(op, "bhsf,bhsf,bhsf,?,?,*->bsf"); }

/// visible_keys(mask, seq, device): [batch or 1, 1, seq, keys], where `seq` counts the forward's positions.
Value visible_keys(Operation& op) {
  if (has_share(op.values[1]) != (op.axis != Axis::rows)) return unproven(op, op.values[1]);
  if (const Value* share = find_share(op.values[0])) return unproven(op, *share);
  if (!is_batch(op, 0)) return Value::failure();
  if (op.axis == Axis::context && may_be_undivided(op.values[0]))
    return op.reject("visible_keys of whole_mask(), for some of the positions");
  Value visible = Value::tensor(sharded(op.axis == Axis::rows ? 0 : 2), false, 4);
  visible.ones = {-3};
  visible.may_be_one = op.axis == Axis::rows;
  return visible;
}

/// next_tokens(tokens), of which a forward's last position needs one that the next forward has. Generation reads no
/// labels.
Value next_tokens(Operation& op) {
  if (op.axis == Axis::positions && op.values[0].sizes[1] != field_count("#labels"))
    return op.reject(quoted(op) + " of tokens of which a later forward has the next",
                     "apply it to the labels of the batch, which generation does not read");
  return by_shapes(op, "bs->bs");
}

/// position_ids(batch), which counts from the cache's positions; position_ids(ids): [1, seq].
Value position_ids(Operation& op) {
  if (!is_tensor(op.values[0])) return by_shapes(op, "?->~bs");
  if (op.axis == Axis::positions) return unproven(op, op.values[0]);
  if (op.axis == Axis::context && !has_shape(op, 0, "bt")) return Value::failure();
  Value positions = Value::tensor(op.axis == Axis::context ? sharded(1) : kInvariant, false, 2);
  positions.ones = {-2};
  return positions;
}

/// key_mask(batch): [batch, 1, 1, keys].
Value key_mask(Operation& op) {
  if (op.axis != Axis::context) return by_shapes(op, "?->bxxk");
  Value mask = Value::tensor(kInvariant, false, 4);
  mask.ones = {-3, -2};
  return mask;
}

/// key_distances(ids): [seq, keys].
Value key_distances(Operation& op) {
  if (op.axis == Axis::context) return has_shape(op, 0, "bt") ? Value::tensor(sharded(0), false, 2) : Value::failure();
  const bool is_right = op.axis == Axis::rows && is_split(op.values[0]) && op.values[0].type.dim == 0;
  return is_right ? Value::tensor(kInvariant, false, 2) : unproven(op, op.values[0]);
}

Value rotary_tables(Operation& op) {
  for (const Value& value : op.values)
    if (const Value* share = find_share(value)) return unproven(op, *share);
  return Value::tuple(by_shapes(op, "?,?,?,?,?->~bsf"), 2);
}

/// Normalizes each row.
Value unit_rows(Operation& op) { return full_dimension(op, dimension(op, 1, -1), quoted(op)); }

/// dp::gather(rows): the rows of all ranks.
Value gather_rows(Operation& op) {
  const Value& rows = op.values[0];
  if (op.axis != Axis::rows || !is_split(rows) || rows.type.dim != 0 || rows.outer.is_known())
    return unproven(op, rows);
  return Value::tensor(kInvariant, rows.gradient, rows.rank);
}

/// dp::first_row(rows): differs between ranks.
Value first_row(Operation& op) { return op.axis == Axis::rows ? Value::number(true) : unproven(op, op.values[0]); }

}  // namespace

const Value* find_share(const Value& value) {
  if (value.kind == Value::Kind::number) return value.count.is_share ? &value : nullptr;
  for (const Value& element : value.elements)
    if (const Value* share = find_share(element)) return share;
  for (const auto& [name, member] : value.members)
    if (const Value* share = find_share(member)) return share;
  return nullptr;
}

Value empty_outputs() {
  Value outputs;
  outputs.kind = Value::Kind::object;
  for (const char* name : {"logits", "loss_sum", "token_count", "carried"}) outputs.members[name] = Value();
  return outputs;
}

bool may_be_undefined(std::string_view shapes, size_t i) {
  for (; i > 0 && shapes.find(',') != std::string_view::npos; --i) shapes.remove_prefix(shapes.find(',') + 1);
  return i == 0 && shapes.starts_with("~");
}

Value by_shapes(Operation& op, std::string_view shapes) {
  const size_t arrow = shapes.find("->");
  std::string_view operands = shapes.substr(0, arrow), result = shapes.substr(arrow + 2);
  for (size_t i = 0; i < op.values.size(); ++i) {
    const size_t end = std::min(operands.find(','), operands.size());
    if (operands.empty()) return unproven(op, op.values[i]);
    const size_t begin = operands.starts_with("~") ? 1 : 0;
    if (!has_shape(op, i, operands.substr(begin, end - begin))) return Value::failure();
    operands.remove_prefix(std::min(end + 1, operands.size()));
  }
  if (result == "+") return loss_value();
  if (result.empty()) return {};
  const bool may_be_one = result.starts_with("~");
  if (may_be_one) result.remove_prefix(1);
  const std::optional<int64_t> split = split_dimension(op.axis, result);
  // A result that is computed from all positions is the same on all context-parallel ranks.
  if (!split && op.axis == Axis::context)
    return Value::tensor(kInvariant, any_gradient(op), static_cast<int64_t>(result.size()));
  if (!split) return unproven(op, op.values[0]);
  Value value = Value::tensor(sharded(*split), any_gradient(op), static_cast<int64_t>(result.size()));
  // Of queries, keys and values that are alike, the mask alone may have rows.
  const bool is_of_mask = is_tensor(op.values[0]) && std::ranges::none_of(op.values, is_split);
  value.may_be_one = (may_be_one || is_of_mask) && op.axis == Axis::rows;
  return value;
}

const ReadingRules& contract_readings() {
  static const ReadingRules table = {
      // Attention and positions. Attention keeps earlier keys and values in the cache, and masks cover them.
      {"modular::attention", {plain_attention, {}, true}},
      {"modular::attention_with_biases", {attention_with_biases, {}, true}},
      {"modular::attention_with_sinks", {attention_with_sinks, {}, true}},
      {"scaled_dot_product_attention", {nullptr, "bhwf,bhwf,bhwf,bhwk,?,?,?,?->bhwf"}},
      {"modular::rotary", {nullptr, "bhsf,bsf,bsf->bhsf"}},
      {"modular::rotary_adjacent", {nullptr, "bhsf,bsf,bsf->bhsf"}},
      {"modular::rotary_tables", {rotary_tables, {}, true}},
      {"modular::position_ids", {position_ids, {}, true}},
      {"modular::counted_position_ids", {nullptr, "bt,?->bt", true}},
      {"modular::key_distances", {key_distances, {}, true}},
      {"modular::key_mask", {key_mask, {}, true}},
      {"modular::alibi_mask", {nullptr, "?,*,?->~bhsk", true}},
      {"modular::causal_mask", {attention_mask, {}, true}},
      {"modular::bidirectional_mask", {attention_mask, {}, true}},
      {"modular::visible_keys", {visible_keys, {}, true}},
      // State spaces, whose last columns and states a cache keeps. Padding covers the positions of earlier forwards
      // too.
      {"modular::causal_conv1d", {nullptr, "bsf,*,*->bsf", true}},
      {"modular::gated_rms_norm", {nullptr, "bsf,bsf,*,?,?->bsf"}},
      {"modular::state_space_duality", {nullptr, "bshf,bsh,*,bsgf,bsgf,*,?->bshf", true}},
      {"modular::selective_scan", {nullptr, "bsf,bsf,*,bsf,bsf,*->bsf", true}},
      {"modular::without_padding", {nullptr, "bsf,~bt->bsf"}},
      // Mixtures of experts.
      {"modular::balance_experts", {nullptr, "nk,ne,ne,nk,*->nk"}},
      {"modular::mix_experts", {nullptr, "?,nf,*,*,nk,nk->nf"}},
      {"modular::mix_clamped_experts", {nullptr, "nf,*,*,*,nk,nk,?,?->nf"}},
      // Pooling.
      {"modular::first_tokens", {nullptr, "btf->bf", true}},
      {"modular::last_tokens", {nullptr, "btf,bt,?->bf", true}},
      {"modular::tokens_at", {nullptr, "btf,b->bf", true}},
      {"modular::mean_pooling", {nullptr, "btf,~bt->bf", true}},
      {"modular::sentence_embeddings", {nullptr, "btf,?->bf", true}},
      // Losses. The runtime sums them over ranks, and divides once by the number of targets of all ranks.
      {"modular::cross_entropy", {loss}},
      {"modular::classification_loss", {loss}},
      {"modular::sampled_cross_entropy", {nullptr, "bsf,*,*,bs,?->+"}},
      {"modular::sentence_loss", {nullptr, "bf,b->+"}},
      {"modular::sentence_count", {nullptr, "bf,b->+"}},
      {"modular::sigmoid_pair_loss", {nullptr, "bk,b->+"}},
      {"modular::count_targets", {count_targets}},
      {"modular::cross_entropy_outputs", {cross_entropy_outputs}},
      {"modular::classification_outputs", {outputs}},
      {"modular::sentence_outputs", {outputs}},
      {"modular::next_tokens", {next_tokens, {}, true}},
      {"modular::previous_tokens", {nullptr, "bt,?,?->bt", true}},
      {"modular::pair_targets", {nullptr, "b->b"}},
      {"modular::pair_features", {nullptr, "bf->bf"}},
      {"modular::unit_rows", {unit_rows}},
      {"modular::dp::gather", {gather_rows}},
      {"modular::dp::first_row", {first_row}},
      // Images, and convolutions and pooling of libtorch over images and sequences.
      {"conv1d", {nullptr, "bcw,*,*,?,?,?,?->bcw"}},
      {"conv2d", {nullptr, "bcyx,*,*,?,?,?,?->bcyx"}},
      {"avg_pool2d", {nullptr, "bcyx,?,?,?,?,?,?->bcyx"}},
      {"max_pool2d", {nullptr, "bcyx,?,?,?,?,?->bcyx"}},
      {"adaptive_avg_pool2d", {nullptr, "bcyx,?->bcyx"}},
      {"modular::check_images", {nullptr, "bcyx,?,?->"}},
      {"modular::with_images", {nullptr, "btf,bt,?,bpf->btf", true}},
  };
  return table;
}

}  // namespace modgen
