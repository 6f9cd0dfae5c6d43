#include <algorithm>
#include <array>

#include "generator/weave/rules/rules.h"

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
      "tp::local",
      "gated_rms_norm",
      "state_space_duality",
      "alibi_slopes",
  };
  return name.starts_with("op ") || std::ranges::find(names, name) != std::end(names);
}

bool holds_local_count(const Value& value) {
  return value.kind == Value::Kind::number ? value.local : std::ranges::any_of(value.elements, holds_local_count);
}

/// Operations that read only rank-invariant properties of some operands.
bool reads_properties_only(std::string_view name) {
  return name == ".to" || name == ".type_as" || name == "tp::gather" || name == "tp::exit";
}

}  // namespace

Value apply_rule(Operation& op, Rule rule) {
  if (!reads_counts(op.name) && std::ranges::any_of(op.values, holds_local_count))
    return op.reject("a tp-local count in " + quoted(op) + ": the result differs from a single process",
                     "compute the number in the constructor, where counts are global");
  const std::vector<Value> given = op.values;
  Value result = rule(op);
  if (!op.message.empty() || op.call != Call::none || !is_tensor(result) || reads_properties_only(op.name))
    return result;
  for (const Value& value : given) {
    const bool lost =
        (is_partial(value) && !is_partial(result)) || (is_split(value) && !is_split(result) && !is_partial(result));
    if (lost) return unproven(op, value);
  }
  return result;
}

}  // namespace modgen
