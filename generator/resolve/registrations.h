// Registrations of members: the names that constructors register, and `q_proj = remake(q_proj, linear(…));`, by which
// a derived constructor replaces an inherited module under its registered name.
#pragma once

#include <clang/Basic/SourceLocation.h>

#include <optional>
#include <string>
#include <vector>

namespace clang {
class CXXRecordDecl;
class CallExpr;
class Expr;
class MemberExpr;
class NamespaceDecl;
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

/// A constructor's registration of a member.
struct Registration {
  std::string function;  // register_module, register_parameter or register_buffer
  std::string name;
};

/// The member that `call`, a call of the prelude's remake, replaces; null for other calls, or if it does not name a
/// member of this object.
const clang::MemberExpr* replaced_member(const clang::CallExpr& call);

/// The registration of `field` by the constructors of the bases of `record`, nearest first; nullopt if none registers
/// it.
std::optional<Registration> inherited_registration(const clang::CXXRecordDecl& record, const std::string& field);

/// The registration of the member that `call` replaces, by the constructors of the bases of its class.
std::optional<Registration> replaced_registration(const clang::CallExpr& call);

struct WrongRemake {
  std::string message, advice;
  clang::SourceRange where;
};

/// The invalid calls of remake in `space`, in source order.
std::vector<WrongRemake> wrong_remakes(const clang::NamespaceDecl& space);

}  // namespace modgen
