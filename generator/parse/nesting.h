// How deep the text of a spec nests. Clang and the stages behind it descend into code by calls of functions, and their
// stack ends somewhere: the text is refused before they do.
#pragma once

#include <clang/Basic/TokenKinds.h>

#include <cstddef>
#include <vector>

namespace modgen {

/// Counts, token by token, those that are open: behind the last semicolon of each bracket and brace around the place,
/// without what stands in closed ones. No syntax tree of the text is deeper.
class Nesting {
 public:
  /// Many times what models are written with.
  static constexpr size_t kMost = 4000;

  /// Takes the next token and returns the number of open ones.
  size_t add(clang::tok::TokenKind kind);

 private:
  size_t open_ = 0;
  std::vector<size_t> around_;  // those open before each bracket and brace that is not closed yet
};

/// Lets this process have the stack that kMost open tokens need. Costs nothing where it is not used.
void allow_deep_stack();

}  // namespace modgen
