// The last stage, print: the text of a generated file.
#pragma once

#include <string>

#include "generator/model/family_model.h"

namespace modgen {

/// The woven text: the model's edits applied, plans and registrations added, formatted.
std::string print(const FamilyModel& family);

}  // namespace modgen
