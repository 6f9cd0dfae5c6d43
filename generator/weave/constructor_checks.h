// Models are built without storage, so a constructor cannot read what a tensor holds.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Constructors that read a tensor's value.
std::vector<Finding> check_constructors(const FamilyModel& family);

}  // namespace modgen
