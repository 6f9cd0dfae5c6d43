// Expressions as they are written, and what Clang does to them without being asked.
#pragma once

#include <clang/AST/ExprCXX.h>

#include <vector>

namespace modgen {

struct Written {
  const clang::Expr* expr = nullptr;            // without what is not written
  std::vector<const clang::Expr*> conversions;  // that its value meets, innermost first
};

/// Copies, bindings and conversions of an object to a base of its class are left out: the category of a value and its
/// type tell of the former, and flattened classes have no such bases.
Written written(const clang::Expr* expr);

}  // namespace modgen
