#include "generator/weave/readings.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "generator/weave/interpreter.h"
#include "generator/weave/weave.h"

namespace modgen {
namespace {

struct Reading {
  Value outputs;
  bool has_split = false;  // whether the entry computes anything from values that are split
};

Reading read(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root, const KnownTask& task,
             Axis axis, std::vector<Finding>& findings) {
  OpenSums sums;
  Interpretation interpretation;
  Interpreter interpreter(family, functions, root, sums, interpretation, findings, axis);
  const Value outputs = interpreter.read_entry(*find_method(*root.type, "forward", 1), batch_value(axis, task));
  return {outputs, interpreter.has_met_split()};
}

const Finding& first_of(const std::vector<Finding>& findings) {
  return *std::ranges::min_element(findings, {}, [](const Finding& finding) { return finding.where.begin; });
}

/// Reads an entry of a cached task by positions. What looks along them is a warning: the entry generates without a
/// cache.
void read_positions(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                    const KnownTask& task, EntryPlan& plan, std::vector<Finding>& findings) {
  std::vector<Finding> found;
  read(family, functions, root, task, Axis::positions, found);
  if (found.empty()) return;
  plan.uncached = true;
  const Finding& first = first_of(found);
  findings.push_back(
      {false, first.where, plan.entry + " generates without a cache: " + first.message, first.advice, first.notes});
}

/// Sets `plan`'s sequence parallelism. Keeps the entry's calls in `text` if its layers can run on shares.
void read_shares(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                 const KnownTask& task, const Interpretation& woven, SequenceText& text, EntryPlan& plan) {
  OpenSums sums;
  Interpretation interpretation;
  std::vector<Finding> findings;
  SequenceReading sequence(woven, plan.ties, text);
  Interpreter interpreter(family, functions, root, sums, interpretation, findings, Axis::sequence);
  interpreter.read_shares(*find_method(*root.type, "forward", 1), batch_value(Axis::sequence, task), sequence);
  if (findings.empty() && !sequence.lists.empty()) {
    plan.sequence = sequence.lists;
    const std::set<std::string> partial = sequence.partial_parameters();
    for (const ParameterLayout& layout : get_layout(family, plan))
      if (partial.contains(layout.name)) plan.partial_in_sequence.push_back(layout.name);
    return;
  }
  sequence.undo({});
  if (findings.empty()) return;
  const Finding& first = findings.front();
  plan.proof.obstacles.push_back(
      {.operation = "sequence parallelism", .assumption = first.message, .where = first.where});
}

/// Reads an entry for context parallelism. Its loss and its count are sums over the ranks' positions, or both are the
/// same on all ranks, as its logits then are. What ranks with some of the positions cannot run is not an error: the
/// plan says why.
void read_context(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                  const KnownTask& task, EntryPlan& plan) {
  std::vector<Finding> found;
  const auto [outputs, has_positions] = read(family, functions, root, task, Axis::context, found);
  const auto is_full = [&](const char* name) {
    const auto member = outputs.members.find(name);
    return member == outputs.members.end() || member->second.is_invariant();
  };
  plan.full_loss = is_full("loss_sum");
  const bool has_full_logits = is_full("logits");
  const SourceSpan where = find_method(*root.type, "forward", 1)->where;
  if (found.empty() && is_full("token_count") != plan.full_loss)
    found.push_back({true, where, "one of its loss and its count of targets is a sum over positions", {}, {}});
  if (found.empty() && has_full_logits != plan.full_loss && outputs.members.at("logits").kind != Value::Kind::nothing)
    found.push_back({true, where, "one of its loss and its logits is the same for all positions", {}, {}});
  if (found.empty() && !has_positions)
    found.push_back({true, where, "it reads no sequence of the batch, whose positions ranks could divide", {}, {}});
  if (found.empty()) return;
  plan.full_loss = false;
  plan.context_error = first_of(found).message;
  plan.proof.obstacles.push_back(
      {.operation = "context parallelism", .assumption = plan.context_error, .where = first_of(found).where});
}

}  // namespace

SequenceText read_shares(const FamilyModel& family, const std::vector<const ModuleNode*>& roots,
                         const Interpretation& woven, std::vector<EntryPlan>& plans) {
  SequenceText text;
  const FunctionIndex functions(family);
  for (size_t i = 0; i < plans.size(); ++i) {
    const KnownTask* task = find_task(family, *roots[i]->type);
    if (task && !plans[i].tensor_splits.empty())
      read_shares(family, functions, *roots[i], *task, woven, text, plans[i]);
  }
  return text;
}

std::vector<Finding> check_readings(FamilyModel& family) {
  std::vector<Finding> findings;
  const FunctionIndex functions(family);
  for (EntryPlan& plan : family.plans) {
    const auto owner = std::ranges::find(family.classes, plan.entry, &Class::holder);
    const KnownTask* task = owner == family.classes.end() ? nullptr : find_task(family, *owner);
    if (!task) continue;
    const std::unique_ptr<ModuleNode> root = build_tree(family, *owner);
    read(family, functions, *root, *task, Axis::rows, findings);
    if (task->is_cached) read_positions(family, functions, *root, *task, plan, findings);
    read_context(family, functions, *root, *task, plan);
  }
  std::ranges::stable_sort(findings, {}, [](const Finding& finding) { return finding.where.begin; });
  return findings;
}

}  // namespace modgen
