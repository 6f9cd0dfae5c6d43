// clang-format in the project's style.
#pragma once

#include <clang/Tooling/Core/Replacement.h>

#include <string>
#include <vector>

namespace modgen {

/// The longest line.
inline constexpr unsigned kColumns = 120;

/// From one offset of a text to another.
inline clang::tooling::Range range(size_t begin, size_t end) {
  return {static_cast<unsigned>(begin), static_cast<unsigned>(end - begin)};
}

/// `code` with these ranges of it, which are in order, formatted to a fixed point. The others stay as they are.
std::string format(std::string code, std::vector<clang::tooling::Range> ranges);

}  // namespace modgen
