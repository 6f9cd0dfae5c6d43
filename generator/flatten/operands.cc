#include "generator/flatten/operands.h"

#include <clang/AST/ExprCXX.h>
#include <clang/AST/ParentMap.h>

#include <algorithm>

namespace modgen {
namespace {

const clang::Expr* bare(const clang::Expr* expr) {
  for (const clang::Expr* inner = expr;; expr = inner) {
    inner = expr->IgnoreImplicit()->IgnoreParens();
    if (inner == expr) return expr;
  }
}

/// Whether `expr` binds at least as tightly as a call.
bool is_tight(const clang::Expr& expr) {
  const clang::Expr* inner = expr.IgnoreImplicit();
  if (llvm::isa<clang::BinaryOperator, clang::AbstractConditionalOperator, clang::UnaryOperator, clang::LambdaExpr,
                clang::CStyleCastExpr, clang::CXXThrowExpr, clang::CXXRewrittenBinaryOperator>(inner))
    return false;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner))
    return call->getOperator() == clang::OO_Call || call->getOperator() == clang::OO_Subscript ||
           call->getOperator() == clang::OO_Arrow;
  // An implicit conversion.
  const clang::Expr* spelled = inner->IgnoreUnlessSpelledInSource();
  return spelled == inner || is_tight(*spelled);
}

}  // namespace

bool takes_any_expression(const clang::Stmt* parent, const clang::Expr& child) {
  while (parent && llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                             clang::CXXBindTemporaryExpr>(parent))
    return true;
  if (!parent || llvm::isa<clang::DeclStmt, clang::ReturnStmt, clang::CompoundStmt>(parent)) return true;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(parent))
    return call->getOperator() == clang::OO_Call && bare(call->getArg(0)) != bare(&child);
  if (const auto* call = llvm::dyn_cast<clang::CallExpr>(parent))
    return std::any_of(call->arg_begin(), call->arg_end(),
                       [&](const clang::Expr* argument) { return bare(argument) == bare(&child); });
  return false;
}

const clang::Stmt* meaningful_parent(const clang::ParentMap& parents, const clang::Stmt* stmt) {
  const clang::Stmt* parent = parents.getParent(stmt);
  while (parent && llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                             clang::CXXBindTemporaryExpr>(parent))
    parent = parents.getParent(parent);
  // An implicit converting or copying construction.
  if (const auto* construct = llvm::dyn_cast_or_null<clang::CXXConstructExpr>(parent);
      construct && !llvm::isa<clang::CXXTemporaryObjectExpr>(construct))
    return meaningful_parent(parents, construct);
  return parent;
}

bool copies(const clang::Stmt* parent, const clang::FunctionDecl& function) {
  if (!parent) return false;
  if (const auto* declared = llvm::dyn_cast<clang::DeclStmt>(parent)) {
    const auto* variable =
        declared->isSingleDecl() ? llvm::dyn_cast<clang::VarDecl>(declared->getSingleDecl()) : nullptr;
    return variable && !variable->getType()->isReferenceType();
  }
  if (llvm::isa<clang::ReturnStmt>(parent)) return !function.getReturnType()->isReferenceType();
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(parent)) return binary->getOpcode() != clang::BO_Comma;
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(parent)) return unary->isArithmeticOp();
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(parent))
    return call->isInfixBinaryOp() && !call->isAssignmentOp();
  return false;
}

const clang::Expr* returned(const clang::Stmt& body) {
  const auto* compound = llvm::dyn_cast<clang::CompoundStmt>(&body);
  if (!compound || compound->size() != 1) return nullptr;
  const auto* statement = llvm::dyn_cast<clang::ReturnStmt>(compound->body_front());
  return statement ? statement->getRetValue() : nullptr;
}

bool is_repeatable_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (is_trivial_argument(*expr)) return true;
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(expr))
    return !binary->isAssignmentOp() && is_repeatable_argument(*binary->getLHS()) &&
           is_repeatable_argument(*binary->getRHS());
  if (const auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(expr))
    return is_repeatable_argument(*choice->getCond()) && is_repeatable_argument(*choice->getTrueExpr()) &&
           is_repeatable_argument(*choice->getFalseExpr());
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
    const clang::CXXMethodDecl* method = call->getMethodDecl();
    return method && method->isConst() && method->getParent()->isInStdNamespace() &&
           expr->getType()->isArithmeticType() && is_repeatable_argument(*call->getImplicitObjectArgument()) &&
           std::all_of(call->arg_begin(), call->arg_end(),
                       [](const clang::Expr* one) { return is_repeatable_argument(*one); });
  }
  return false;
}

bool is_trivial_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (llvm::isa<clang::DeclRefExpr, clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr,
                clang::StringLiteral, clang::CXXThisExpr, clang::CXXNullPtrLiteralExpr>(expr))
    return true;
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr)) return is_trivial_argument(*member->getBase());
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(expr))
    return !unary->isIncrementDecrementOp() && is_trivial_argument(*unary->getSubExpr());
  if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr)) return is_trivial_argument(*cast->getSubExpr());
  // A config that is passed to a base's constructor converts implicitly; code of specs cannot observe this.
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr))
    return llvm::isa_and_nonnull<clang::CXXConversionDecl>(call->getMethodDecl()) &&
           is_trivial_argument(*call->getImplicitObjectArgument());
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr))  // *config.head_dim
    return call->getNumArgs() == 1 &&
           (call->getOperator() == clang::OO_Star || call->getOperator() == clang::OO_Arrow) &&
           is_trivial_argument(*call->getArg(0));
  if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr))
    return construct->getNumArgs() == 1 && is_trivial_argument(*construct->getArg(0));
  return false;
}

Fragment tight(Fragment text, const clang::Expr& expr, bool is_replaced) {
  if (!is_replaced && is_tight(expr)) return text;
  Fragment result("(");
  result.append(text);
  result.add(std::string(")"));
  return result;
}

}  // namespace modgen
