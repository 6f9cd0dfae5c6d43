// Members that code names by the class of a base, as in `AlphaImpl::forward(x)`.
#pragma once

#include <clang/AST/ExprCXX.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "generator/flatten/family.h"

namespace modgen {

struct SuperCall {
  const clang::CallExpr* call;
  const clang::CXXMethodDecl* callee;
  SourceSpan qualifier;  // `AlphaImpl::`
  SourceSpan name;
  size_t level;                         // level of the callee
  const clang::Expr* object = nullptr;  // as written; null if it is left out
  bool is_on_this() const { return !object || llvm::isa<clang::CXXThisExpr>(object->IgnoreParenImpCasts()); }
};

struct NamedByBase {
  std::vector<SuperCall> calls;
  std::vector<const clang::MemberExpr*> fields;  // Base::field
  std::vector<const clang::CallExpr*> owned;     // own<T>(…)
  // Qualifiers of calls that name a class of a spec, and the class of a library that declares the method.
  std::vector<std::pair<SourceSpan, const clang::CXXRecordDecl*>> of_libraries;
};

/// What `code` of a class of `entity` names by the class of a base, and its calls of own().
NamedByBase find_named_by_base(const Family& family, const Entity& entity, const clang::Stmt& code);

}  // namespace modgen
