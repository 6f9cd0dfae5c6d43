#include <algorithm>
#include <array>
#include <set>

#include "generator/weave/rules/readings.h"

namespace modgen {

std::vector<const RuleTable*> rule_tables() {
  return {&arithmetic_rules(), &shape_rules(),    &cutting_rules(), &matmul_rules(),
          &layer_rules(),      &function_rules(), &head_rules(),    &state_space_rules()};
}

Rule find_rule(std::string_view name) {
  for (const RuleTable* table : rule_tables())
    if (const auto found = table->find(name); found != table->end()) return found->second;
  return nullptr;
}

Rule find_rule(const Callee& callee, std::string& name) {
  const size_t colon = callee.name.rfind("::");
  const std::string space = colon == std::string::npos ? "" : callee.name.substr(0, colon);
  name = callee.name.substr(colon == std::string::npos ? 0 : colon + 2);
  // Functions of libtorch whose rules are in the same tables as the contract's functions.
  constexpr std::array kOfTorch = {"layer_norm", "scaled_dot_product_attention", "scalar_tensor"};
  const bool is_contract_rule =
      (function_rules().contains(name) || head_rules().contains(name) || state_space_rules().contains(name)) &&
      std::ranges::find(kOfTorch, name) == kOfTorch.end();
  if (callee.home == Callee::Home::torch)
    return (space == "at" || space == "torch") && !is_contract_rule ? find_rule(name) : nullptr;
  if (callee.home != Callee::Home::contract) return nullptr;
  if (space == "modular::tp") return find_rule(name = "tp::" + name);
  return space == "modular" && is_contract_rule ? find_rule(name) : nullptr;
}

namespace {

/// Operations that support tp-local counts, or reject them with their own message.
bool reads_counts(std::string_view name) {
  static constexpr std::string_view names[] = {
      ".view",
      ".reshape",
      ".expand",
      ".split",
      "split",
      ".split_with_sizes",
      "split_with_sizes",
      ".slice",
      "ones",
      "zeros",
      ".narrow",
      "full",
      "empty",
      "arange",
      "scalar_tensor",
      "gated_rms_norm",
      "state_space_duality",
      "alibi_slopes",
  };
  return name.starts_with("op ") || std::ranges::find(names, name) != std::end(names);
}

/// Operations whose sizes may contain a count by which the result is split.
bool resizes(std::string_view name) { return name == ".view" || name == ".reshape" || name == ".expand"; }

/// Operations that read only rank-invariant properties of some operands.
bool reads_properties_only(std::string_view name) {
  return name == ".to" || name == ".type_as" || name == "tp::gather" || name == "tp::exit";
}

/// The operands of which each head or group may serve several heads of the other operands: keys and values, and the
/// inputs and outputs of states.
std::vector<size_t> find_serving_operands(std::string_view name) {
  static constexpr std::string_view attentions[] = {"attention", "scaled_dot_product_attention",
                                                    "attention_with_biases", "attention_with_sinks"};
  if (std::ranges::find(attentions, name) != std::end(attentions)) return {1, 2};
  return name == "state_space_duality" ? std::vector<size_t>{3, 4} : std::vector<size_t>();
}

void collect_counts(const Value& value, std::set<std::string>& counts) {
  counts.insert(value.counts.begin(), value.counts.end());
  for (const Value& element : value.elements) collect_counts(element, counts);
}

/// Whether all tp-local numbers in `value` are products of their own fields and nothing else.
bool are_plain_counts(const Value& value) {
  if (value.kind != Value::Kind::number) return std::ranges::all_of(value.elements, are_plain_counts);
  const Count::Term* product = value.count.product();
  return !value.count.is_share || (product && product->coefficient == 1 &&
                                   std::set(product->fields.begin(), product->fields.end()) == value.counts);
}

/// Sets `counts` of the split values and tp-local numbers in `result` that have none.
void give_counts(Value& result, const std::set<std::string>& counts) {
  if (!is_split(result) && !result.count.is_share)
    result.counts.clear();
  else if (result.counts.empty())
    result.counts = counts;
  for (Value& element : result.elements) give_counts(element, counts);
}

/// Follows counts from the operands `given` to `result`. A count stays shareable as long as heads are computed
/// independently, and its last use is as keys and values, or state inputs and outputs, that several heads share. It
/// does not if the result depends on all heads, if a rank's share of it meets
/// another count, if a dimension holds several elements for each head, or if the number of a head matters.
void follow_counts(Operation& op, const std::vector<Value>& given, Value& result) {
  const std::vector<size_t> serving = find_serving_operands(op.name);
  const bool is_number = result.kind == Value::Kind::number, is_view = resizes(op.name);
  const bool reads_index = op.call == Call::dropout || op.call == Call::alibi_slopes;
  std::set<std::string> counts, sizes;
  // A dimension of several elements per head is not one of heads that serve others.
  const bool multiplies = op.name == ".repeat_interleave" || op.name == ".flatten";
  // tp::local of the member says how many ranks share a group; a variable does not.
  const bool is_unshared = op.name == "gated_rms_norm" && op.operands[3]->kind != Expr::Kind::field;
  bool is_lost =
      op.name == "op %" || reads_index || multiplies || is_unshared || (is_tensor(result) && !is_split(result));
  const size_t read = op.name == ".to" || op.name == ".type_as" ? 1 : given.size();  // the others give only a type
  for (size_t i = 0; i < read; ++i) {
    is_lost |= is_number && given[i].count.is_share && !result.count.is_share;
    if (std::ranges::find(serving, i) != serving.end())
      collect_counts(given[i], op.serving);
    else if (is_view && i > 0)
      collect_counts(given[i], sizes), is_lost |= !are_plain_counts(given[i]);
    else if (given[i].kind != Value::Kind::number || is_number || reads_index || is_unshared)
      collect_counts(given[i], counts);
  }
  is_lost |= !counts.empty() && !sizes.empty() && counts != sizes;
  counts.insert(sizes.begin(), sizes.end());
  give_counts(result, counts);
  if (is_lost) op.separate = std::move(counts);
}

/// Marks the split values in `result` if an operand is split by vocabulary. Rejects calls for which the slices have to
/// have the same size.
void follow_vocabulary(Operation& op, const std::vector<Value>& given, Value& result) {
  const auto is_uneven = [](auto& self, const Value& value) -> bool {
    return value.is_vocabulary ||
           std::ranges::any_of(value.elements, [&](const Value& one) { return self(self, one); });
  };
  const auto mark = [](auto& self, Value& value) -> void {
    value.is_vocabulary = is_split(value);
    for (Value& element : value.elements) self(self, element);
  };
  if (std::ranges::none_of(given, [&](const Value& value) { return is_uneven(is_uneven, value); })) return;
  if (op.call == Call::dropout || op.call == Call::attention || op.call == Call::rms_norm)
    op.reject(
        "unproven: " + quoted(op) + " of a value that is split by vocabulary, of which ranks may hold unequal slices",
        "apply it to the full value, as in tp::gather(logits)");
  mark(mark, result);
}

/// The rule in the reading `op.axis`, if it has one that replaces the rule of the tp axis.
const ReadingRule* find_reading_rule(const Operation& op) {
  std::string key = op.name;
  const bool is_method = op.expr->kind == Expr::Kind::method && op.expr->callee && op.name.starts_with(".");
  if (is_method && op.expr->callee->home != Callee::Home::torch) return nullptr;
  if (op.expr->kind == Expr::Kind::call && op.expr->callee) {
    const std::string& callee = op.expr->callee->name;
    const bool has_scope = op.expr->callee->home != Callee::Home::torch;
    if (has_scope) key = callee;
    if (!has_scope && callee != "at::" + op.name && callee != "torch::" + op.name) return nullptr;
  }
  for (const ReadingRules* rules : {&operation_readings(), &contract_readings()})
    if (const auto found = rules->find(key); found != rules->end()) return &found->second;
  return nullptr;
}

/// Whether `result` no longer shows that the operand `given` is split or partial.
bool loses(const Value& given, const Value& result) {
  return (is_partial(given) && !is_partial(result)) || (is_split(given) && !is_split(result) && !is_partial(result));
}

/// Whether `value` is, or lists, a size of rows that may be 1 instead.
bool holds_size_of_one(const Value& value) {
  return value.kind == Value::Kind::number ? value.may_be_one : std::ranges::any_of(value.elements, holds_size_of_one);
}

/// Whether `op` views a value by its own sizes.
bool views_by_own_size(const Operation& op) {
  const Value& x = op.values[0];
  const bool is_view = (op.name == ".view" || op.name == ".reshape") && is_split(x) && x.rank && x.may_be_one;
  return is_view && std::ranges::all_of(op.values[1].elements, [&](const Value& size) {
           return !size.may_be_one || (size.count.is_known() && size.count.terms == x.sizes[x.type.dim].terms);
         });
}

/// Calls `visit` for the tensors that an operand consists of: itself, or the elements of a list.
template <class Visit>
void for_each_split(std::vector<Value>& values, Visit&& visit) {
  for (Value& value : values) {
    if (is_split(value)) visit(value);
    for_each_split(value.elements, visit);
  }
}

/// Sets what the result of an operation in a reading inherits from its operands.
void inherit(Operation& op, std::vector<Value>& given, Value& result) {
  bool reads_split = false, may_be_one = true;
  std::optional<Count> outer;
  for_each_split(given, [&](const Value& value) {
    reads_split = true, may_be_one &= value.may_be_one;
    if (outer && *outer != value.outer) unproven(op, value);
    outer = value.outer;
  });
  const bool sets_outer = op.name == ".view" || op.name == ".reshape" || op.name == ".flatten";
  const auto visit = [&](auto& self, Value& value) -> void {
    if (is_split(value) || is_partial(value) || value.count.is_share) value.axis = op.axis;
    if (is_split(value) && reads_split) value.may_be_one = may_be_one;
    if (is_split(value) && reads_split && !sets_outer) value.outer = *outer;
    if (is_partial(value) && reads_split && may_be_one)
      op.reject("unproven: " + quoted(op) + " over a dimension that is split over tp or has size 1");
    for (Value& element : value.elements) self(self, element);
    for (auto& [name, member] : value.members) self(self, member);
  };
  visit(visit, result);
}

/// Sets what `result` and its elements say of later keys.
void follow_keys(const Operation& op, const std::vector<Value>& given, Value& result) {
  result.later_keys = find_later_keys(op, given);
  for (Value& element : result.elements) follow_keys(op, given, element);
}

}  // namespace

bool looks_along(const Operation& op) {
  const ReadingRule* rule = find_reading_rule(op);
  return rule && rule->looks_along;
}

std::string_view get_advice(Axis axis) {
  if (axis == Axis::context)
    return "look along the sequence with functions of the contract, which know the positions of other ranks: "
           "attention, "
           "mean_pooling, next_tokens, … (docs/reference/contract.md)";
  return axis == Axis::positions
             ? "look along the sequence with functions of the contract, which know the cache of generation: attention, "
               "causal_conv1d, selective_scan, … (docs/reference/contract.md)"
             : "compute each row by itself; compare rows with dp::gather, and sum losses and counts over rows "
               "(docs/reference/contract.md)";
}

Value apply_in_reading(Operation& op, Rule rule) {
  const ReadingRule* own = find_reading_rule(op);
  const bool is_of_contract = op.expr->callee && op.expr->callee->home == Callee::Home::contract;
  std::vector<Value> given = op.values;
  const auto count = std::ranges::find_if(given, has_share);
  const bool has_unread_count = count != given.end() && !reads_counts(op.name);
  Value result;
  if (std::ranges::any_of(given, holds_size_of_one) && !views_by_own_size(op)) {
    op.reject("unproven: " + quoted(op) + " by the size of a dimension that is split over tp or has size 1");
  } else if (own && !is_of_contract && has_unread_count) {
    result = unproven(op, *count);
  } else if (own) {
    result = own->rule ? own->rule(op) : by_shapes(op, own->shapes);
  } else {
    const auto odd = std::ranges::find_if(given, [](const Value& value) { return !value.is_invariant(); });
    result = rule && !has_unread_count ? rule(op) : unproven(op, *odd);
    const bool replaces = op.call != Call::none && op.call != Call::layer_norm;
    for (const Value& value : given)
      if (op.message.empty() && is_tensor(result) && (replaces || loses(value, result)) &&
          !reads_properties_only(op.name))
        unproven(op, value);
  }
  for (size_t i = 0; own && i < given.size(); ++i) given[i].may_be_one |= may_be_undefined(own->shapes, i);
  if (op.message.empty()) inherit(op, given, result), give_sizes(op, given, result), follow_keys(op, given, result);
  if (op.message.empty()) return result;
  // The advice of the tp axis's rules is about annotations.
  if (!own || op.advice.empty() || op.advice == kUseRules) op.advice = get_advice(op.axis);
  return Value::failure();
}

Value apply_rule(Operation& op, Rule rule) {
  if (!reads_counts(op.name) && std::ranges::any_of(op.values, has_share))
    return op.reject("a tp-local count in " + quoted(op) + ": the result differs from a single process",
                     "compute the number in the constructor, where counts are global");
  const std::vector<Value> given = op.values;
  Value result = rule(op);
  if (op.message.empty()) follow_counts(op, given, result), give_sizes(op, given, result);
  if (op.message.empty()) follow_vocabulary(op, given, result);
  if (!op.message.empty() || op.call != Call::none || !is_tensor(result) || reads_properties_only(op.name))
    return result;
  for (const Value& value : given)
    if (loses(value, result)) return unproven(op, value);
  return result;
}

}  // namespace modgen
