// How deep the text of a spec nests. Clang and the later stages recurse into code, and the stack is finite:
// the text is rejected before they overflow it.
#pragma once

#include <clang/Basic/TokenKinds.h>

#include <cstddef>
#include <vector>

namespace modgen {

/// Counts, token by token, those that are open: after the last semicolon of each enclosing bracket and brace, without
/// those in closed ones. No syntax tree of the text is deeper.
class Nesting {
 public:
  /// Many times what models need.
  static constexpr size_t kMost = 4000;

  /// Takes the next token and returns the number of open ones.
  size_t add(clang::tok::TokenKind kind);

 private:
  size_t open_ = 0;
  std::vector<size_t> around_;  // those open before each bracket and brace that is not closed yet
};

/// Lets this process use the stack that kMost open tokens need. Costs nothing if it is not used.
void allow_deep_stack();

}  // namespace modgen
