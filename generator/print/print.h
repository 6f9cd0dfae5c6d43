// The last stage, print: writes the text of a generated file.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// The model's text with its edits applied.
std::string woven_text(const FamilyModel& family);

/// The generated file: the woven text with plans and registrations added, formatted.
std::string print(const FamilyModel& family);

/// Reports an error at the first position in the text of `family` where `woven`, the text after weaving, differs by
/// anything other than: annotations and the base class of configs, which are removed; lists of config fields; calls of
/// tp:: and pp::, and variables that hold the result of tp::enter; returns from a stage, and values that a stage
/// receives; wrappers of FSDP units; second overloads of methods for split values; and ties at the end of constructors.
void check_woven(const FamilyModel& family, const std::string& woven, std::vector<Finding>& findings);

/// Whether two texts have the same tokens, ignoring comments and line breaks within strings.
bool same_tokens(const std::string& a, const std::string& b);

}  // namespace modgen
