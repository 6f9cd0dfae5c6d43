// Classifies operations by whether they allocate new memory or return views of their operands.
#pragma once

#include <string_view>

namespace modgen {

/// Whether the result of an operation, named as in the rule table, aliases no other tensor and is not saved for
/// backward. If not, it may alias every operand.
bool allocates(std::string_view operation);

/// Whether an operation reads no values of its operand: it returns a view or a property.
bool is_view_or_query(std::string_view operation);

}  // namespace modgen
