// `q_proj = remake(q_proj, linear(…));`: a derived constructor replaces an inherited module, under the name that it
// has.
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

/// How a constructor registers a member.
struct Registration {
  std::string function;  // register_module, register_parameter or register_buffer
  std::string name;
};

/// The member that `call`, of the prelude's remake, replaces; null where it is another call, or names no member of
/// this object.
const clang::MemberExpr* replaced_member(const clang::CallExpr& call);

/// How the constructors of the bases of `record`, nearest first, register `field`; nullopt where none does.
std::optional<Registration> inherited_registration(const clang::CXXRecordDecl& record, const std::string& field);

/// How the member that `call` replaces is registered by the constructors of the bases of its class.
std::optional<Registration> replaced_registration(const clang::CallExpr& call);

struct WrongRemake {
  std::string message, advice;
  clang::SourceRange where;
};

/// The calls of remake in `space` that are of no use, in source order.
std::vector<WrongRemake> wrong_remakes(const clang::NamespaceDecl& space);

}  // namespace modgen
