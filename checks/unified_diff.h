// Differences of two texts for people to read.
#pragma once

#include <string>
#include <string_view>

namespace modgen {

/// What turns `before` into `after`, in unified format under the two names; empty where they are equal. Carriage
/// returns show as ^M.
std::string unified_diff(std::string_view before_name, std::string_view before, std::string_view after_name,
                         std::string_view after);

}  // namespace modgen
