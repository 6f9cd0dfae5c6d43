#include "tests/generator/proof_fuzz/regardless.h"

#include "generator/weave/insert_calls.h"
#include "generator/weave/interpreter.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/plan.h"
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

Guess current = Guess::none;

}  // namespace

void guess_types(Guess guess) { current = guess; }

bool guesses() { return current != Guess::none; }

Value guessed(Operation& op) {
  op.message.clear(), op.advice.clear();
  op.call = Call::none;
  op.entered.clear();
  const auto differs = [](const Value& value) { return is_split(value) || is_partial(value); };
  const bool gradient = std::ranges::any_of(op.values, [](const Value& value) { return value.carries_gradient(); });
  const auto split = std::ranges::find_if(op.values, differs);
  if (split == op.values.end()) return Value::tensor(kInvariant, gradient, std::nullopt);
  for (size_t i = 0; i < op.values.size(); ++i)
    if (op.values[i].kind == Value::Kind::tensor) op.enter(i);
  Value result = Value::tensor(split->type, gradient, split->rank);
  if (current == Guess::partial) result.type = kPartial;
  if (result.type == kPartial) result.summands = {op.expr};
  return result;
}

void weave_regardless(FamilyModel& family) {
  std::vector<Finding> findings;
  const FunctionIndex functions(family);
  Interpretation interpretation;
  OpenSums sums;
  for (const bool is_entry : {true, false})
    for (const Class& owner : family.classes) {
      if (owner.holder.empty() || (is_entry && !find_annotation(owner.annotations, AnnotationKind::entry))) continue;
      const std::unique_ptr<ModuleNode> root = build_tree(family, owner);
      if (!is_entry) {
        interpret_unreached(family, functions, *root, sums, interpretation, findings);
        continue;
      }
      EntryPlan::Proof proof = interpret_entry(family, functions, *root, sums, interpretation, findings);
      family.plans.push_back(derive_plan(family, *root, findings));
      family.plans.back().proof = std::move(proof);
    }
  insert_calls(family, interpretation, {}, findings);
}

}  // namespace modgen
