// Wraps the forward methods of FSDP units, so that the runtime runs them.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// Checks that each FSDP_UNIT class has exactly one forward, and that the runtime can run it.
void check_units(const FamilyModel& family, std::vector<Finding>& findings);

/// The source of the `forward` that passes `forward_unit`, which has the original body, to the runtime.
std::string unit_wrapper(const FamilyModel& family, const Class& owner, const Function& forward);

}  // namespace modgen
