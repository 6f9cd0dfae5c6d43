#include "generator/resolve/effects.h"

#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include "generator/resolve/remakes.h"

namespace modgen {
namespace {

struct Literal : clang::RecursiveASTVisitor<Literal> {
  const clang::StringLiteral* found = nullptr;
  bool VisitStringLiteral(clang::StringLiteral* literal) {
    found = literal;
    return true;
  }
};

/// Finds the name passed to register_module("name", …) or a similar function, at any depth.
class RegisteredName : public clang::RecursiveASTVisitor<RegisteredName> {
 public:
  std::string name;
  bool VisitCallExpr(clang::CallExpr* call) {
    if (const clang::StringLiteral* literal = registered_literal(*call); literal && name.empty())
      name = literal->getString().str();
    if (const auto registration = replaced_registration(*call); registration && name.empty()) name = registration->name;
    return true;
  }
};

}  // namespace

std::string own_field(const clang::Expr* expr) {
  const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr->IgnoreParenImpCasts());
  return member && llvm::isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts()) &&
                 llvm::isa<clang::FieldDecl>(member->getMemberDecl())
             ? member->getMemberDecl()->getNameAsString()
             : "";
}

const clang::StringLiteral* registered_literal(const clang::CallExpr& call) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  Literal literal;
  if (callee && callee->getDeclName().isIdentifier() && callee->getName().starts_with("register_") &&
      call.getNumArgs() > 0)
    literal.TraverseStmt(const_cast<clang::Expr*>(call.getArg(0)));
  return literal.found;
}

std::string registered_name(const clang::Stmt* code) {
  RegisteredName finder;
  finder.TraverseStmt(const_cast<clang::Stmt*>(code));
  return finder.name;
}

}  // namespace modgen
