// Values that nothing is known about: where they come from, and what they must not reach. Whatever the rules do not
// cover is one of them: deny by default.
#include <algorithm>
#include <utility>

#include "generator/weave/interpreter.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// A tensor of the batch: the names of its sizes, and the dimension in which each reading splits it; none if it does
/// not.
struct BatchField {
  std::string_view name;
  std::vector<std::string_view> sizes;
  std::optional<int64_t> rows, positions, context;
};

// With a cache, which sequence parallelism has not, attention_mask also covers the positions of earlier forwards.
const BatchField kBatchFields[] = {
    {"input_ids", {"#batch", "#seq"}, 0, 1, 1},
    {"attention_mask", {"#batch", "#keys"}, 0, {}, 1},
    {"position_ids", {"#batch", "#seq"}, 0, 1, 1},
    {"documents", {"#batch", "#seq"}, 0, 1, 1},
    {"token_type_ids", {"#batch", "#seq"}, 0, 1, 1},
    {"pixel_values", {"#images", "#channels", "#height", "#width"}, 0, {}, {}},
    {"decoder_input_ids", {"#batch", "#target_seq"}, 0, 1, 1},
    {"decoder_attention_mask", {"#batch", "#target_seq"}, 0, {}, 1},
    {"feature_ids", {"#batch", "#seq", "#features"}, 0, 1, 1},
    {"feature_values", {"#batch", "#seq", "#features"}, 0, 1, 1},
    {"samples", {"#batch"}, 0, {}, {}},
};

Value batch_tensor(Axis axis, std::optional<int64_t> rank, std::optional<int64_t> split) {
  Value value = Value::tensor(split ? sharded(*split) : kInvariant, false, rank);
  if (split) value.axis = axis;
  return value;
}

/// Whether a function could change, through that operand, something that the operand only refers to.
bool writes_through(const Expr* operand) {
  static constexpr std::string_view kinds[] = {"iterator<", "std::span<", "std::reference_wrapper<"};
  const std::string& type = operand->type;
  if (type.find("const ") != std::string_view::npos) return false;
  return type.ends_with("*") ||
         std::ranges::any_of(kinds, [&](std::string_view kind) { return type.find(kind) != std::string_view::npos; });
}

}  // namespace

const KnownTask* find_task(const FamilyModel& family, const Class& owner) {
  const Annotation* entry = find_annotation(owner.annotations, AnnotationKind::entry);
  if (!entry || entry->arguments.empty()) return nullptr;
  const auto task = std::ranges::find(family.known_tasks, entry->arguments[0], &KnownTask::name);
  return task == family.known_tasks.end() ? nullptr : &*task;
}

Value batch_value(Axis axis, const KnownTask& task) {
  const auto in_reading = [&](std::optional<int64_t> rows, std::optional<int64_t> positions,
                              std::optional<int64_t> context) {
    return axis == Axis::rows        ? rows
           : axis == Axis::positions ? positions
           : axis == Axis::context   ? context
                                     : std::nullopt;
  };
  Value batch = object_value();
  for (const BatchField& field : kBatchFields) {
    const auto rank = static_cast<int64_t>(field.sizes.size());
    Value value = batch_tensor(axis, rank, in_reading(field.rows, field.positions, field.context));
    std::vector<Count> sizes;
    for (const std::string_view size : field.sizes) {
      const bool is_own = size == "#keys" && axis == Axis::sequence;
      sizes.push_back(field_count(is_own ? "#seq" : std::string(size)));
    }
    value.sizes = Sizes(std::move(sizes));
    batch.members[std::string(field.name)] = std::move(value);
  }
  // Labels that are given per row may have more dimensions.
  const std::optional<int64_t> rank = task.has_row_labels ? std::nullopt : std::optional<int64_t>(2);
  const std::optional<int64_t> positions = task.has_row_labels ? std::nullopt : std::optional<int64_t>(1);
  Value& labels = batch.members["labels"] = batch_tensor(axis, rank, in_reading(0, positions, positions));
  if (rank) labels.sizes = Sizes({field_count("#batch"), field_count("#labels")});
  batch.members["want_logits"] = Value::number();
  return batch;
}

Value any_argument(const Parameter& parameter) {
  if (parameter.canonical == "modular::Batch") return batch_value(Axis::tp, {.name = "", .has_row_labels = true});
  if (parameter.canonical == "std::optional<at::Tensor>") return Value::tensor(kInvariant, true, std::nullopt);
  const bool is_rotary = parameter.canonical == "std::pair<at::Tensor, at::Tensor>" &&
                         parameter.type.find("RotaryTables") != std::string::npos;
  return make_invariant(parameter.canonical, !is_rotary);
}

Value Interpreter::default_argument(const Parameter& parameter) {
  const bool is_followed = parameter.initial && defaults_.insert(&parameter).second;
  if (!is_followed) return Value::unknown("the default of " + parameter.name, frame_->function->where);
  Value value = evaluate_elsewhere(*parameter.initial);
  defaults_.erase(&parameter);
  // The method may test whether a tensor is defined: an undefined one is taken as any other.
  return value.is_invariant() && value.kind != Value::Kind::number ? any_argument(parameter) : value;
}

Value Interpreter::evaluate_elsewhere(const Expr& expr) {
  const bool was_counted = std::exchange(counts_in_proof_, false);
  Value value = evaluate(expr);
  counts_in_proof_ = was_counted;
  return value;
}

Value Interpreter::evaluate_function(const Expr& expr) {
  const Function* function = functions_.find(*expr.callee);
  const bool in_place = expr.name.ends_with("_") || expr.name.ends_with("_out");
  std::string name;
  if (!function && expr.callee->home != Callee::Home::family && !in_place)
    return find_rule(*expr.callee, name) || is_known_function(expr)
               ? make_invariant(expr.type, false)
               : Value::unknown("the result of " + expr.name, expr.span);
  if (!function || expr.callee->changes_object || expr.callee->of_module)
    return fail(expr.span, "unproven: a pointer to " + std::string(unqualified(expr.name)),
                "call it by name, or in a lambda");
  std::vector<Value> arguments;
  for (const Parameter& parameter : function->parameters) arguments.push_back(any_argument(parameter));
  const Value result = call(*function, nullptr, {}, std::move(arguments), &expr);
  if (result.has_failed()) return Value::failure();
  if (const Value* unknown = find_unknown(result)) return *unknown;
  return make_invariant(expr.type, false);
}

Value Interpreter::evaluate_global(const Expr& expr) {
  if (expr.name.starts_with("modular::tp::") || expr.name.starts_with("modular::pp::") ||
      expr.name.starts_with("modular::fsdp::"))
    return fail(expr.span, "unproven: " + expr.name + " belongs to the runtime, and differs between ranks",
                "leave it to modgen to insert parallel calls");
  if (expr.callee) return evaluate_function(expr);
  const std::string name(unqualified(expr.name));
  if (expr.may_change) return Value::unknown("the global variable " + name + ", which may change", expr.span);
  if (expr.operands.empty()) return make_invariant(expr.type, false);
  const Value initial = evaluate_elsewhere(expr.operands[0]);
  if (initial.has_failed()) return initial;
  return initial.is_invariant() ? make_invariant(expr.type, true)
                                : Value::unknown("the initializer of " + name, expr.span);
}

Value Interpreter::reject_unknown(const Value& unknown, SourceSpan where, const std::string& use) {
  std::vector<Finding> notes;
  if (where != unknown.cause) notes.push_back({false, where, use, "", {}});
  report(unknown.cause, "unproven: nothing is known about " + unknown.text + (notes.empty() ? ", and " + use : ""),
         "compute it with operations that modgen follows (docs/reference/language.md)", std::move(notes));
  return Value::failure();
}

std::optional<Value> Interpreter::meet_unknown(const Expr& expr, const std::vector<const Expr*>& operands,
                                               const std::vector<Value>& values) {
  const Value* unknown = nullptr;
  for (const Value& value : values)
    if (!unknown) unknown = find_unknown(value);
  if (!unknown) return std::nullopt;
  if (!is_known_function(expr) && std::ranges::any_of(operands, writes_through)) return fail_to_write_through(expr);
  for (const Value& value : values) {
    const Value* variant = find_variant(value);
    if (!variant) continue;
    return reject_unknown(*unknown, expr.span,
                          variant->kind == Value::Kind::module ? "a layer that is split over tp reads it"
                                                               : "it meets a value that is " + describe(*variant));
  }
  Value result = *unknown;
  forget_changed(expr, operands, values, &result);
  return result;
}

Value Interpreter::fail_to_write_through(const Expr& expr) {
  return fail(
      expr.span,
      "unproven: no rule for " + std::string(unqualified(expr.name)) + ", which may change what its operands refer to",
      "write it as a loop over the elements");
}

Value Interpreter::apply_unlisted(const std::string& name, const Expr& expr, const std::vector<const Expr*>& operands,
                                  const std::vector<Value>& values) {
  if (std::ranges::any_of(operands, writes_through)) return fail_to_write_through(expr);
  const std::string called = expr.kind == Expr::Kind::call && expr.callee ? expr.callee->name
                             : name.starts_with(".")                      ? name.substr(1)
                                                                          : name;
  Value result =
      Value::unknown((expr.kind == Expr::Kind::construct ? "an object of " : "the result of ") + called, expr.span);
  forget_changed(expr, operands, values, &result);
  return result;
}

}  // namespace modgen
