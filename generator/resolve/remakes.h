// `q_proj = remake(q_proj, linear(…));`: a derived constructor replaces an inherited module under its registered name.
#pragma once

#include <clang/Basic/SourceLocation.h>

#include <optional>
#include <string>
#include <vector>

namespace clang {
class CallExpr;
class CXXRecordDecl;
class MemberExpr;
class NamespaceDecl;
}  // namespace clang

namespace modgen {

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
