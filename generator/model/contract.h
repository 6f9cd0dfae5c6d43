// Reads lists from the contract's own declarations, so that the generator does not duplicate them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "generator/model/read_body.h"

namespace modgen {

/// The tasks that runtime/model/tasks.h knows, in its order.
std::vector<std::string> known_tasks(const clang::ASTContext& context);

/// The types that a config field can have, which are those that ConfigValue in runtime/model/config.h points to: each
/// as canonical type and as written there.
std::vector<std::pair<std::string, std::string>> config_field_types(const clang::ASTContext& context,
                                                                    Declarations& declarations);

}  // namespace modgen
