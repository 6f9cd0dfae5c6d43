#include "generator/validate/match.h"

#include <algorithm>

namespace modgen {
namespace {

bool is_conversion(clang::CastKind kind) {
  switch (kind) {
    case clang::CK_LValueToRValue:
    case clang::CK_NoOp:
    case clang::CK_DerivedToBase:
    case clang::CK_UncheckedDerivedToBase:
    case clang::CK_ConstructorConversion:
    case clang::CK_UserDefinedConversion:
    case clang::CK_FunctionToPointerDecay:
    case clang::CK_BuiltinFnToFnPtr:
    case clang::CK_ArrayToPointerDecay:
      return false;
    default:
      return true;
  }
}

/// The argument of a construction that only converts or copies it; null for others.
const clang::Expr* converted(const clang::CXXConstructExpr& construct) {
  if (llvm::isa<clang::CXXTemporaryObjectExpr>(construct) || construct.getNumArgs() == 0) return nullptr;
  for (unsigned index = 1; index < construct.getNumArgs(); ++index)
    if (!llvm::isa<clang::CXXDefaultArgExpr>(construct.getArg(index))) return nullptr;
  return llvm::isa<clang::CXXDefaultArgExpr>(construct.getArg(0)) ? nullptr : construct.getArg(0);
}

bool converts_config(const clang::CXXConversionDecl& conversion) {
  return conversion.getParent()->getQualifiedNameAsString() == "modular::Config";
}

}  // namespace

Written written(const clang::Expr* expr) {
  Written result;
  std::vector<const clang::Expr*>& conversions = result.conversions;
  for (;;) {
    if (const auto* paren = llvm::dyn_cast<clang::ParenExpr>(expr)) {
      expr = paren->getSubExpr();
    } else if (const auto* cast = llvm::dyn_cast<clang::ImplicitCastExpr>(expr)) {
      if (is_conversion(cast->getCastKind())) conversions.push_back(cast);
      expr = cast->getSubExpr();
    } else if (const auto* full = llvm::dyn_cast<clang::FullExpr>(expr)) {
      expr = full->getSubExpr();
    } else if (const auto* temporary = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(expr)) {
      expr = temporary->getSubExpr();
    } else if (const auto* bound = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(expr)) {
      expr = bound->getSubExpr();
    } else if (const auto* list = llvm::dyn_cast<clang::CXXStdInitializerListExpr>(expr)) {
      expr = list->getSubExpr();
    } else if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr);
               construct && converted(*construct)) {
      if (!construct->getConstructor()->isCopyOrMoveConstructor()) conversions.push_back(construct);
      expr = converted(*construct);
    } else if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
      const auto* conversion = llvm::dyn_cast_or_null<clang::CXXConversionDecl>(call->getMethodDecl());
      if (!conversion) break;
      if (!converts_config(*conversion)) conversions.push_back(call);
      expr = call->getImplicitObjectArgument();
    } else {
      break;
    }
  }
  std::reverse(conversions.begin(), conversions.end());
  result.expr = expr;
  return result;
}

}  // namespace modgen
