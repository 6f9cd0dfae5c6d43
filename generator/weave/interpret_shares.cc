// The reading of sequence parallelism: between layers each tp rank has a part of the positions, a share. What tensor
// parallelism has proven stays as it is; here follows which values are shares, which have all positions, and where one
// becomes the other.
#include <algorithm>
#include <set>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"
#include "generator/weave/rules/readings.h"

namespace modgen {
namespace {

using Call_ = SequenceCall;
using Place = SequencePlace::Kind;

bool is_share(const Value& value) { return is_split(value) && !value.is_gathered; }
bool is_gathered(const Value& value) { return is_split(value) && value.is_gathered; }

/// A tensor among the operands of an operation; `expr` is null if it is an element of a list that is not written there.
struct Operand {
  const Expr* expr = nullptr;
  Value* value = nullptr;
};

/// Adds the parts of `value` for which `matches` holds, with the expressions that are written for them.
template <class Matches>
void collect(const Expr* expr, Value& value, Matches&& matches, std::vector<Operand>& found) {
  if (matches(value)) return found.push_back({expr, &value});
  const bool is_listed = expr && expr->kind == Expr::Kind::list && expr->operands.size() == value.elements.size();
  for (size_t i = 0; i < value.elements.size(); ++i)
    collect(is_listed ? &expr->operands[i] : nullptr, value.elements[i], matches, found);
  for (auto& [name, member] : value.members) collect(nullptr, member, matches, found);
}

template <class Matches>
std::vector<Operand> collect(const std::vector<const Expr*>& operands, std::vector<Value>& values, Matches&& matches) {
  std::vector<Operand> found;
  for (size_t i = 0; i < values.size(); ++i)
    collect(i < operands.size() ? operands[i] : nullptr, values[i], matches, found);
  return found;
}

bool any(const std::vector<Operand>& operands, bool (*matches)(const Value&)) {
  return std::ranges::any_of(operands, [&](const Operand& operand) { return matches(*operand.value); });
}

/// Whether a value that has all positions has none of the dimension of positions of `share`, or size 1 there.
bool broadcasts(const Value& x, const Value& share) {
  if (x.is_fixed) return true;
  const std::optional<int64_t> dim = from_end(share);
  if (!x.rank || !dim) return false;
  return -*dim > *x.rank || has_one(x, *dim) || x.sizes[*x.rank + *dim].literal() == 1;
}

/// The dimension of `x` that has all positions of `share`; empty if none is known to, or several have.
std::optional<int64_t> find_positions(const Value& x, const Value& share) {
  if (!x.rank || !share.rank || share.type.dim < 0 || share.outer.is_known()) return std::nullopt;
  const Count& positions = share.sizes[share.type.dim];
  std::optional<int64_t> found;
  for (int64_t i = 0; positions.is_known() && i < *x.rank; ++i) {
    if (x.sizes[i] != positions) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

/// How a call names dimension `dim` of a value of `rank` dimensions.
int64_t written_dimension(int64_t dim, std::optional<int64_t> rank) {
  return rank && dim >= 0 && dim - *rank == Call_::kBeforeFeatures ? Call_::kBeforeFeatures : dim;
}

Call_ call_on(Call_::Kind kind, const Value& share) { return {kind, written_dimension(share.type.dim, share.rank)}; }

/// Functions of the contract that compute each position by itself.
bool is_by_position(std::string_view function) {
  static const std::set<std::string_view> names = {
      "modular::activation",  "modular::balance_experts",     "modular::gated_activation", "modular::gated_rms_norm",
      "modular::mix_experts", "modular::mix_clamped_experts", "modular::quick_gelu",       "modular::rms_norm",
      "modular::soft_cap",    "modular::unit_rows",           "modular::without_padding"};
  return names.contains(function);
}

bool is_number(const Value& value) { return value.kind == Value::Kind::number; }
bool is_nothing_else(const Value& value) { return is_tensor(value); }

/// A share's value with all positions.
Value whole_of(const Value& share) {
  Value whole = share;
  if (share.outer.is_known()) {
    whole.is_gathered = true;
  } else {
    whole.type = kInvariant;
    whole.axis = Axis::tp;
  }
  return whole;
}

Value share_of(const Value& whole, int64_t dim) {
  Value share = whole;
  share.type = sharded(dim);
  share.axis = Axis::sequence;
  return share;
}

template <class Change>
void change_tensors(Value& value, Change&& change) {
  change(value);
  for (Value& element : value.elements) change_tensors(element, change);
  for (auto& [name, member] : value.members) change_tensors(member, change);
}

void set_inside(Value& value, bool is_inside) {
  change_tensors(value, [&](Value& part) { part.is_inside = is_inside; });
}

}  // namespace

// ---- Text ----

bool Interpreter::write(const Expr& expr, SequencePlace::Kind kind, const SequenceCall& call) {
  const bool is_written = call.kind != Call_::Kind::none;
  if (is_written && expr.in_macro) {
    report(expr.span, "a parallel call would have to be inserted in the body of a macro", "");
    return false;
  }
  if (sequence_->write({&expr, frame_->on_shards, kind}, call)) return true;
  report(expr.span, "this is reached between layers and with all positions: its calls would differ", "");
  return false;
}

void Interpreter::use_parameters(const Expr& expr, const std::set<std::string>& parameters, bool is_partial) {
  const std::string both = sequence_->use_parameters(parameters, is_partial);
  if (!both.empty())
    report(expr.span, "the gradient of " + both + " is a sum over a rank's positions here or elsewhere, but not both",
           "");
}

void Interpreter::use_layer(const Expr& expr, const ModuleNode& layer, bool is_partial) {
  using Kind = ModuleNode::Kind;
  if (layer.kind == Kind::family || layer.kind == Kind::list || layer.kind == Kind::one_of) return;
  if (!layer.holds_parameters()) return;
  for (const char* name : {"weight", "bias"})
    if (!find_partition(layer, name).dim) use_parameters(expr, {layer.path_to(name)}, is_partial);
}

// ---- Calls of tensor parallelism ----

Value Interpreter::take_calls(const Expr& expr, Value value) {
  const std::vector<const Placement*> placed = sequence_->placements(frame_->function, frame_->on_shards, expr);
  for (auto placement = placed.rbegin(); placement != placed.rend(); ++placement) {
    switch ((*placement)->call) {
      case Call::enter:
        value = enter_split(expr, std::move(value));
        break;
      case Call::exit:
        value = leave_split(expr, std::move(value), evaluate(expr.operands[0]).node);
        break;
      case Call::sum:
        value = leave_split(expr, std::move(value), nullptr);
        break;
      case Call::partial:
        if (const Value layer = evaluate(expr.operands[0]); layer.node) use_layer(expr, *layer.node, false);
        set_inside(value, true);
        break;
      case Call::embedding:
      case Call::cross_entropy:
      case Call::cross_entropy_outputs:
      case Call::sampled_cross_entropy:
      case Call::gather:
        set_inside(value, false);
        break;
      case Call::alibi_slopes:
        set_inside(value, true);
        break;
      case Call::none:
      case Call::layer_norm:
      case Call::dropout:
      case Call::attention:
      case Call::rms_norm:
      case Call::local:
      case Call::on_shards:
        break;
    }
    if (value.has_failed()) return value;
  }
  return value;
}

Value Interpreter::enter_split(const Expr& expr, Value value) {
  const bool enters = is_share(value);
  if (!enters && !is_full(value))
    return fail(expr.span, "unproven: an entry of a value that is " + describe(value), "");
  const SequenceCall call = enters ? call_on(Call_::Kind::enter, value) : SequenceCall{Call_::Kind::shared};
  if (!write(expr, Place::enter, call)) return Value::failure();
  use_parameters(expr, value.parameters, false);
  if (enters) value = whole_of(value);
  value.parameters.clear();
  value.is_inside = true;
  return value;
}

Value Interpreter::leave_split(const Expr& expr, Value value, const ModuleNode* layer) {
  const bool returns = sequence_->positions.has_value();
  if (is_share(value)) return fail(expr.span, "a sum over tp of a value that is " + describe(value), "");
  if (!is_full(value) && !is_gathered(value))
    return fail(expr.span, "unproven: a sum over tp of a value that is " + describe(value), "");
  if (layer) use_layer(expr, *layer, returns);
  SequenceCall call{Call_::Kind::reduce};
  if (returns && is_gathered(value)) {
    value.is_gathered = false;
    call = call_on(Call_::Kind::exit, value);
  } else if (returns) {
    const int64_t dim = value.rank.value_or(0) + Call_::kBeforeFeatures;
    if (dim < 0 || value.sizes[dim] != *sequence_->positions)
      return fail(expr.span, "a sum over tp whose positions are not known to be those between layers", "");
    value = share_of(value, dim);
    call.kind = Call_::Kind::exit;
  }
  if (!write(expr, Place::sum, call)) return Value::failure();
  value.is_inside = false;
  value.is_fixed = false;
  value.parameters.clear();
  return value;
}

// ---- Operations ----

Value Interpreter::apply_to_shares(const std::string& name, Rule rule, const Expr& expr,
                                   std::vector<const Expr*> operands, std::vector<Value> values) {
  const ModuleNode* layer = values.empty() || values[0].kind != Value::Kind::module ? nullptr : values[0].node;
  std::vector<Operand> tensors = collect(operands, values, is_nothing_else);
  std::vector<Operand> numbers = collect(operands, values, is_number);
  const bool is_split_layer = layer && layer->field && split_annotation(layer->field->annotations);
  const bool has_share = any(tensors, is_share), has_gathered = any(tensors, is_gathered);
  const bool is_inside =
      is_split_layer || has_gathered || any(tensors, [](const Value& value) { return value.is_inside; });
  const auto span = [&] { return expr.span; };

  // Numbers of positions: a product of one, and a view of a share, keep a rank's number.
  std::set<const Expr*> sizes_read;
  for (const Operand& number : numbers)
    sizes_read.insert(number.value->sizes_read.begin(), number.value->sizes_read.end());
  const auto shares = std::ranges::count_if(numbers, [](const Operand& n) { return n.value->count.is_share; });
  const bool multiplies = tensors.empty() && name == "op *" && shares == 1;
  static const std::set<std::string_view> creations = {"zeros", "ones", "empty", "full"};
  const bool creates = tensors.empty() && creations.contains(name) && shares == 1;
  const bool resizes = has_share && !is_inside && (name == ".view" || name == ".reshape" || name == ".expand");
  for (const Operand& number : numbers) {
    if (multiplies) break;
    const bool converts = number.value->count.is_share && !resizes && !creates;
    if (converts && !number.expr)
      return fail(span(), "unproven: sizes that are " + describe(*number.value) + ", of a value that is whole", "");
    if (number.expr)
      sequence_->read_number({number.expr, frame_->on_shards, Place::operand}, number.value->sizes_read, converts);
    if (converts) number.value->count.is_share = false;
  }

  const auto finish = [&](Value result, bool is_partial) {
    if (result.has_failed()) return result;
    if (layer && !is_split_layer) use_layer(expr, *layer, is_partial);
    change_tensors(result, [&](Value& part) {
      if (is_number(part) && part.count.is_share) part.sizes_read = multiplies ? sizes_read : std::set{&expr};
    });
    return result;
  };
  // Everything has all positions, row after row.
  const auto apply_whole = [&]() -> Value {
    std::vector<Value> given = values;
    Value result =
        layer && !rule ? make_invariant(expr.type, true) : apply_known(name, rule, expr, operands, std::move(given));
    if (result.has_failed()) return result;
    if (layer && !rule) give_storage(name, expr, values, result);
    bool is_fixed = !tensors.empty() && !layer;
    std::set<std::string> parameters;
    for (const Operand& tensor : tensors) {
      is_fixed &= tensor.value->is_fixed;
      parameters.insert(tensor.value->parameters.begin(), tensor.value->parameters.end());
    }
    for (const Operand& number : numbers) {
      const Count& count = number.value->count;
      const auto is_of_batch = [](const std::string& field) { return field.front() == kOwnSize; };
      const bool is_shape = number.expr && number.expr->type == "long" && !name.starts_with("op ");
      is_fixed &= !is_shape || count.is_known();
      for (const Count::Term& term : count.terms) is_fixed &= std::ranges::none_of(term.fields, is_of_batch);
    }
    if (!is_fixed) use_parameters(expr, parameters, false);
    change_tensors(result, [&](Value& part) {
      part.is_inside = is_inside;
      part.is_fixed = is_fixed && is_tensor(part);
      if (is_fixed && is_tensor(part)) part.parameters = parameters;
    });
    if (name == ".size") sequence_->read_full_size(&expr);
    if (name == "Dropout layer" && !write(expr, Place::dropout, {})) return Value::failure();
    return finish(std::move(result), false);
  };
  const auto keep = [&](const Operand& operand) { return !operand.expr || write(*operand.expr, Place::operand, {}); };
  // Reads a share whole.
  const auto read_whole = [&](const Operand& operand) {
    if (!operand.expr || (changes_first(expr) && operand.expr == operands[0])) return false;
    if (!write(*operand.expr, Place::operand, call_on(Call_::Kind::whole, *operand.value))) return false;
    sequence_->count_whole();
    *operand.value = whole_of(*operand.value);
    return true;
  };

  if (!has_share && !has_gathered) {
    for (const Operand& tensor : tensors)
      if (!keep(tensor)) return Value::failure();
    return apply_whole();
  }

  // Applies the rule for shares to `given`. Fails without a report.
  std::string why;
  const auto apply_rule_for_shares = [&](const std::vector<Value>& given) -> Value {
    Operation op;
    op.name = name;
    op.axis = Axis::sequence;
    op.expr = &expr;
    op.operands = operands;
    op.values = given;
    const bool is_contract = get_home(expr) == Callee::Home::contract && !layer;
    if (is_contract && !is_by_position(expr.callee->name))
      op.reject(quoted(op) + " of a value that is " +
                describe(*std::ranges::find_if(tensors, [](const Operand& tensor) {
                            return is_split(*tensor.value);
                          })->value));
    if (is_random(name)) op.reject("random numbers for a rank's positions");
    Value result = op.message.empty() ? apply_in_reading(op, rule) : Value::failure();
    const bool is_dropout = name == "Dropout layer";
    if (op.message.empty() && is_dropout && (result.type.dim != 1 || result.rank != 3 || result.outer.is_known()))
      op.reject("dropout of a value that is " + describe(result));
    const bool is_sum = op.message.empty() && find_variant(result) && is_partial(*find_variant(result));
    if (is_sum) op.reject(quoted(op) + " over positions");
    why = op.message;
    return op.message.empty() ? result : Value::failure();
  };

  if (is_inside) {
    for (const Operand& tensor : tensors) {
      if (is_share(*tensor.value) ? !read_whole(tensor) : !keep(tensor))
        return findings_.empty()
                   ? fail(span(), "unproven: " + name + " of a value that is " + describe(*tensor.value), "")
                   : Value::failure();
    }
    const auto first = std::ranges::find_if(tensors, [](const Operand& tensor) { return is_gathered(*tensor.value); });
    if (first == tensors.end()) return apply_whole();
    // Rows that were gathered are in the order of ranks: only what treats each row by itself may read them.
    for (const Operand& tensor : tensors)
      if (is_full(*tensor.value) && !broadcasts(*tensor.value, *first->value))
        return fail(span(), "unproven: " + name + " of rows in the order of ranks, and of other values", "");
    Value result = apply_rule_for_shares(values);
    if (!why.empty()) return fail(span(), why, "");
    for (const Operand& tensor : tensors) use_parameters(expr, tensor.value->parameters, false);
    change_tensors(result, [&](Value& part) {
      part.is_inside = true;
      part.is_gathered = is_split(part);
      part.count.is_share = false;
    });
    if (name == "Dropout layer") return fail(span(), "unproven: dropout of rows in the order of ranks", "");
    return finish(std::move(result), false);
  }

  // Shares alone, and values that have all positions, which are cut, or broadcast.
  const Value share =
      *std::ranges::find_if(tensors, [](const Operand& tensor) { return is_share(*tensor.value); })->value;
  std::vector<std::pair<const Expr*, SequenceCall>> calls;
  std::set<std::string> parameters;
  const std::vector<Value> before = values;
  bool fits = true;
  for (const Operand& tensor : tensors) {
    SequenceCall call;
    Value& value = *tensor.value;
    if (is_full(value) && !value.is_fixed) {
      if (const auto dim = find_positions(value, share)) {
        call = {Call_::Kind::part, written_dimension(*dim, value.rank)};
        value = share_of(value, *dim);
      } else if (!broadcasts(value, share)) {
        fits = false;
        why = "a value whose positions are not known, next to a value that is " + describe(share);
      } else if (value.gradient) {
        call.kind = Call_::Kind::shared;
      }
      fits &= call.kind == Call_::Kind::none || (tensor.expr && !(changes_first(expr) && tensor.expr == operands[0]));
    }
    parameters.insert(value.parameters.begin(), value.parameters.end());
    if (tensor.expr) calls.emplace_back(tensor.expr, call);
  }
  if (fits) {
    Value result = apply_rule_for_shares(values);
    if (why.empty()) {
      for (const auto& [operand, call] : calls)
        if (!write(*operand, Place::operand, call)) return Value::failure();
      if (name == "Dropout layer" && !write(expr, Place::dropout, {Call_::Kind::positions})) return Value::failure();
      use_parameters(expr, parameters, true);
      change_tensors(result, [](Value& part) { part.is_inside = part.is_fixed = false, part.parameters.clear(); });
      give_storage(name, expr, before, result);
      return finish(std::move(result), true);
    }
  }
  values = before;
  tensors = collect(operands, values, is_nothing_else);
  numbers = collect(operands, values, is_number);
  if (share.outer.is_known() || resizes) return fail(span(), why, "");
  for (const Operand& tensor : tensors) {
    if (is_share(*tensor.value) ? read_whole(tensor) : keep(tensor)) continue;
    return findings_.empty() ? fail(span(), why, "") : Value::failure();
  }
  return apply_whole();
}

// ---- Functions ----

bool Interpreter::runs_overload(const Function& function, const Expr* at) const {
  const MethodFindings* found = sequence_->find(&function);
  if (!at || !frame_ || !found || !found->on_shards) return false;
  const auto placed = sequence_->placements(frame_->function, frame_->on_shards, *at);
  return std::ranges::any_of(placed, [](const Placement* placement) { return placement->call == Call::on_shards; });
}

Value Interpreter::call_with_shares(const Function& function, const ModuleNode* self,
                                    const std::vector<const Expr*>& operands, const std::vector<Value>& values,
                                    const Expr* at) {
  const SequenceReading::Mark before = sequence_->mark();
  const size_t errors = findings_.size();
  const auto run_with = [&](const std::vector<Value>& given, bool& reaches) {
    Frame frame;
    frame.function = &function;
    frame.self = self;
    bind_parameters(frame, operands, given);
    reaches = !frame.reached.empty();
    return run(frame, at);
  };
  std::vector<Value> given = values;
  std::vector<Operand> shares = collect(operands, given, is_share);
  const bool can_read_whole =
      std::ranges::all_of(shares, [](const Operand& share) { return share.expr && !share.value->outer.is_known(); });
  bool reaches = false;
  const Value result = run_with(values, reaches);
  const bool is_right = findings_.size() == errors && sequence_->wholes() == before.wholes;
  if (is_right || reaches || shares.empty() || !can_read_whole) {
    for (const Operand& share : shares)
      if (share.expr && findings_.size() == errors) write(*share.expr, Place::operand, {});
    return result;
  }
  findings_.resize(errors);
  sequence_->undo(before);
  for (const Operand& share : shares) {
    if (!write(*share.expr, Place::operand, call_on(Call_::Kind::whole, *share.value))) return Value::failure();
    sequence_->count_whole();
    *share.value = whole_of(*share.value);
  }
  return run_with(given, reaches);
}

Value Interpreter::join_alternatives(const Expr& expr, Value one, Value other) {
  if (sequence_ && is_tensor(one) && is_tensor(other)) {
    Value& whole = is_share(one) ? other : one;
    const Value& share = is_share(one) ? one : other;
    SequenceCall call;
    const std::optional<int64_t> dim =
        is_share(share) && is_full(whole) && !whole.is_inside ? find_positions(whole, share) : std::nullopt;
    if (dim && dim == share.type.dim) {
      call = {Call_::Kind::part, written_dimension(*dim, whole.rank)};
      use_parameters(expr, whole.parameters, false);
      whole = share_of(whole, *dim);
      whole.is_fixed = false, whole.parameters.clear();
    }
    const Expr &first = expr.operands[1], &second = expr.operands[2];
    if (!write(first, Place::operand, &whole == &one ? call : Call_()) ||
        !write(second, Place::operand, &whole == &one ? Call_() : call))
      return Value::failure();
  }
  const Value result = join(one, other);
  return result.kind == Value::Kind::mismatch
             ? fail(expr.span, "this is " + result.text, "make both alternatives the same")
             : result;
}

// ---- Layers ----

void Interpreter::enter_layers(const Frame& frame, const Traversal& traversal) {
  Value& carried = frame_->variables[traversal.variable].value;
  const Expr& range = frame.function->body.statements[traversal.loop].exprs[0];
  const Expr& list = range.kind == Expr::Kind::op && range.operands.size() == 1 ? range.operands[0] : range;
  const ModuleNode* node = find_named_module(*frame.self, list);
  if (!node || !traversal.cut || !is_full(carried) || carried.is_inside || carried.rank != 3)
    return report(list.span, "the layers do not read one value of [batch, positions, features]", "");
  // The runtime compares the lengths of the batch's ids: of the encoder's, and of the decoder's, which may be made of
  // the labels.
  const bool is_decoder = !sequence_->lists.empty();
  if (!is_decoder && carried.sizes[1] != field_count("#seq"))
    return report(list.span, "the positions of what the layers read are not known to be those of the batch", "");
  carried = share_of(carried, 1);
  sequence_->positions = carried.sizes[1];
  sequence_->add_loop(frame.function, node->path, *traversal.cut);
}

void Interpreter::leave_layers(const Traversal& traversal) {
  Value& carried = frame_->variables[traversal.variable].value;
  if (is_share(carried)) carried = whole_of(carried);
}

}  // namespace modgen
