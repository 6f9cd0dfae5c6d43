// Runs an entry's methods on shard types instead of tensors: finds where the parallel calls have to be placed, and
// rejects what is not the same computation on every mesh.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/model/finding.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/pipeline.h"
#include "generator/weave/shard_types.h"

namespace modgen {

/// A call into the parallel runtime that belongs around an expression.
struct Placement {
  Call call = Call::none;
  const Expr* expr = nullptr;
  // Of Call::enter on a local variable: its name, its number, and one that differs where it holds another value. Empty
  // otherwise.
  std::string variable;
  uint32_t number = 0;  // of that variable, as in Expr::variable
  uint64_t version = 0;
  const Function* callee = nullptr;  // of Call::on_shards: the method whose calls stand there
};

/// After `statement`, a stage that is not the last hands on `carried`.
struct PassOn {
  const Stmt* statement = nullptr;
  std::string carried;
};

struct MethodFindings {
  const Class* owner = nullptr;       // null for free functions
  std::vector<Placement> placements;  // in source order
  // Where some calls give it values that are split over tp and others give it whole ones, which need no parallel calls:
  // the placements of a second form of the method, for the former.
  std::optional<std::vector<Placement>> on_shards;
  std::vector<PassOn> pass_ons;  // where the model is cut in a call inside
  std::optional<Traversal> walk;
  std::optional<Traversal> cut;  // between towers
  Value carried, crossing;       // what the walk begins with, and what crosses between towers
};

/// What was found, by function of the family.
using Interpretation = std::map<const Function*, MethodFindings>;

/// The calls that leave their sum over tp to what reads it: those whose results are added, where one sum serves all.
struct OpenSums {
  std::set<const Expr*> calls;    // only asked for membership
  bool looking = false;           // every call is taken for one, and those whose results are added are put into `calls`
  std::set<const Expr*> changed;  // whose results a call may change, which asks for the variable itself: not left open
};

class FunctionIndex;

/// Interprets the entry `root` from its forward on. Findings are added once each.
EntryPlan::Proof interpret_entry(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                                 OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings);

/// Interprets the methods of `root`'s class that nothing before has reached, with arguments that are the same on every
/// rank.
void interpret_unreached(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                         OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings);

}  // namespace modgen
