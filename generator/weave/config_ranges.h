// Ranges of a config's integers, derived from how the family's code uses them.
#pragma once

#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/weave/module_tree.h"

namespace modgen {

/// Sets the least and most values of config fields. A field is at least 1 if it is a factor of a size of a layer or
/// parameter, an integer divisor, a TP_LOCAL count, a number of layers or experts, or an argument that the contract
/// needs to be at least 1; unless a condition around that use reads the field. Layers and experts are also limited from
/// above. A literal default outside of the field's range is reported in `findings`.
void derive_ranges(FamilyModel& family, const std::vector<const ModuleNode*>& entries, std::vector<Finding>& findings);

/// The range of a config field, as further arguments of a call of its visitor: ", 1, 2048"; empty without one.
std::string range_text(const Field& field);

/// Adds the method that lists the fields, with their ranges, to each config.
void add_field_visitors(FamilyModel& family);

}  // namespace modgen
