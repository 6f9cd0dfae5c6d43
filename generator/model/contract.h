// What the generator asks the contract's own declarations for, so that no table here repeats it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "generator/model/read_body.h"

namespace modgen {

/// The tasks that runtime/model/tasks.h knows, in its order.
std::vector<std::string> known_tasks(const clang::ASTContext& context);

/// Types that a config's field can have, those that ConfigValue of runtime/model/config.h points to: canonical, and as
/// it writes them.
std::vector<std::pair<std::string, std::string>> config_field_types(const clang::ASTContext& context,
                                                                    Declarations& declarations);

}  // namespace modgen
