// clang-format in the project's style.
#pragma once

#include <clang/Tooling/Core/Replacement.h>

#include <string>
#include <vector>

namespace modgen {

/// The longest line.
inline constexpr unsigned kColumns = 120;

/// `code` with these ranges of it, which are in order, formatted to a fixed point. The others stay as they are.
std::string format(std::string code, std::vector<clang::tooling::Range> ranges);

}  // namespace modgen
