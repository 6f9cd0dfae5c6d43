// Unified diffs of two texts.
#pragma once

#include <string>
#include <string_view>

namespace modgen {

/// The unified diff from `before` to `after`, with the two names; empty if they are equal. Carriage returns are shown
/// as ^M.
std::string unified_diff(std::string_view before_name, std::string_view before, std::string_view after_name,
                         std::string_view after);

}  // namespace modgen
