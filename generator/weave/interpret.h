// Abstract interpretation of an entry's methods on shard types instead of tensors. It finds where parallel calls have
// to be inserted, and rejects methods that would compute different results on different meshes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/pipeline.h"
#include "generator/weave/shard_types.h"

namespace modgen {

/// A call into the parallel runtime to insert around an expression.
struct Placement {
  Call call = Call::none;
  const Expr* expr = nullptr;
  // For Call::enter on a local variable: its name, its number, and the version of the value that it holds. Empty
  // otherwise.
  std::string variable;
  uint32_t number = 0;  // number of that variable, as in Expr::variable
  uint64_t version = 0;
  const Function* callee = nullptr;  // for Call::on_shards: the called method
};

/// After `statement`, every stage but the last passes on `carried`.
struct PassOn {
  const Stmt* statement = nullptr;
  std::string carried;
};

struct MethodFindings {
  const Class* owner = nullptr;       // null for free functions
  std::vector<Placement> placements;  // in source order
  // If some callers pass values that are split over tp and others pass full values, which need no parallel calls: the
  // placements of a second overload of the method, for the split values.
  std::optional<std::vector<Placement>> on_shards;
  std::vector<PassOn> pass_ons;  // statements with a call in which the model is cut
  std::optional<Traversal> traversal;
  std::optional<Traversal> cut;  // between stacks
  Value carried, crossing;       // the value that the layer loop starts with, and the value that crosses between stacks
};

/// Findings per function of the family.
using Interpretation = std::map<const Function*, MethodFindings>;

/// The calls whose sum over tp is deferred to the reader of the result: results that are added need only one sum.
struct OpenSums {
  std::set<const Expr*> calls;    // only tested for membership
  bool looking = false;           // search pass: every call is assumed open, and `calls` collects those that are added
  std::set<const Expr*> changed;  // calls whose results may be modified by a callee: never left open
};

class FunctionIndex;

/// Interprets the entry `root`, starting at its forward. Adds each finding once.
EntryPlan::Proof interpret_entry(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                                 OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings);

/// Interprets the methods of `root`'s class that have not been reached yet, with arguments that are the same on every
/// rank.
void interpret_unreached(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root,
                         OpenSums& sums, Interpretation& interpretation, std::vector<Finding>& findings);

}  // namespace modgen
