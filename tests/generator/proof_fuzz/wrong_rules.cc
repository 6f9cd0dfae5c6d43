#include "tests/generator/proof_fuzz/wrong_rules.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "generator/weave/rules/rules.h"
#include "tests/generator/proof_fuzz/regardless.h"

namespace modgen {

// The functions of generator/weave/shard_rules.cc, which is compiled under these names for this program.
Rule find_true_rule(std::string_view name);
Rule find_true_rule(const Callee& callee, std::string& name);
Value apply_true_rule(Operation& op, Rule rule);

namespace {

/// Applies the real rule for the operation, on which wrong rules are based.
Value real_result(Operation& op) { return apply_true_rule(op, find_true_rule(op.name)); }

/// Forgets to enter operands: their gradients miss the other ranks' contributions.
Value without_entering(Operation& op) {
  Value result = real_result(op);
  op.entered.clear();
  return result;
}

/// Treats a reduction over the split dimension as full, instead of rejecting it or returning a partial sum.
Value full_reduction(Operation& op) {
  Value result = real_result(op);
  if (!op.message.empty() || is_partial(result)) {
    op.message.clear();
    result = Value::tensor(kInvariant, op.values[0].gradient, std::nullopt);
  }
  return result;
}

/// Does not move the split with its dimension.
Value unmoved(Operation& op) {
  Value result = real_result(op);
  if (is_split(op.values[0]) && result.rank == op.values[0].rank) result.type = op.values[0].type;
  return result;
}

/// Allows full values to be combined with split ones.
Value any_combination(Operation& op) {
  Value result = real_result(op);
  if (op.message.empty()) return result;
  for (const Value& value : op.values)
    if (is_split(value)) {
      op.message.clear();
      return value;
    }
  return result;
}

/// Treats the split dimension like any other.
Value along_any(Operation& op) {
  Value result = real_result(op);
  if (!op.message.empty() && is_split(op.values[0])) {
    op.message.clear();
    return op.values[0];
  }
  return result;
}

/// Treats a dimension that is kept as dropped.
Value dropping(Operation& op) {
  Value result = real_result(op);
  if (is_split(op.values[0]) && is_split(result) && op.values.size() > 2 && result.type.dim > 0) --result.type.dim;
  return result;
}

struct Planted {
  WrongRule described;
  std::vector<std::string_view> operations;
  Rule rule;
};

const std::vector<Planted>& planted_rules() {
  static const std::vector<Planted> rules = {
      {{"not-entered", "a column-wise layer does not enter its input"}, {"tp_colwise"}, without_entering},
      {{"norm-not-entered", "a norm over heads does not enter its weight"},
       {"rms_norm", "layer_norm"},
       without_entering},
      {{"softmax-of-slices", "a softmax over the split dimension"}, {".softmax", "softmax", ".log_softmax"}, along_any},
      {{"unmoved-split", "transposing leaves the split where it was"}, {".transpose"}, unmoved},
      {{"full-meets-split", "a full value is added to a split one"}, {"op +", "op *"}, any_combination},
      {{"cut-slices", "a split dimension is cut as if it were full"},
       {".chunk", ".split", ".narrow"},
       along_any},
      {{"mean-of-slices", "a mean over the split dimension is computed per slice"}, {".mean"}, full_reduction},
      {{"kept-dimension-dropped", "a reduction that keeps its dimension moves the split"},
       {".sum", ".mean", ".amax"},
       dropping},
  };
  return rules;
}

const Planted* planted = nullptr;

}  // namespace

const std::vector<WrongRule>& wrong_rules() {
  static const std::vector<WrongRule> described = [] {
    std::vector<WrongRule> all;
    for (const Planted& rule : planted_rules()) all.push_back(rule.described);
    return all;
  }();
  return described;
}

void plant(std::string_view name) {
  for (const Planted& rule : planted_rules())
    if (rule.described.name == name) {
      planted = &rule;
      return;
    }
  throw std::runtime_error("unknown wrong rule: " + std::string(name));
}

Rule find_rule(std::string_view name) {
  if (planted && std::ranges::find(planted->operations, name) != planted->operations.end()) return planted->rule;
  return find_true_rule(name);
}

Rule find_rule(const Callee& callee, std::string& name) {
  return find_true_rule(callee, name) ? find_rule(name) : nullptr;
}

Value apply_rule(Operation& op, Rule rule) {
  // Results of a planted rule are not checked by the invariants of all rules.
  if (planted && rule == planted->rule) return rule(op);
  const Value result = apply_true_rule(op, rule);
  return !op.message.empty() && guesses() ? guessed(op) : result;
}

}  // namespace modgen
