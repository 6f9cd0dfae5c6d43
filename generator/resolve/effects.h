// What code of a constructor reads, changes and registers.
#pragma once

#include <map>
#include <set>
#include <string>

namespace clang {
class CXXConstructorDecl;
class CallExpr;
class Expr;
class NamedDecl;
class Stmt;
class StringLiteral;
class VarDecl;
}  // namespace clang

namespace modgen {

struct Effects {
  std::set<std::string> reads, writes;     // fields of the class itself; "" stands for anything else that is written
  std::set<const clang::VarDecl*> locals;  // variables that it declares or names
  std::map<const clang::NamedDecl*, int> uses;  // how often it names what
  bool calls_own_methods = false;               // but for register_module and its like
  bool changes_something = false;
};

Effects effects_of(const clang::Stmt* code);
/// Its initializers and its body.
Effects effects_of(const clang::CXXConstructorDecl& constructor);

/// The field of the class itself that `expr` is; empty where it is something else.
std::string own_field(const clang::Expr* expr);

/// The name in register_module("name", …) or its like, as written; null where `call` is none or names nothing.
const clang::StringLiteral* registered_literal(const clang::CallExpr& call);

/// The name that register_module("name", …) or its like gives in `code`; empty where there is no such call.
std::string registered_name(const clang::Stmt* code);

}  // namespace modgen
