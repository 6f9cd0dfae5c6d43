// The last stage, print: writes the text of a generated file.
#pragma once

#include <string>

#include "generator/model/family_model.h"

namespace modgen {

/// The model's text with its edits applied.
std::string woven_text(const FamilyModel& family);

/// The generated file: the woven text with plans and registrations added, formatted.
std::string print(const FamilyModel& family);

}  // namespace modgen
