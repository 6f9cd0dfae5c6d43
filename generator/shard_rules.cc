#include "generator/rules/rules.h"

namespace modgen {

Rule find_rule(std::string_view name) {
  for (const RuleTable* table : {&arithmetic_rules(), &shape_rules(), &cutting_rules(), &product_rules(),
                                 &layer_rules(), &function_rules(), &state_space_rules()})
    if (const auto found = table->find(name); found != table->end()) return found->second;
  // The prelude's functions that make masks: [batch or 1, 1, seq or 1, seq].
  if (name.ends_with("_mask") && !name.starts_with(".")) return function_rules().at("causal_mask");
  return nullptr;
}

}  // namespace modgen
