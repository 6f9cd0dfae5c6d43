#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/resolve/spec_reader.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

const clang::CXXRecordDecl* get_class(clang::QualType type) {
  if (type->isReferenceType() || type->isPointerType()) type = type->getPointeeType();
  return type->getAsCXXRecordDecl();
}

/// Whether `derived`, or a class between it and `base`, declares a member of that name.
bool redeclares(const clang::CXXRecordDecl& derived, const clang::CXXRecordDecl& base, clang::DeclarationName name) {
  if (derived.getCanonicalDecl() == base.getCanonicalDecl() || !derived.hasDefinition()) return false;
  if (!derived.lookup(name).empty()) return true;
  return std::any_of(derived.bases_begin(), derived.bases_end(), [&](const clang::CXXBaseSpecifier& one) {
    const clang::CXXRecordDecl* record = get_class(one.getType());
    return record && redeclares(*record, base, name);
  });
}

class BaseViews : public SyntaxVisitor {
 public:
  std::vector<BaseView> found;

  bool VisitMemberExpr(clang::MemberExpr* expr) override {
    const clang::ValueDecl& member = *expr->getMemberDecl();
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&member);
    if (expr->hasQualifier() || !member.getDeclName().isIdentifier() || (method && method->isVirtual())) return true;
    const clang::Expr* object = expr->getBase()->IgnoreParenImpCasts();
    const clang::CXXRecordDecl* base = get_class(object->getType());
    const clang::Expr* source = viewed(*object);
    const clang::CXXRecordDecl* derived = source ? get_class(source->getType()) : nullptr;
    if (base && derived && derived->hasDefinition() && derived->isDerivedFrom(base) &&
        redeclares(*derived, *base, member.getDeclName()))
      found.push_back({member.getNameAsString(), base->getNameAsString(), expr->getMemberLoc()});
    return true;
  }

 private:
  /// The expression that a cast converts, or that a variable is bound to or copies; null for other expressions.
  static const clang::Expr* viewed(const clang::Expr& object) {
    if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(&object);
        unary && unary->getOpcode() == clang::UO_Deref)
      return viewed(*unary->getSubExpr()->IgnoreParenImpCasts());
    const clang::Expr* source = nullptr;
    if (const auto* cast = llvm::dyn_cast<clang::ExplicitCastExpr>(&object)) source = cast->getSubExpr();
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&object))
      if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(name->getDecl())) source = variable->getInit();
    if (!source) return nullptr;
    const auto* copy = llvm::dyn_cast<clang::CXXConstructExpr>(source->IgnoreImplicit());
    if (copy && copy->getNumArgs() == 1 && copy->getConstructor()->isCopyOrMoveConstructor()) source = copy->getArg(0);
    source = source->IgnoreParenImpCasts();
    const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(source);
    return unary && unary->getOpcode() == clang::UO_AddrOf ? unary->getSubExpr()->IgnoreParenImpCasts() : source;
  }
};

}  // namespace

std::vector<BaseView> base_views(const clang::NamespaceDecl& space) {
  BaseViews visitor;
  visitor.visit(&space);
  return visitor.found;
}

}  // namespace modgen
