// Members that code names, and names that it registers.
#pragma once

#include <string>

namespace clang {
class CallExpr;
class Expr;
class Stmt;
class StringLiteral;
}  // namespace clang

namespace modgen {

/// The name of the field of the class itself that `expr` denotes; empty for other expressions.
std::string own_field(const clang::Expr* expr);

/// The name literal in register_module("name", …) or a similar call; null if `call` is another call or has no literal.
const clang::StringLiteral* registered_literal(const clang::CallExpr& call);

/// The name that register_module("name", …) or a similar call in `code` registers, or the name of the member that
/// remake(…) replaces; empty if `code` has no such call.
std::string registered_name(const clang::Stmt* code);

}  // namespace modgen
