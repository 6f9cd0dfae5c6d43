#include "tests/generator/proof_fuzz/wrong_rules.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "generator/weave/rules/rules.h"
#include "tests/generator/proof_fuzz/regardless.h"

namespace modgen {

// Those of generator/weave/shard_rules.cc, which is compiled for this program under these names.
Rule find_true_rule(std::string_view name);
Rule find_true_rule(const Callee& callee, std::string& name);
Value apply_true_rule(Operation& op, Rule rule);

namespace {

/// The true rule for the operation, for wrong ones to continue with.
Value truly(Operation& op) { return apply_true_rule(op, find_true_rule(op.name)); }

/// Forgets which operands have to be entered: their gradients are short of the other ranks'.
Value without_entering(Operation& op) {
  Value result = truly(op);
  op.entered.clear();
  return result;
}

/// A reduction over the split dimension counts as whole rather than be rejected or a partial sum.
Value whole_reduction(Operation& op) {
  Value result = truly(op);
  if (!op.message.empty() || is_partial(result)) {
    op.message.clear();
    result = Value::tensor(kInvariant, op.values[0].gradient, std::nullopt);
  }
  return result;
}

/// The split does not move with its dimension.
Value unmoved(Operation& op) {
  Value result = truly(op);
  if (is_split(op.values[0]) && result.rank == op.values[0].rank) result.type = op.values[0].type;
  return result;
}

/// Whole values meet split ones.
Value any_meeting(Operation& op) {
  Value result = truly(op);
  if (op.message.empty()) return result;
  for (const Value& value : op.values)
    if (is_split(value)) {
      op.message.clear();
      return value;
    }
  return result;
}

/// Along the split dimension as along others.
Value along_any(Operation& op) {
  Value result = truly(op);
  if (!op.message.empty() && is_split(op.values[0])) {
    op.message.clear();
    return op.values[0];
  }
  return result;
}

/// A dimension that is kept is taken for one that is dropped.
Value dropping(Operation& op) {
  Value result = truly(op);
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
      {{"not-entered", "a column-wise layer does not enter what it reads"}, {"tp_colwise"}, without_entering},
      {{"norm-not-entered", "a norm over heads does not enter its weight"},
       {"rms_norm", "layer_norm"},
       without_entering},
      {{"softmax-of-slices", "a softmax over the split dimension"}, {".softmax", "softmax", ".log_softmax"}, along_any},
      {{"unmoved-split", "transposing leaves the split where it was"}, {".transpose"}, unmoved},
      {{"whole-meets-split", "a full value is added to a split one"}, {"op +", "op *"}, any_meeting},
      {{"cut-slices", "a split dimension is taken apart as if it were whole"},
       {".chunk", ".split", ".narrow"},
       along_any},
      {{"mean-of-slices", "a mean over the split dimension is that of each slice"}, {".mean"}, whole_reduction},
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
    for (const Planted& one : planted_rules()) all.push_back(one.described);
    return all;
  }();
  return described;
}

void plant(std::string_view name) {
  for (const Planted& one : planted_rules())
    if (one.described.name == name) {
      planted = &one;
      return;
    }
  throw std::runtime_error("there is no wrong rule " + std::string(name));
}

Rule find_rule(std::string_view name) {
  if (planted && std::ranges::find(planted->operations, name) != planted->operations.end()) return planted->rule;
  return find_true_rule(name);
}

Rule find_rule(const Callee& callee, std::string& name) {
  return find_true_rule(callee, name) ? find_rule(name) : nullptr;
}

Value apply_rule(Operation& op, Rule rule) {
  // What a planted rule says is not looked at again.
  if (planted && rule == planted->rule) return rule(op);
  const Value result = apply_true_rule(op, rule);
  return !op.message.empty() && guesses() ? guessed(op) : result;
}

}  // namespace modgen
