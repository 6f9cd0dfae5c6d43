// Nesting depth of a spec's text. Clang and the later stages recurse into code, and the stack is finite: text that
// would overflow it is rejected first.
#pragma once

#include <clang/Basic/TokenKinds.h>

#include <cstddef>
#include <vector>

namespace modgen {

/// Counts open tokens: those after the last semicolon of each enclosing bracket or brace, without tokens in closed
/// ones. The syntax tree is never deeper than this count.
class Nesting {
 public:
  /// Many times the depth that models need.
  static constexpr size_t kMost = 4000;

  /// Consumes the next token and returns the number of open tokens.
  size_t add(clang::tok::TokenKind kind);

 private:
  size_t open_ = 0;
  std::vector<size_t> around_;  // open tokens before each unclosed bracket and brace
};

/// Raises the stack limit to what kMost open tokens need. Costs nothing if the stack is not used.
void allow_deep_stack();

}  // namespace modgen
