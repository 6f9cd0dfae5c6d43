// Which operations give tensors memory of their own, and which only look at their operand's.
#pragma once

#include <string_view>

namespace modgen {

/// Whether the result of an operation, named as in the table of rules, shares memory with nothing, and no gradient
/// needs it again. Where this is not known it may share that of every operand.
bool makes_memory(std::string_view operation);

/// Whether an operation computes nothing from the values of its operand: it makes a new view of them or asks for a property.
bool only_looks(std::string_view operation);

}  // namespace modgen
