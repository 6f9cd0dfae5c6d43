// The fourth stage, weave: the parallel calls where the types ask for them, and the plan that follows.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Places the parallel calls as edits of `family`, checks its shard types and derives the plan of every entry.
std::vector<Finding> weave(FamilyModel& family);

}  // namespace modgen
