#include "generator/weave/weave.h"

#include <algorithm>
#include <set>

#include "generator/weave/config_ranges.h"
#include "generator/weave/insert_calls.h"
#include "generator/weave/interpreter.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/partition.h"
#include "generator/weave/plan.h"
#include "generator/weave/readings.h"
#include "generator/weave/units.h"

namespace modgen {
namespace {

void check_traversals(const ModuleNode& root, const Interpretation& interpretation, std::vector<Finding>& findings) {
  const Stacks stacks = find_stacks(root);
  for_each_node(root, [&](const ModuleNode& node) {
    if (!is_split_list(node, stacks)) return;
    for (const auto& [function, found] : interpretation)
      if (found.traversal && found.traversal->list == node.field) return;
    findings.push_back({true,
                        node.field->where,
                        "no forward loops over the PP_SPLIT list " + node.field->name + " in order",
                        "loop over it: for (auto& element : *" + node.field->name + ")",
                        {}});
  });
}

/// Whether `size` reads a size of the registered tensor `name` of `layer` along a dimension that is split over tp.
bool reads_split_size(const ModuleNode& layer, std::string_view name, const Expr& size) {
  const std::optional<int64_t> split = find_partition(layer, name).dim;
  if (!split || size.name != "size" || size.operands.size() != 2) return split.has_value();
  const Expr& written = size.operands[1];
  const bool is_negative = written.kind == Expr::Kind::op && written.name == "-" && written.operands.size() == 1;
  const auto dim = read_literal(is_negative ? written.operands[0].name : written.name).literal();
  if (!dim || !is_negative) return dim.value_or(*split) == *split;
  const Expr* made = layer.kind == ModuleNode::Kind::parameter ? layer.construction : nullptr;
  const bool is_listed = made && !made->operands.empty() && made->operands[0].kind == Expr::Kind::list;
  const int64_t rank = is_listed ? static_cast<int64_t>(made->operands[0].operands.size()) : name == "weight" ? 2 : 1;
  return rank - *dim == *split;
}

/// Reports sizes that reset_parameters() reads where a rank's own tensors have other ones, or may have.
class InitializationCheck {
 public:
  InitializationCheck(const FunctionIndex& functions, std::vector<Finding>& findings)
      : functions_(functions), findings_(findings) {}

  void check(const ModuleNode& root) {
    is_split_ = false;
    for_each_node(root, [&](const ModuleNode& node) {
      is_split_ |= node.field && split_annotation(node.field->annotations) != nullptr;
    });
    for (const Function& function : root.type->functions)
      if (function.name == "reset_parameters") check(function, root);
  }

 private:
  /// Checks a function that runs in a method of `self`.
  void check(const Function& function, const ModuleNode& self) {
    if (checked_.emplace(&function, &self).second) check(function.body, self);
  }

  void check(const Body& body, const ModuleNode& self) {
    std::set<const Expr*> on_full;  // lambdas that get the full tensor
    for_each_expr(body, [&](const Expr& expr) {
      if (expr.kind == Expr::Kind::call && expr.name == "modular::init::fill")
        for (const Expr& operand : expr.operands) on_full.insert(&operand);
      if (expr.body && !on_full.contains(&expr)) check(*expr.body, self);
      check_size(expr, self);
      const Function* called = expr.callee ? functions_.find(*expr.callee) : nullptr;
      if (!called) return;
      const bool is_method = expr.kind == Expr::Kind::method && expr.operands[0].kind != Expr::Kind::self;
      const ModuleNode* object = is_method ? find_named_module(self, expr.operands[0]) : &self;
      if (object && (object == &self || object->type)) check(*called, *object);
    });
  }

  void check_size(const Expr& expr, const ModuleNode& self) {
    static const std::set<std::string_view> readers = {"size", "sizes", "numel", "stride", "strides"};
    const bool reads = (expr.kind == Expr::Kind::method || expr.kind == Expr::Kind::call) && !expr.operands.empty() &&
                       expr.operands[0].type == "at::Tensor" && readers.contains(unqualified(expr.name));
    const bool is_known = std::ranges::count(findings_, expr.span, &Finding::where) > 0;  // for another class
    if (!reads || !is_split_ || is_known) return;
    const Expr& tensor = expr.operands[0];
    const bool of_layer = tensor.kind == Expr::Kind::field && !tensor.operands.empty() &&
                          (tensor.name == "weight" || tensor.name == "bias");
    const ModuleNode* node = find_named_module(self, of_layer ? tensor.operands[0] : tensor);
    if (node && (!node->field || !reads_split_size(*node, of_layer ? tensor.name : "", expr))) return;
    findings_.push_back({true,
                         expr.span,
                         node ? "reset_parameters() reads a size that is split over tp: a rank's tensors are smaller"
                              : "reset_parameters() reads a size of a tensor by another name: it may be split over tp, "
                                "and a rank's tensors are smaller",
                         node ? "compute the number from the config, or in init::fill, which writes the full tensor"
                              : "name the parameter here, as in up->weight.size(1), or compute the number from the "
                                "config",
                         {}});
  }

  const FunctionIndex& functions_;
  std::vector<Finding>& findings_;
  bool is_split_ = false;
  std::set<std::pair<const Function*, const ModuleNode*>> checked_;
};

EntryPlan::StageCut stage_cut(const std::string& list, const std::string& carried, const Value& value) {
  EntryPlan::StageCut cut{list, carried, {}};
  if (!value.rank) return cut;
  cut.shape.assign(static_cast<size_t>(*value.rank), "?");
  if (*value.rank > 1) cut.shape[0] = "batch";
  if (*value.rank == 3) cut.shape[1] = "seq";
  if (!value.last_size.empty()) cut.shape.back() = value.last_size;
  return cut;
}

/// The values that the loops over `root`'s split lists carry from stage to stage, and the value that crosses between
/// its stacks.
std::vector<EntryPlan::StageCut> stage_cuts(const ModuleNode& root, const Interpretation& interpretation) {
  std::vector<EntryPlan::StageCut> cuts, between;
  const Stacks stacks = find_stacks(root);
  for_each_node(root, [&](const ModuleNode& node) {
    if (is_split_list(node, stacks))
      for (const ModuleNode* at = &node; at; at = at->parent)
        for (const auto& [function, found] : interpretation)
          if (found.owner == at->type && at->type && found.traversal && found.traversal->list == node.field)
            cuts.push_back(stage_cut(node.path, found.traversal->carried, found.carried));
    if (node.field && between.empty())
      for (const auto& [function, found] : interpretation)
        if (found.cut && found.cut->stack == node.field)
          between.push_back(stage_cut("", found.cut->carried, found.crossing));
  });
  cuts.insert(cuts.end(), between.begin(), between.end());
  return cuts;
}

struct Tree {
  std::unique_ptr<ModuleNode> root;
  bool is_entry;
};

/// The module trees of the entries, followed by those of all module classes.
std::vector<Tree> module_trees(const FamilyModel& family) {
  std::vector<Tree> trees;
  for (const bool is_entry : {true, false})
    for (const Class& owner : family.classes)
      if (!owner.holder.empty() && (!is_entry || find_annotation(owner.annotations, AnnotationKind::entry)))
        trees.push_back({build_tree(family, owner), is_entry});
  return trees;
}

/// Marks the counts of `plan` of which ranks can hold the same heads or groups.
void share(EntryPlan& plan, const std::set<std::string>& counts) {
  for (EntryPlan::Divides& rule : plan.divides)
    if (rule.otherwise.empty() && counts.contains(rule.field)) rule.otherwise = "shared";
}

/// Sets the rows for sequence parallelism that all entries which hold `owner` as a member have for it.
void derive_sequence(const FamilyModel& family, const std::vector<Tree>& trees, const Class& owner, EntryPlan& plan) {
  std::optional<EntryPlan> common;
  const auto under = [](const std::vector<std::string>& names, const std::string& path) {
    std::vector<std::string> found;
    for (const std::string& name : names)
      if (name.starts_with(path + ".")) found.push_back(name.substr(path.size() + 1));
    return found;
  };
  const auto keep = [](std::vector<std::string>& names, const std::vector<std::string>& others) {
    std::erase_if(names, [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); });
  };
  for (const Tree& tree : trees) {
    if (!tree.is_entry) continue;
    const auto entry = std::ranges::find(family.plans, tree.root->type->holder, &EntryPlan::entry);
    for (const auto& child : tree.root->children) {
      if (child->type != &owner || entry == family.plans.end() || entry->sequence.empty()) continue;
      EntryPlan rows;
      rows.sequence = under(entry->sequence, child->path);
      rows.partial_in_sequence = under(entry->partial_in_sequence, child->path);
      if (!common) common = rows;
      keep(common->sequence, rows.sequence);
      keep(common->partial_in_sequence, rows.partial_in_sequence);
    }
  }
  if (!common) return;
  plan.sequence = common->sequence;
  plan.partial_in_sequence = common->partial_in_sequence;
}

/// The plans of the family's classes that entries hold as members. Entries state most of their rows through them.
std::vector<EntryPlan> derive_member_plans(const FamilyModel& family, const std::vector<Tree>& trees) {
  std::set<const Class*> held;
  for (const Tree& tree : trees)
    if (tree.is_entry)
      for (const auto& child : tree.root->children)
        if (child->type && !find_annotation(child->type->annotations, AnnotationKind::entry)) held.insert(child->type);
  std::vector<EntryPlan> plans;
  std::vector<Finding> reported;  // for the entries already
  for (const Tree& tree : trees)
    if (held.contains(tree.root->type)) {
      plans.push_back(derive_plan(family, *tree.root, reported));
      derive_sequence(family, trees, *tree.root->type, plans.back());
      for (const EntryPlan& entry : family.plans) share(plans.back(), entry.proof.shared_counts);
    }
  return plans;
}

/// The result of interpreting all methods on shard types.
struct Run {
  Interpretation interpretation;
  std::vector<EntryPlan::Proof> proofs;  // one per entry
  std::vector<Finding> findings;
};

Run run_methods(const FamilyModel& family, const FunctionIndex& functions, const std::vector<Tree>& trees,
                OpenSums& sums) {
  Run run;
  for (const Tree& tree : trees) {
    // While searching for open sums, only the first entry is run: entries share most of their classes.
    if (tree.is_entry && (!sums.looking || &tree == &trees.front()))
      run.proofs.push_back(interpret_entry(family, functions, *tree.root, sums, run.interpretation, run.findings));
    else
      interpret_unreached(family, functions, *tree.root, sums, run.interpretation, run.findings);
  }
  return run;
}

}  // namespace

std::vector<Finding> weave(FamilyModel& family) {
  std::vector<Finding> findings;
  check_annotations(family, findings);
  check_units(family, findings);

  const FunctionIndex functions(family);
  const std::vector<Tree> trees = module_trees(family);
  InitializationCheck initialization(functions, findings);
  for (const Tree& tree : trees)
    if (!tree.is_entry) initialization.check(*tree.root);
  OpenSums sums;
  Run run;
  for (size_t known = 1; sums.changed.size() != known;) {
    known = sums.changed.size();
    sums.calls.clear();
    sums.looking = true;
    run_methods(family, functions, trees, sums);
    sums.looking = false;
    run = run_methods(family, functions, trees, sums);
  }
  if (!run.findings.empty() && !sums.calls.empty()) run = run_methods(family, functions, trees, sums = {});
  std::vector<EntryPlan> plans;
  for (const Tree& tree : trees) {
    if (!tree.is_entry) continue;
    EntryPlan& plan = plans.emplace_back(derive_plan(family, *tree.root, findings));
    plan.proof = std::move(run.proofs[plans.size() - 1]);
    share(plan, plan.proof.shared_counts);
    plan.cuts = stage_cuts(*tree.root, run.interpretation);
    if (findings.empty() && run.findings.empty()) check_traversals(*tree.root, run.interpretation, findings);
  }
  std::vector<const ModuleNode*> entries;
  for (const Tree& tree : trees)
    if (tree.is_entry) entries.push_back(tree.root.get());
  derive_ranges(family, entries, findings);
  if (findings.empty()) check_ties(family, findings);
  findings.insert(findings.end(), run.findings.begin(), run.findings.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.where.begin < b.where.begin; });
  const bool failed =
      std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.is_error; });
  if (failed) return findings;
  const SequenceText sequence = read_shares(family, entries, run.interpretation, plans);
  family.plans = std::move(plans);
  family.member_plans = derive_member_plans(family, trees);
  insert_calls(family, run.interpretation, sequence, findings);
  add_field_visitors(family);
  return findings;
}

}  // namespace modgen
