// The reading of sequence parallelism: between layers each tp rank has a part of the positions, a share. What tensor
// parallelism has proven stays as it is; here follows which values are shares, which have all positions, and where one
// becomes the other.
#include <algorithm>
#include <set>

#include "generator/weave/partition.h"
#include "generator/weave/shares.h"

namespace modgen {
namespace {

using Place = SequencePlace::Kind;
using CallKind = SequenceCall::Kind;

void set_inside(Value& value, bool is_inside) {
  change_parts(value, [&](Value& part) { part.is_inside = is_inside; });
}

}  // namespace

// ---- Text ----

bool Interpreter::write(const Expr& expr, SequencePlace::Kind kind, const SequenceCall& call) {
  const bool is_written = call.kind != CallKind::none;
  if (is_written && expr.in_macro) {
    report(expr.span, "a parallel call would have to be inserted in the body of a macro", "");
    return false;
  }
  if (sequence_->write({&expr, frame_->on_shards, kind}, call)) return true;
  report(expr.span,
         "this code runs both on a rank's positions (between layers) and on all positions, which need different calls",
         "");
  return false;
}

Value Interpreter::convert_number(const Expr& expr, Value value, std::string_view type) {
  if (value.kind != Value::Kind::number || !value.count.is_share || !is_fraction(type) || is_fraction(expr.type))
    return value;
  sequence_->read_number({.place = {&expr, frame_->on_shards, Place::operand},
                          .sizes = value.sizes_read,
                          .is_whole = true,
                          .can_convert = expr.type == "long"});
  value.count.is_share = false;
  value.sizes_read.clear();
  return value;
}

void Interpreter::use_parameters(SourceSpan where, const std::set<std::string>& parameters, bool is_partial) {
  const std::string both = sequence_->use_parameters(parameters, is_partial);
  if (!both.empty())
    report(where, "the gradient of " + both + " is a sum over a rank's positions here or elsewhere, but not both", "");
}

void Interpreter::use_layer(const Expr& expr, const ModuleNode& layer, bool is_partial) {
  using Kind = ModuleNode::Kind;
  if (layer.kind == Kind::family || layer.kind == Kind::list || layer.kind == Kind::one_of) return;
  if (!layer.holds_parameters()) return;
  for (const char* name : {"weight", "bias"})
    if (!find_partition(layer, name).dim) use_parameters(expr.span, {layer.path_to(name)}, is_partial);
}

// ---- Calls of tensor parallelism ----

Value Interpreter::take_calls(const Expr& expr, Value value) {
  static const std::vector<Placement> none;
  const std::vector<Placement>& woven = frame_->woven ? *frame_->woven : none;
  for (auto placement = woven.rbegin(); placement != woven.rend(); ++placement) {  // the innermost first
    if (placement->expr != &expr) continue;
    switch (placement->call) {
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
  const SequenceCall call = enters ? call_on(CallKind::enter, value) : SequenceCall{CallKind::shared};
  if (!write(expr, Place::enter, call)) return Value::failure();
  use_parameters(expr.span, value.parameters, false);
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
  SequenceCall call{CallKind::reduce};
  if (returns && is_gathered(value)) {
    value.is_gathered = false;
    call = call_on(CallKind::exit, value);
  } else if (returns) {
    const int64_t dim = value.rank.value_or(0) + SequenceCall::kBeforeFeatures;
    if (dim < 0 || value.sizes[dim] != *sequence_->positions)
      return fail(expr.span,
                  "a sum over tp of a value that is not known to have the same positions as the values between layers",
                  "");
    value = share_of(value, dim);
    call.kind = CallKind::exit;
  }
  if (!write(expr, Place::sum, call)) return Value::failure();
  value.is_inside = false;
  value.is_fixed = false;
  value.parameters.clear();
  return value;
}

// ---- Functions ----

void Interpreter::find_woven(Frame& frame, const Expr* at) const {
  const MethodFindings* found = sequence_->find(frame.function);
  if (!found) return;
  frame.on_shards = found->on_shards && frame.caller && frame.caller->woven &&
                    std::ranges::any_of(*frame.caller->woven, [&](const Placement& placement) {
                      return placement.expr == at && placement.call == Call::on_shards;
                    });
  frame.woven = frame.on_shards ? &*found->on_shards : &found->placements;
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
  std::vector<OperandPart> shares = collect_parts(operands, given, is_share);
  const bool can_read_whole = std::ranges::all_of(
      shares, [](const OperandPart& share) { return share.expr && !share.value->outer.is_known(); });
  bool reaches = false;
  const Value result = run_with(values, reaches);
  const bool is_right = findings_.size() == errors && sequence_->wholes() == before.wholes;
  if (is_right || reaches || shares.empty() || !can_read_whole) {
    for (const OperandPart& share : shares)
      if (share.expr && findings_.size() == errors) write(*share.expr, Place::operand, {});
    return result;
  }
  findings_.resize(errors);
  sequence_->undo(before);
  for (const OperandPart& share : shares) {
    if (!write(*share.expr, Place::operand, call_on(CallKind::whole, *share.value))) return Value::failure();
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
      call = call_on(CallKind::part, *dim, whole.rank);
      use_parameters(expr.span, whole.parameters, false);
      whole = share_of(whole, *dim);
      whole.is_fixed = false, whole.parameters.clear();
    }
    const Expr &first = expr.operands[1], &second = expr.operands[2];
    if (!write(first, Place::operand, &whole == &one ? call : SequenceCall()) ||
        !write(second, Place::operand, &whole == &one ? SequenceCall() : call))
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
    return report(list.span,
                  "the loop over the layers must carry exactly one tensor of shape [batch, positions, features]", "");
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
