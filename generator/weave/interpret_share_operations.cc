// Operations in the reading of sequence parallelism, some of whose operands are shares.
#include <set>

#include "generator/weave/partition.h"
#include "generator/weave/rules/readings.h"
#include "generator/weave/shares.h"

namespace modgen {
namespace {

using Place = SequencePlace::Kind;
using CallKind = SequenceCall::Kind;

bool is_number(const Value& value) { return value.kind == Value::Kind::number; }
bool is_any_tensor(const Value& value) { return is_tensor(value); }

/// Whether a value that has all positions has none of the dimension of positions of `share`, or size 1 there.
bool broadcasts(const Value& x, const Value& share) {
  if (x.is_fixed) return true;
  const std::optional<int64_t> dim = from_end(share);
  if (!x.rank || !dim) return false;
  return -*dim > *x.rank || has_one(x, *dim) || x.sizes[*x.rank + *dim].literal() == 1;
}

/// Functions of the contract that compute each position by itself.
bool is_by_position(std::string_view function) {
  static const std::set<std::string_view> names = {
      "modular::activation",  "modular::balance_experts",     "modular::gated_activation", "modular::gated_rms_norm",
      "modular::mix_experts", "modular::mix_clamped_experts", "modular::quick_gelu",       "modular::rms_norm",
      "modular::soft_cap",    "modular::unit_rows",           "modular::without_padding"};
  return names.contains(function);
}

}  // namespace

/// One application of an operation.
class ShareOperation {
 public:
  ShareOperation(Interpreter& interpreter, const std::string& name, Rule rule, const Expr& expr,
                 std::vector<const Expr*> operands, std::vector<Value> values)
      : interpreter_(interpreter),
        name_(name),
        rule_(rule),
        expr_(expr),
        operands_(std::move(operands)),
        values_(std::move(values)) {
    if (!values_.empty() && values_[0].kind == Value::Kind::module) layer_ = values_[0].node;
    find_parts();
    is_split_layer_ = layer_ && layer_->field && split_annotation(layer_->field->annotations);
    is_inside_ = is_split_layer_ || any_part(tensors_, is_gathered) ||
                 any_part(tensors_, [](const Value& value) { return value.is_inside; });
  }

  Value apply() {
    const bool has_share = any_part(tensors_, is_share);
    if (!convert_numbers(has_share)) return Value::failure();
    if (is_inside_ && (has_share || any_part(tensors_, is_gathered))) return apply_inside();
    if (has_share) return apply_to_shares();
    for (const OperandPart& tensor : tensors_)
      if (!keep(tensor)) return Value::failure();
    return apply_whole();
  }

 private:
  void find_parts() {
    tensors_ = collect_parts(operands_, values_, is_any_tensor);
    numbers_ = collect_parts(operands_, values_, is_number);
  }

  Value fail(std::string message) { return interpreter_.fail(expr_.span, std::move(message), ""); }
  /// The failure that was reported, or this one.
  Value fail_with(std::string message) {
    return interpreter_.findings_.empty() ? fail(std::move(message)) : Value::failure();
  }
  bool write(const Expr& expr, Place kind, const SequenceCall& call) { return interpreter_.write(expr, kind, call); }

  /// Whether a call can stand around `number`, which is an int64_t and is only read.
  bool can_convert(const OperandPart& number) const {
    if (number.expr->type != "long" || changes(number)) return false;
    return !expr_.callee || std::ranges::none_of(expr_.callee->changes, [&](size_t i) {
      return i < operands_.size() && operands_[i] == number.expr;
    });
  }

  /// Numbers of a rank's positions stay what they are in a product of integers, in a view of a share, and as the size
  /// of a new value. Others become the number of all positions.
  bool convert_numbers(bool has_share) {
    static const std::set<std::string_view> creations = {"zeros", "ones", "empty", "full"};
    for (const OperandPart& number : numbers_)
      sizes_read_.insert(number.value->sizes_read.begin(), number.value->sizes_read.end());
    const bool is_only =
        std::ranges::count_if(numbers_, [](const OperandPart& number) { return number.value->count.is_share; }) == 1;
    const bool is_exact = std::ranges::all_of(
        numbers_, [](const OperandPart& number) { return !number.expr || !is_fraction(number.expr->type); });
    multiplies_ = tensors_.empty() && name_ == "op *" && is_only && is_exact;
    resizes_ = has_share && !is_inside_ && (name_ == ".view" || name_ == ".reshape" || name_ == ".expand");
    const bool creates = tensors_.empty() && creations.contains(name_) && is_only;
    if (multiplies_) return true;
    for (const OperandPart& number : numbers_) {
      const bool converts = number.value->count.is_share && !resizes_ && !creates;
      if (converts && !number.expr) {
        fail("unproven: sizes that are " + describe(*number.value) + ", of a value that is whole");
        return false;
      }
      const Expr* read = number.expr ? number.expr : &expr_;
      interpreter_.sequence_->read_number({{read, interpreter_.frame_->on_shards, Place::operand},
                                           number.value->sizes_read,
                                           converts,
                                           number.expr && can_convert(number)});
      if (converts) number.value->count.is_share = false;
    }
    return true;
  }

  Value finish(Value result, bool is_partial) {
    if (result.has_failed()) return result;
    if (layer_ && !is_split_layer_) interpreter_.use_layer(expr_, *layer_, is_partial);
    change_parts(result, [&](Value& part) {
      if (is_number(part) && part.count.is_share) part.sizes_read = multiplies_ ? sizes_read_ : std::set{&expr_};
    });
    return result;
  }

  /// Whether the result is computed from parameters, buffers and constants alone.
  bool is_fixed() const {
    if (tensors_.empty() || layer_) return false;
    for (const OperandPart& tensor : tensors_)
      if (!tensor.value->is_fixed) return false;
    for (const OperandPart& number : numbers_) {
      const Count& count = number.value->count;
      const bool is_shape = number.expr && number.expr->type == "long" && !name_.starts_with("op ");
      if (is_shape && !count.is_known()) return false;
      for (const Count::Term& term : count.terms)
        if (std::ranges::any_of(term.fields, [](const std::string& field) { return field.front() == kOwnSize; }))
          return false;
    }
    return true;
  }

  std::set<std::string> parameters() const {
    std::set<std::string> found;
    for (const OperandPart& tensor : tensors_)
      found.insert(tensor.value->parameters.begin(), tensor.value->parameters.end());
    return found;
  }

  /// Applies the operation to values that all have all positions, row after row.
  Value apply_whole() {
    const bool is_unruled_layer = layer_ && !rule_;
    Value result = is_unruled_layer ? make_invariant(expr_.type, true)
                                    : interpreter_.apply_known(name_, rule_, expr_, operands_, values_);
    if (result.has_failed()) return result;
    if (is_unruled_layer) interpreter_.give_storage(name_, expr_, values_, result);
    const bool fixed = is_fixed();
    const std::set<std::string> read = parameters();
    if (!fixed) interpreter_.use_parameters(expr_.span, read, /*is_partial=*/false);
    change_parts(result, [&](Value& part) {
      part.is_inside = is_inside_;
      part.is_fixed = fixed && is_tensor(part);
      if (fixed && part.gradient) part.parameters = read;
    });
    if (name_ == ".size") interpreter_.sequence_->read_full_size(&expr_);
    if (name_ == "Dropout layer" && !write(expr_, Place::dropout, {})) return Value::failure();
    return finish(std::move(result), /*is_partial=*/false);
  }

  /// Whether the operation changes that operand in place: nothing can stand around it.
  bool changes(const OperandPart& operand) const { return changes_first(expr_) && operand.expr == operands_[0]; }

  bool keep(const OperandPart& operand) { return !operand.expr || write(*operand.expr, Place::operand, {}); }

  bool read_whole(const OperandPart& operand) {
    if (!operand.expr || changes(operand)) return false;
    if (!write(*operand.expr, Place::operand, call_on(CallKind::whole, *operand.value))) return false;
    interpreter_.sequence_->count_whole();
    *operand.value = whole_of(*operand.value);
    return true;
  }

  /// Applies the rule for shares, or sets `why_` not.
  Value apply_rule_for_shares() {
    Operation op;
    op.name = name_;
    op.axis = Axis::sequence;
    op.expr = &expr_;
    op.operands = operands_;
    op.values = values_;
    const bool is_contract = get_home(expr_) == Callee::Home::contract && !layer_;
    const auto split = std::ranges::find_if(tensors_, [](const OperandPart& part) { return is_split(*part.value); });
    if (is_contract && !is_by_position(expr_.callee->name))
      op.reject(quoted(op) + " of a value that is " + describe(*split->value));
    if (is_random(name_)) op.reject("random numbers for a rank's positions");
    Value result = op.message.empty() ? apply_in_reading(op, rule_) : Value::failure();
    const bool is_dropout = name_ == "Dropout layer";
    if (op.message.empty() && is_dropout && (result.type.dim != 1 || result.rank != 3 || result.outer.is_known()))
      op.reject("dropout of a value that is " + describe(result));
    if (op.message.empty() && find_variant(result) && is_partial(*find_variant(result)))
      op.reject(quoted(op) + " over positions");
    why_ = op.message;
    return op.message.empty() ? result : Value::failure();
  }

  /// Applies the operation inside split computations, which have all positions: shares become whole.
  Value apply_inside() {
    for (const OperandPart& tensor : tensors_)
      if (is_share(*tensor.value) ? !read_whole(tensor) : !keep(tensor))
        return fail_with("unproven: " + name_ + " of a value that is " + describe(*tensor.value));
    const auto rows = std::ranges::find_if(tensors_, [](const OperandPart& part) { return is_gathered(*part.value); });
    if (rows == tensors_.end()) return apply_whole();
    // Rows that were gathered are in the order of ranks: only what treats each row by itself may read them.
    for (const OperandPart& tensor : tensors_)
      if (is_full(*tensor.value) && !broadcasts(*tensor.value, *rows->value))
        return fail("unproven: " + name_ + " of rows in the order of ranks, and of other values");
    if (name_ == "Dropout layer") return fail("unproven: dropout of rows in the order of ranks");
    Value result = apply_rule_for_shares();
    if (!why_.empty()) return fail(why_);
    interpreter_.use_parameters(expr_.span, parameters(), /*is_partial=*/false);
    change_parts(result, [&](Value& part) {
      part.is_inside = true;
      part.is_gathered = is_split(part);
      part.count.is_share = false;
    });
    return finish(std::move(result), /*is_partial=*/false);
  }

  /// Cuts operands that have all positions of `share`. Whether all operands have its positions then, or none.
  bool cut_operands(const Value& share, std::vector<std::pair<const Expr*, SequenceCall>>& calls) {
    for (const OperandPart& tensor : tensors_) {
      SequenceCall call;
      Value& value = *tensor.value;
      const bool is_other = is_full(value) && !value.is_fixed;
      const std::optional<int64_t> dim = is_other ? find_positions(value, share) : std::nullopt;
      if (dim) {
        call = call_on(CallKind::part, *dim, value.rank);
        value = share_of(value, *dim);
      } else if (is_other && !broadcasts(value, share)) {
        why_ = "a value whose positions are not known, next to a value that is " + describe(share);
        return false;
      } else if (is_other && value.gradient) {
        // Each rank would have a part of its gradient, and without sequence parallelism all of it.
        why_ = "a computed value that all positions share, next to a value that is " + describe(share);
        return false;
      }
      if (call.kind != CallKind::none && (!tensor.expr || changes(tensor))) return false;
      if (tensor.expr) calls.emplace_back(tensor.expr, call);
    }
    return true;
  }

  Value apply_to_shares() {
    const Value share =
        *std::ranges::find_if(tensors_, [](const OperandPart& part) { return is_share(*part.value); })->value;
    const std::vector<Value> given = values_;
    std::vector<std::pair<const Expr*, SequenceCall>> calls;
    if (cut_operands(share, calls)) {
      Value result = apply_rule_for_shares();
      if (why_.empty()) return keep_shares(std::move(result), calls, given);
    }
    values_ = given;
    find_parts();
    if (share.outer.is_known() || resizes_) return fail(why_);
    for (const OperandPart& tensor : tensors_)
      if (!(is_share(*tensor.value) ? read_whole(tensor) : keep(tensor))) return fail_with(why_);
    return apply_whole();
  }

  /// The result of the rule for shares.
  Value keep_shares(Value result, const std::vector<std::pair<const Expr*, SequenceCall>>& calls,
                    const std::vector<Value>& given) {
    for (const auto& [operand, call] : calls)
      if (!write(*operand, Place::operand, call)) return Value::failure();
    if (name_ == "Dropout layer" && !write(expr_, Place::dropout, {CallKind::positions})) return Value::failure();
    interpreter_.use_parameters(expr_.span, parameters(), /*is_partial=*/true);
    change_parts(result, [](Value& part) { part.is_inside = part.is_fixed = false, part.parameters.clear(); });
    interpreter_.give_storage(name_, expr_, given, result);
    return finish(std::move(result), /*is_partial=*/true);
  }

  Interpreter& interpreter_;
  const std::string& name_;
  Rule rule_;
  const Expr& expr_;
  std::vector<const Expr*> operands_;
  std::vector<Value> values_;
  const ModuleNode* layer_ = nullptr;
  std::vector<OperandPart> tensors_, numbers_;
  std::set<const Expr*> sizes_read_;
  bool is_split_layer_ = false, is_inside_ = false, multiplies_ = false, resizes_ = false;
  std::string why_;
};

Value Interpreter::apply_to_shares(const std::string& name, Rule rule, const Expr& expr,
                                   std::vector<const Expr*> operands, std::vector<Value> values) {
  return ShareOperation(*this, name, rule, expr, std::move(operands), std::move(values)).apply();
}

}  // namespace modgen
