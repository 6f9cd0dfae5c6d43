// What weaving wrote differs from the flattened text by woven calls and by nothing else: they are taken out again,
// token by token, by rules of their own, and what is left is compared. Nothing of where weaving placed them is used.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Adds an error at the first place in the text of `family` from which `woven`, its text after weaving, differs by
/// anything else than: annotations and the base of configs, which are gone; their lists of fields; calls of tp:: and
/// pp::, and variables that hold what tp::enter returns; returns from a stage, and what a stage receives; wrappers of
/// FSDP units; second forms of methods for values that are split; and ties at the ends of constructors.
void check_woven(const FamilyModel& family, const std::string& woven, std::vector<Finding>& findings);

/// Whether two texts have the same tokens, where comments and the line breaks of a string are not looked at.
bool same_tokens(const std::string& a, const std::string& b);

}  // namespace modgen
