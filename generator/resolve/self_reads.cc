#include "generator/resolve/spec_reader.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/EvaluatedExprVisitor.h>

#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Finds reads of `value` in an expression.
class Reads : public clang::ConstEvaluatedExprVisitor<Reads> {
 public:
  Reads(const clang::ASTContext& context, const clang::ValueDecl& value, std::vector<SelfRead>& found)
      : ConstEvaluatedExprVisitor(context), value_(value), found_(found) {}

  void VisitDeclRefExpr(const clang::DeclRefExpr* expr) {
    if (is_value(*expr)) add(expr->getLocation());
  }
  void VisitMemberExpr(const clang::MemberExpr* expr) {
    if (is_value(*expr))
      add(expr->getMemberLoc());
    else
      Visit(expr->getBase());
  }
  void VisitUnaryAddrOf(const clang::UnaryOperator* expr) {
    const clang::Expr* operand = expr->getSubExpr()->IgnoreParens();
    if (!is_value(*operand)) Visit(operand);
  }
  void VisitLambdaExpr(const clang::LambdaExpr* lambda) {
    auto value = lambda->capture_init_begin();
    for (const clang::LambdaCapture& capture : lambda->captures()) {
      if (*value && capture.getCaptureKind() != clang::LCK_ByRef) Visit(*value);
      ++value;
    }
  }

 private:
  /// Whether `expr` names the variable, or the member of this object.
  bool is_value(const clang::Expr& expr) const {
    if (const auto* variable = llvm::dyn_cast<clang::DeclRefExpr>(&expr)) return variable->getDecl() == &value_;
    const auto* member = llvm::dyn_cast<clang::MemberExpr>(&expr);
    return member && member->getMemberDecl() == &value_ &&
           llvm::isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts());
  }

  void add(clang::SourceLocation where) { found_.push_back({value_.getNameAsString(), where}); }

  const clang::ValueDecl& value_;
  std::vector<SelfRead>& found_;
};

class SelfReads : public SyntaxVisitor {
 public:
  explicit SelfReads(const clang::ASTContext& context) : context_(context) {}
  std::vector<SelfRead> found;

  bool VisitVarDecl(clang::VarDecl* variable) override {
    if (!llvm::isa<clang::ParmVarDecl>(variable)) check(*variable, variable->getInit());
    return true;
  }
  bool VisitFieldDecl(clang::FieldDecl* field) override {
    check(*field, field->getInClassInitializer());
    return true;
  }
  bool TraverseConstructorInitializer(clang::CXXCtorInitializer* init) override {
    if (init->isWritten() && init->isMemberInitializer()) check(*init->getMember(), init->getInit());
    return SyntaxVisitor::TraverseConstructorInitializer(init);
  }

 private:
  void check(const clang::ValueDecl& value, const clang::Expr* initializer) {
    if (initializer) Reads(context_, value, found).Visit(initializer);
  }

  const clang::ASTContext& context_;
};

}  // namespace

std::vector<SelfRead> self_reads(const clang::NamespaceDecl& space) {
  SelfReads visitor(space.getASTContext());
  visitor.visit(&space);
  return visitor.found;
}

}  // namespace modgen
