// The members that code names, and what it registers.
#pragma once

#include <string>

namespace clang {
class CallExpr;
class Expr;
class Stmt;
class StringLiteral;
}  // namespace clang

namespace modgen {

/// The field of the class itself that `expr` is; empty where it is something else.
std::string own_field(const clang::Expr* expr);

/// The name in register_module("name", …) or its like, as written; null where `call` is none or names nothing.
const clang::StringLiteral* registered_literal(const clang::CallExpr& call);

/// The name that register_module("name", …) or its like gives in `code`, or that what remake(…) replaces has; empty
/// where there is no such call.
std::string registered_name(const clang::Stmt* code);

}  // namespace modgen
