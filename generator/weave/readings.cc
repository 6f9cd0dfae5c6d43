#include "generator/weave/readings.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "generator/weave/interpreter.h"
#include "generator/weave/weave.h"

namespace modgen {
namespace {

void read(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root, const KnownTask& task,
          Axis axis, std::vector<Finding>& findings) {
  OpenSums sums;
  Interpretation interpretation;
  Interpreter interpreter(family, functions, root, sums, interpretation, findings, axis);
  interpreter.read_entry(*find_method(*root.type, "forward", 1), batch_value(axis, task));
}

/// Reads an entry of a cached task by positions. What looks along them is a warning: the entry generates without a
/// cache.
void read_positions(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                    const KnownTask& task, EntryPlan& plan, std::vector<Finding>& findings) {
  std::vector<Finding> found;
  read(family, functions, root, task, Axis::positions, found);
  if (found.empty()) return;
  plan.uncached = true;
  const Finding& first =
      *std::ranges::min_element(found, {}, [](const Finding& finding) { return finding.where.begin; });
  findings.push_back(
      {false, first.where, plan.entry + " generates without a cache: " + first.message, first.advice, first.notes});
}

/// Sets `plan`'s sequence parallelism. Keeps the entry's calls in `text` if its layers can run on shares.
void read_shares(const FamilyModel& family, const FunctionIndex& functions, const Class& owner, const KnownTask& task,
                 const Interpretation& woven, SequenceText& text, EntryPlan& plan) {
  OpenSums sums;
  Interpretation interpretation;
  std::vector<Finding> findings;
  SequenceReading sequence(woven, text);
  const std::unique_ptr<ModuleNode> root = build_tree(family, owner);
  Interpreter interpreter(family, functions, *root, sums, interpretation, findings, Axis::sequence);
  interpreter.read_shares(*find_method(owner, "forward", 1), batch_value(Axis::sequence, task), sequence);
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
  plan.proof.not_in_sequence = {.operation = "sequence", .assumption = first.message, .where = first.where};
}

}  // namespace

SequenceText read_shares(const FamilyModel& family, const Interpretation& woven, std::vector<EntryPlan>& plans) {
  SequenceText text;
  const FunctionIndex functions(family);
  for (EntryPlan& plan : plans) {
    const auto owner = std::ranges::find(family.classes, plan.entry, &Class::holder);
    const KnownTask* task = owner == family.classes.end() ? nullptr : find_task(family, *owner);
    if (task && !plan.tensor_splits.empty()) read_shares(family, functions, *owner, *task, woven, text, plan);
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
  }
  std::ranges::stable_sort(findings, {}, [](const Finding& finding) { return finding.where.begin; });
  return findings;
}

}  // namespace modgen
