#include "generator/resolve/handed_on.h"

#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <set>

#include "generator/resolve/object_types.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

class UsesOfThis : public SyntaxVisitor {
 public:
  explicit UsesOfThis(const clang::CXXRecordDecl& record) : record_(record) {}

  bool hands_on() {
    for (const clang::Decl* decl : record_.decls()) {
      if (const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(decl->getAsFunction()))
        if (const clang::FunctionDecl* definition = method->getDefinition()) decl = definition;
      // A class inside this one has an object of its own.
      if (!llvm::isa<clang::CXXRecordDecl, clang::ClassTemplateDecl>(decl) && !visit(decl)) return true;
    }
    return false;
  }

  bool VisitStmt(clang::Stmt* statement) override {
    if (const auto* result = llvm::dyn_cast<clang::ReturnStmt>(statement)) keep(result->getRetValue());
    if (const auto* op = llvm::dyn_cast<clang::BinaryOperator>(statement);
        op && (op->isComparisonOp() || op->isPtrMemOp())) {
      keep(op->getLHS());
      keep(op->getRHS());
    }
    if (const auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(statement)) keep(op->getArg(0));
    if (const auto* lambda = llvm::dyn_cast<clang::LambdaExpr>(statement))
      for (unsigned index = 0; index < lambda->capture_size(); ++index)
        if (lambda->capture_begin()[index].capturesThis()) keep(lambda->capture_init_begin()[index]);
    if (const auto* member = llvm::dyn_cast<clang::CXXDependentScopeMemberExpr>(statement))
      keep(member->isImplicitAccess() ? nullptr : member->getBase());
    if (const auto* member = llvm::dyn_cast<clang::UnresolvedMemberExpr>(statement))
      keep(member->isImplicitAccess() ? nullptr : member->getBase());
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(statement)) keep(member->getBase());
    // A method may return the object, and its caller pass that on.
    if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(statement))
      if (const clang::Expr* object = call->getImplicitObjectArgument())
        return !is_this(*object) || !leads_to_object(call->getType());
    return true;
  }
  bool VisitCXXThisExpr(clang::CXXThisExpr* expr) override { return kept_.count(expr); }

 private:
  static const clang::Expr& object_of(const clang::Expr& expr) {
    const clang::Expr& bare = *expr.IgnoreParenCasts();
    const auto* op = llvm::dyn_cast<clang::UnaryOperator>(&bare);
    const bool is_same = op && (op->getOpcode() == clang::UO_Deref || op->getOpcode() == clang::UO_AddrOf);
    return is_same ? object_of(*op->getSubExpr()) : bare;
  }
  static bool is_this(const clang::Expr& expr) { return llvm::isa<clang::CXXThisExpr>(object_of(expr)); }

  /// Records that the code around `expr` does not hand it on, if it is `this`.
  void keep(const clang::Expr* expr) {
    if (expr && is_this(*expr)) kept_.insert(&object_of(*expr));
  }

  bool leads_to_object(clang::QualType type) const {
    std::vector<const clang::CXXRecordDecl*> classes;
    add_classes(type, classes);
    return std::any_of(classes.begin(), classes.end(), [&](const clang::CXXRecordDecl* one) {
      return one == record_.getDefinition() || record_.isDerivedFrom(one);
    });
  }

  const clang::CXXRecordDecl& record_;
  std::set<const clang::Expr*> kept_;  // only membership is tested
};

}  // namespace

bool hands_on(const clang::CXXRecordDecl& derived, const clang::CXXRecordDecl& seen) {
  return std::any_of(derived.bases_begin(), derived.bases_end(), [&](const clang::CXXBaseSpecifier& base) {
    const clang::CXXRecordDecl* record = get_class(base.getType());
    if (!record || (record != seen.getDefinition() && !record->isDerivedFrom(&seen))) return false;
    return UsesOfThis(*record).hands_on() || hands_on(*record, seen);
  });
}

}  // namespace modgen
