#include "generator/flatten/writes.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include "generator/flatten/library_effects.h"

namespace modgen {

void Writes::add(const clang::Expr& written, bool inside) {
  const clang::Expr* expr = written.IgnoreParenImpCasts();
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr)) {
    const clang::QualType type = member->getMemberDecl()->getType();
    if (inside || type->isReferenceType()) add_through(type);
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(member->getMemberDecl())) {
      found_.writes.insert("::" + variable->getNameAsString());
    } else if (is_this(member->getBase())) {
      const std::string field = member->getMemberDecl()->getNameAsString();
      found_.writes.insert(field.empty() ? kUnnamed : field);
    } else {
      add(*member->getBase(), member->isArrow());
    }
  } else if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(expr)) {
    add_variable(*name, inside);
  } else if (const auto* subscript = llvm::dyn_cast<clang::ArraySubscriptExpr>(expr)) {
    add(*subscript->getBase(), true);
  } else if (const auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr)) {
    add(*op->getArg(0), true);
  } else if (const auto* method = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
    if (is_this(method->getImplicitObjectArgument())) return found_.set_everything();
    add(*method->getImplicitObjectArgument(), true);
  } else if (const auto* call = llvm::dyn_cast<clang::CallExpr>(expr)) {
    if (!call->isGLValue() && (!inside || get_reach(call->getType()) == Reach::itself)) return;
    const clang::FunctionDecl* callee = call->getDirectCallee();
    const bool is_of_library = callee && (!callee->hasBody() || callee->isInStdNamespace());
    if (!is_of_library || call->getNumArgs() == 0) found_.set_everything();
    for (const clang::Expr* argument : call->arguments()) add(*argument, true);
  } else if (const auto* choice = llvm::dyn_cast<clang::AbstractConditionalOperator>(expr)) {
    add(*choice->getTrueExpr(), inside);
    add(*choice->getFalseExpr(), inside);
  } else if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr)) {
    add(*cast->getSubExpr(), inside);
  } else if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(expr)) {
    if (is_this(unary->getSubExpr())) return found_.set_everything();
    add(*unary->getSubExpr(), inside || unary->getOpcode() == clang::UO_Deref);
  } else if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(expr)) {
    const bool is_pointer = binary->getType()->isPointerType();
    if (binary->isAssignmentOp() || is_pointer) add(*binary->getLHS(), inside);
    if (binary->getOpcode() == clang::BO_Comma || is_pointer) add(*binary->getRHS(), inside);
  } else if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr)) {
    // A copied handle refers to the same object, and a view to what it is made of.
    const bool copies = construct->getNumArgs() == 1 && construct->getConstructor()->isCopyOrMoveConstructor();
    if (copies || get_reach(construct->getType()) == Reach::anything)
      for (const clang::Expr* argument : construct->arguments()) add(*argument, inside);
  } else if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(expr)) {
    if (get_reach(list->getType()) == Reach::anything)
      for (const clang::Expr* element : list->inits()) add(*element, inside);
  } else if (const auto* temporary = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(expr)) {
    add(*temporary->getSubExpr(), inside);
  } else if (const auto* temporary = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(expr)) {
    add(*temporary->getSubExpr(), inside);
  } else if (llvm::isa<clang::CXXThisExpr>(expr)) {
    found_.set_everything();
  }
}

void Writes::add_variable(const clang::DeclRefExpr& name, bool inside) {
  const auto* variable = llvm::dyn_cast<clang::VarDecl>(name.getDecl());
  if (const auto* binding = llvm::dyn_cast<clang::BindingDecl>(name.getDecl())) {
    const auto* decomposed = llvm::dyn_cast<clang::VarDecl>(binding->getDecomposedDecl());
    if (decomposed && decomposed->getInit()) add(*decomposed->getInit(), inside);
    return;
  }
  if (!variable) return;
  const clang::QualType type = variable->getType();
  if (!is_local(*variable)) {
    found_.writes.insert("::" + variable->getNameAsString());
    if (inside || type->isReferenceType()) add_through(type);
    return;
  }
  found_.written_variables.insert(variable);
  if (llvm::isa<clang::ParmVarDecl>(variable)) {
    if (inside) add_through(type.getNonReferenceType());
    return;
  }
  if (!followed_.insert({variable, inside}).second) return;
  // A reference or a handle: its source changes, too.
  const bool is_value = type->isArithmeticType() || type->isEnumeralType();
  if (!is_value && variable->getInit()) add(*variable->getInit(), inside);
}

void Writes::add_through(clang::QualType type) {
  const Reach reach = get_reach(type);
  if (reach == Reach::anything) found_.set_everything();
  if (reach == Reach::shared) found_.writes.insert(kShared);
}

}  // namespace modgen
