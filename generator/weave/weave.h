// The fourth stage, weave: inserts the parallel calls that the shard types require, and derives the parallel plan.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Inserts the parallel calls as edits of `family`, checks its shard types and derives the plan of every entry.
std::vector<Finding> weave(FamilyModel& family);

}  // namespace modgen
