// clang-format in the project's style.
#pragma once

#include <clang/Tooling/Core/Replacement.h>

#include <string>
#include <vector>

namespace modgen {

/// Maximum line length.
inline constexpr unsigned kColumns = 120;

/// The range of a text from offset `begin` to `end`.
inline clang::tooling::Range range(size_t begin, size_t end) {
  return {static_cast<unsigned>(begin), static_cast<unsigned>(end - begin)};
}

/// Formats the sorted `ranges` of `code` to a fixed point. Text outside of them is unchanged.
std::string format(std::string code, std::vector<clang::tooling::Range> ranges);

}  // namespace modgen
