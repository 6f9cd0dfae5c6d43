#include "generator/print/print_plan.h"

#include <algorithm>
#include <map>
#include <optional>

namespace modgen {
namespace {

std::string move_under(const std::string& path, const std::string& name) {
  return path.empty() || name.empty() ? name : path + "." + name;
}

EntryPlan::Split move_under(const std::string& path, EntryPlan::Split split) {
  split.parameter = move_under(path, split.parameter);
  return split;
}

EntryPlan::Tie move_under(const std::string& path, EntryPlan::Tie tie) {
  tie.parameter = move_under(path, tie.parameter);
  tie.source = move_under(path, tie.source);
  return tie;
}

EntryPlan::Divides move_under(const std::string&, EntryPlan::Divides divides) { return divides; }

EntryPlan::Experts move_under(const std::string& path, EntryPlan::Experts experts) {
  experts.parameter = move_under(path, experts.parameter);
  return experts;
}

EntryPlan::Stack move_under(const std::string& path, EntryPlan::Stack stack) {
  stack.split_list = move_under(path, stack.split_list);
  for (auto* names : {&stack.first, &stack.last})
    for (std::string& name : *names) name = move_under(path, name);
  return stack;
}

/// Removes the rows of `base` from the beginning of `rows`. False if `rows` begins with others.
template <class Row>
bool remove_base(const std::vector<Row>& base, const std::string& path, std::vector<Row>& rows) {
  if (base.size() > rows.size()) return false;
  for (size_t i = 0; i < base.size(); ++i)
    if (move_under(path, base[i]) != rows[i]) return false;
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(base.size()));
  return true;
}

/// The same for stacks, of which no more are left than the names that the last one adds.
bool remove_base_stacks(const EntryPlan& base, const std::string& path, std::vector<EntryPlan::Stack>& stacks) {
  if (base.stacks.size() != stacks.size()) return false;
  if (stacks.empty()) return true;
  for (size_t i = 0; i + 1 < stacks.size(); ++i)
    if (move_under(path, base.stacks[i]) != stacks[i]) return false;
  EntryPlan::Stack& last = stacks.back();
  if (move_under(path, base.stacks.back().split_list) != last.split_list) return false;
  last.split_list.clear();
  stacks.erase(stacks.begin(), stacks.end() - 1);
  return remove_base(base.stacks.back().first, path, stacks[0].first) &&
         remove_base(base.stacks.back().last, path, stacks[0].last);
}

/// `plan` as `base` under `path` and further rows; nothing if it does not begin with them.
std::optional<PlanStatement> try_base(const EntryPlan& plan, const EntryPlan& base, const std::string& path) {
  PlanStatement statement{&base, path, plan};
  EntryPlan& rows = statement.rows;
  rows.uncached = plan.uncached && !base.uncached;
  rows.full_loss = plan.full_loss && !base.full_loss;
  if (plan.context_error == base.context_error) rows.context_error.clear();
  const bool begins_with_base =
      (plan.uncached || !base.uncached) && (plan.full_loss || !base.full_loss) &&
      (!plan.context_error.empty() || base.context_error.empty()) && remove_base(base.units, path, rows.units) &&
      remove_base(base.tensor_splits, path, rows.tensor_splits) && remove_base(base.ties, path, rows.ties) &&
      remove_base_stacks(base, path, rows.stacks) && remove_base(base.everywhere, path, rows.everywhere) &&
      remove_base(base.divides, path, rows.divides) && remove_base(base.experts, path, rows.experts) &&
      remove_base(base.rates, path, rows.rates) && remove_base(base.tables, path, rows.tables) &&
      remove_base(base.sequence, path, rows.sequence) &&
      remove_base(base.partial_in_sequence, path, rows.partial_in_sequence);
  if (!begins_with_base) return {};
  return statement;
}

size_t count_rows(const EntryPlan& plan) {
  size_t rows = plan.uncached + plan.full_loss + !plan.context_error.empty() + plan.units.size() +
                plan.tensor_splits.size() + plan.ties.size() + plan.everywhere.size() + plan.divides.size() +
                plan.experts.size() + plan.rates.size() + plan.tables.size() + plan.sequence.size() +
                plan.partial_in_sequence.size();
  for (const EntryPlan::Stack& stack : plan.stacks) rows += stack.first.size() + stack.last.size();
  return rows;
}

/// The statement of `plan` that leaves the fewest rows to add.
PlanStatement find_best(const EntryPlan& plan, const std::vector<const EntryPlan*>& bases) {
  std::vector<std::string> paths = {""};  // the member that is of the base's class has the first component of a name
  for (const std::string& unit : plan.units) paths.push_back(unit.substr(0, unit.find('.')));
  PlanStatement best{nullptr, "", plan};
  for (const EntryPlan* base : bases)
    for (const std::string& path : paths)
      if (auto statement = try_base(plan, *base, path))
        if (count_rows(statement->rows) < count_rows(best.rows)) best = std::move(*statement);
  return best;
}

}  // namespace

std::vector<PlanStatement> state_plans(const FamilyModel& family) {
  std::vector<const EntryPlan*> bases;
  for (const EntryPlan& plan : family.member_plans) bases.push_back(&plan);
  // A member's plan is only worth a table if several entries start with it.
  std::map<const EntryPlan*, int> uses;
  for (const EntryPlan& plan : family.plans) ++uses[find_best(plan, bases).base];
  std::erase_if(bases, [&](const EntryPlan* base) { return uses[base] < 2; });

  std::vector<PlanStatement> statements;
  for (const EntryPlan& plan : family.plans) {
    PlanStatement statement = find_best(plan, bases);
    statements.push_back(statement);
    if (!statement.base) bases.push_back(&plan);
  }
  return statements;
}

}  // namespace modgen
