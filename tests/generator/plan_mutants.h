// Mutants of the catalogue's specs, which modgen must either accept or reject: removed, replaced and moved annotations,
// misplaced views, norms and sums, and stage regions that overlap. The expected verdict follows from the mutation operator
// and the code that it changes, not from modgen's behavior.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/flattened.h"
#include "generator/model/family_model.h"
#include "tests/generator/text_changes.h"

namespace modgen {

enum class Verdict {
  rejected,  // computes a different result, or none, on some mesh
  accepted,  // computes the same on every mesh as on a single process
};

struct Mutant {
  std::string name;  // "LlamaMLPImpl::up_proj: TP_COLWISE removed"
  Verdict verdict;
  std::vector<Change> changes;                  // changes to the family's flattened text
  std::string owner, method;                    // the changed method and its class; empty if annotations change
  std::function<void(FamilyModel&)> edit = {};  // the same change of annotations, applied to the parsed family
};

/// Returns all mutants of a family. `model` is the parsed `spec`, before weaving.
std::vector<Mutant> make_mutants(const FlattenedSpec& spec, const FamilyModel& model);

/// Returns the parsed family of each mutant, using a single parse for all of them.
std::vector<FamilyModel> mutated(const GenerateOptions& options, const FlattenedSpec& spec, const FamilyModel& model,
                                 const std::vector<Mutant>& mutants);

}  // namespace modgen
