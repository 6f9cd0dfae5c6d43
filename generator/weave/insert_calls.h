// Writes the parallel calls, the pipeline's regions, the units' wrappers and the ties into a family's text.
#pragma once

#include <vector>

#include "generator/model/finding.h"
#include "generator/weave/interpret.h"

namespace modgen {

/// Adds to each function's text what `interpretation` found for it. What cannot be written is added to `findings`.
void insert_calls(FamilyModel& family, const Interpretation& interpretation, std::vector<Finding>& findings);

/// Checks that ties can be made at the end of the constructors of the classes whose members are marked.
void check_ties(const FamilyModel& family, std::vector<Finding>& findings);

}  // namespace modgen
