// What changes where code writes to an expression.
#pragma once

#include <clang/AST/Expr.h>

#include <set>
#include <utility>

#include "generator/flatten/side_effects.h"

namespace modgen {

inline bool is_this(const clang::Expr* expr) { return llvm::isa<clang::CXXThisExpr>(expr->IgnoreParenImpCasts()); }

inline bool is_local(const clang::VarDecl& variable) {
  return variable.isLocalVarDeclOrParm() && !variable.isStaticLocal();
}

/// Records writes in `found`.
class Writes {
 public:
  explicit Writes(SideEffects& found) : found_(found) {}

  /// Records that `written`, or the object that it is part of or refers to, changes; with `inside`, what it points to,
  /// holds or views.
  void add(const clang::Expr& written, bool inside);

 private:
  void add_variable(const clang::DeclRefExpr& name, bool inside);
  /// Records that what an object of that type points to, holds or views changes.
  void add_through(clang::QualType type);

  SideEffects& found_;
  // Variables whose initializers, or what these lead to, are recorded as changed.
  std::set<std::pair<const clang::VarDecl*, bool>> followed_;
};

}  // namespace modgen
