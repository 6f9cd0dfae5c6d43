// Changes to the specs of the catalogue that a plan must survive or be rejected for: annotations taken away, exchanged
// and moved, views, norms and sums in the wrong place, regions of stages that reach into each other. What is to become
// of each is said by the operator that makes it and by what it changes, not by what modgen does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/flattened.h"
#include "generator/model/family_model.h"
#include "tests/generator/text_changes.h"

namespace modgen {

enum class Verdict {
  rejected,  // computes something else, or nothing, on some mesh
  accepted,  // computes on every mesh what it computes on one process
};

struct Mutant {
  std::string name;  // "LlamaMLPImpl::up_proj: TP_COLWISE removed"
  Verdict verdict;
  std::vector<Change> changes;                  // to the family's flattened text
  std::string owner, method;                    // that they lie in; empty where annotations change
  std::function<void(FamilyModel&)> edit = {};  // the same change to annotations, of the family as read
};

/// Every mutant of a family: `model` is `spec` as read, not woven.
std::vector<Mutant> make_mutants(const FlattenedSpec& spec, const FamilyModel& model);

/// The families that the mutants are, as read: all of them in one parse.
std::vector<FamilyModel> mutated(const GenerateOptions& options, const FlattenedSpec& spec, const FamilyModel& model,
                                 const std::vector<Mutant>& mutants);

}  // namespace modgen
