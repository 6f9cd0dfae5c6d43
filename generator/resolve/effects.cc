#include "generator/resolve/effects.h"

#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>

namespace modgen {
namespace {

class Finder : public clang::RecursiveASTVisitor<Finder> {
 public:
  Effects found;

  bool VisitMemberExpr(clang::MemberExpr* expr) {
    if (const std::string field = own_field(expr); !field.empty()) found.reads.insert(field);
    return true;
  }
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) {
    ++found.uses[expr->getDecl()];
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getDecl()); variable && variable->isLocalVarDecl())
      found.locals.insert(variable);
    return true;
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) {
    if (expr->isAssignmentOp()) write(expr->getLHS());
    return true;
  }
  bool VisitUnaryOperator(clang::UnaryOperator* expr) {
    if (expr->isIncrementDecrementOp()) write(expr->getSubExpr());
    return true;
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* expr) {
    if (expr->isAssignmentOp()) write(expr->getArg(0));
    return true;
  }
  bool VisitCXXMemberCallExpr(clang::CXXMemberCallExpr* call) {
    const clang::CXXMethodDecl* method = call->getMethodDecl();
    if (!method || !method->getDeclName().isIdentifier()) return true;
    const bool own = llvm::isa<clang::CXXThisExpr>(call->getImplicitObjectArgument()->IgnoreParenImpCasts());
    found.calls_own_methods |= own && !method->getName().starts_with("register_");
    if (method->getName().ends_with("_") || method->getName() == "push_back") write(call->getImplicitObjectArgument());
    return true;
  }

 private:
  void write(const clang::Expr* target) {
    found.writes.insert(own_field(target));
    found.changes_something = true;
  }
};

struct Literal : clang::RecursiveASTVisitor<Literal> {
  const clang::StringLiteral* found = nullptr;
  bool VisitStringLiteral(clang::StringLiteral* literal) {
    found = literal;
    return true;
  }
};

/// The name that register_module("name", …) and its like give, anywhere.
class RegisteredName : public clang::RecursiveASTVisitor<RegisteredName> {
 public:
  std::string name;
  bool VisitCallExpr(clang::CallExpr* call) {
    if (const clang::StringLiteral* literal = registered_literal(*call); literal && name.empty())
      name = literal->getString().str();
    return true;
  }
};

}  // namespace

Effects effects_of(const clang::Stmt* code) {
  Finder finder;
  finder.TraverseStmt(const_cast<clang::Stmt*>(code));
  return std::move(finder.found);
}

Effects effects_of(const clang::CXXConstructorDecl& constructor) {
  Finder finder;
  finder.TraverseDecl(const_cast<clang::CXXConstructorDecl*>(&constructor));
  return std::move(finder.found);
}

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
