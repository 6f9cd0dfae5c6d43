// Writes the parallel calls, the pipeline regions, the unit wrappers and the parameter ties into a family's text.
#pragma once

#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/weave/interpret.h"
#include "generator/weave/sequence.h"

namespace modgen {

/// Edits each function's text as `interpretation` and `sequence` require. Edits that cannot be written are reported in
/// `findings`.
void insert_calls(FamilyModel& family, const Interpretation& interpretation, const SequenceText& sequence,
                  std::vector<Finding>& findings);

/// Checks that constructors of classes with TIED_TO or TIES members can tie the parameters at their end.
void check_ties(const FamilyModel& family, std::vector<Finding>& findings);

}  // namespace modgen
