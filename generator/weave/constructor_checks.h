// Checks on constructors. Models are built without storage, so a constructor cannot read tensor values.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Reports constructors that read a tensor's value, replace a submodule's parameter or register a module twice.
std::vector<Finding> check_constructors(const FamilyModel& family);

}  // namespace modgen
