// Checks that woven text differs from the flattened text only by woven calls. The calls are removed again token by
// token, by independent rules, and the rest is compared. The check does not use the positions where weaving inserted
// them.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/model/finding.h"

namespace modgen {

/// Reports an error at the first position in the text of `family` where `woven`, the text after weaving, differs by
/// anything other than: annotations and the base class of configs, which are removed; lists of config fields; calls of
/// tp:: and pp::, and variables that hold the result of tp::enter; returns from a stage, and values that a stage
/// receives; wrappers of FSDP units; second overloads of methods for split values; and ties at the end of constructors.
void check_woven(const FamilyModel& family, const std::string& woven, std::vector<Finding>& findings);

/// Whether two texts have the same tokens, ignoring comments and line breaks within strings.
bool same_tokens(const std::string& a, const std::string& b);

}  // namespace modgen
