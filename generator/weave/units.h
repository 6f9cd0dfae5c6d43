// The forwards of FSDP units, which the runtime runs through a wrapper of the same name.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Checks that each FSDP_UNIT class has one forward, and that the runtime can run it.
void check_units(const FamilyModel& family, std::vector<Finding>& findings);

/// The method that hands `forward_unit`, the forward's own body, to the runtime.
std::string unit_wrapper(const FamilyModel& family, const Class& owner, const Function& forward);

}  // namespace modgen
