// Expressions as written, separated from Clang's implicit conversions.
#pragma once

#include <clang/AST/ExprCXX.h>

#include <vector>

namespace modgen {

struct Written {
  const clang::Expr* expr = nullptr;            // without implicit nodes
  std::vector<const clang::Expr*> conversions;  // conversions of its value, innermost first
};

/// Omits copies, bindings and conversions of an object to a base of its class: the value category and the type imply
/// the former, and flattened classes do not have such bases.
Written written(const clang::Expr* expr);

}  // namespace modgen
