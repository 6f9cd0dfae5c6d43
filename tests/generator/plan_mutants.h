// Mutations of the catalogue's specs that a plan must survive or be rejected for: annotations removed, replaced and
// moved; views, norms and sums in the wrong position; regions of stages that reach into each other. The expected
// verdict of each follows from the operator and its operand, not from modgen's behavior.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/generate.h"
#include "generator/model/family_model.h"
#include "tests/generator/text_changes.h"

namespace modgen {

enum class Verdict {
  rejected,  // computes something else, or nothing, on some mesh
  accepted,  // computes the same on every mesh as on one process
};

struct Mutant {
  std::string name;  // "LlamaMLPImpl::up_proj: TP_COLWISE removed"
  Verdict verdict;
  std::vector<Change> changes;                  // changes to the family's flattened text
  std::string owner, method;                    // where they are; empty for changes of annotations
  std::function<void(FamilyModel&)> edit = {};  // the same change of annotations, applied to the parsed family
};

/// Every mutant of a family. `model` is the parsed `spec`, not woven.
std::vector<Mutant> make_mutants(const FlattenedSpec& spec, const FamilyModel& model);

/// The parsed families of the mutants, all from one parse.
std::vector<FamilyModel> mutated(const GenerateOptions& options, const FlattenedSpec& spec, const FamilyModel& model,
                                 const std::vector<Mutant>& mutants);

}  // namespace modgen
