// Questions that code asks about types: flattening makes one class of several, and answers may differ.
#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprConcepts.h>
#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>

#include "generator/validate/match.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

/// Whether `expr` is a constant that depends on types: sizeof, a trait, a concept, a constant of a template.
bool asks_about_types(const clang::Expr& expr) {
  if (isa<clang::UnaryExprOrTypeTraitExpr, clang::TypeTraitExpr, clang::RequiresExpr, clang::ConceptSpecializationExpr,
          clang::CXXNoexceptExpr>(expr))
    return true;
  const auto* name = dyn_cast<clang::DeclRefExpr>(&expr);
  const auto* variable = name ? dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
  return variable && (isa<clang::VarTemplateSpecializationDecl>(variable) ||
                      isa<clang::ClassTemplateSpecializationDecl>(variable->getDeclContext()));
}

std::optional<llvm::APSInt> get_constant(const clang::Expr& expr, const clang::ASTContext& context) {
  clang::Expr::EvalResult result;
  if (expr.isValueDependent() || expr.isTypeDependent() || !expr.EvaluateAsRValue(result, context) ||
      !result.Val.isInt())
    return std::nullopt;
  return result.Val.getInt();
}

/// Whether the function of a library returns an object only if that has the type of its template argument:
/// std::any_cast, std::dynamic_pointer_cast, and of libtorch Module::as, AnyModule::get, SequentialImpl::at.
bool finds_by_type(const clang::FunctionDecl& function) {
  if (!function.getDeclName().isIdentifier()) return false;
  const llvm::StringRef name = function.getName();
  if (function.isInStdNamespace()) return name == "any_cast" || name == "dynamic_pointer_cast";
  const std::string qualified = function.getQualifiedNameAsString();
  return qualified.starts_with("torch::nn::") && (name == "as" || name == "get" || name == "ptr" || name == "at");
}

/// The types that `expr` distinguishes when it runs.
std::vector<clang::QualType> distinguished(const clang::Expr& expr) {
  if (const auto* cast = dyn_cast<clang::CXXDynamicCastExpr>(&expr))
    return {cast->getTypeAsWritten(), cast->getSubExpr()->getType()};
  if (const auto* id = dyn_cast<clang::CXXTypeidExpr>(&expr))
    return {id->isTypeOperand() ? id->getTypeOperandSourceInfo()->getType() : id->getExprOperand()->getType()};
  const auto* call = dyn_cast<clang::CallExpr>(&expr);
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  std::vector<clang::QualType> types;
  if (callee && callee->getTemplateSpecializationArgs() && finds_by_type(*callee))
    for (const clang::TemplateArgument& one : callee->getTemplateSpecializationArgs()->asArray())
      if (one.getKind() == clang::TemplateArgument::Type) types.push_back(one.getAsType());
  return types;
}

/// The size of the elements of which the function of a library gives the bytes: of a std::span.
std::optional<int64_t> size_of_bytes(const clang::Expr& expr, const clang::ASTContext& context) {
  const auto* call = dyn_cast<clang::CallExpr>(&expr);
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  if (!callee || !callee->isInStdNamespace() || !callee->getDeclName().isIdentifier()) return std::nullopt;
  const auto* span = dyn_cast<clang::ClassTemplateSpecializationDecl>(callee->getDeclContext());
  const clang::TemplateArgumentList* arguments = nullptr;
  if (callee->getName() == "as_bytes" || callee->getName() == "as_writable_bytes")
    arguments = callee->getTemplateSpecializationArgs();
  if (callee->getName() == "size_bytes" && span) arguments = &span->getTemplateArgs();
  if (!arguments || arguments->size() == 0 || arguments->get(0).getKind() != clang::TemplateArgument::Type)
    return std::nullopt;
  const clang::QualType element = arguments->get(0).getAsType();
  if (element->isDependentType() || element->isIncompleteType()) return std::nullopt;
  return context.getTypeSizeInChars(element).getQuantity();
}

}  // namespace

bool Match::is_merged(clang::QualType type) const {
  if (type->isReferenceType() || type->isPointerType()) type = type->getPointeeType();
  const clang::CXXRecordDecl* record = type->getAsCXXRecordDecl();
  const Symbol* symbol = record ? counterparts_.family().specs().symbol(record) : nullptr;
  const auto& entities = counterparts_.family().entities();
  return symbol && std::any_of(entities.begin(), entities.end(), [&](const auto& entity) {
           return entity->levels.size() > 1 &&
                  std::ranges::any_of(entity->levels, [&](const Level& one) { return one.symbol == symbol; });
         });
}

bool Match::distinguishes(const clang::SourceLocation at, clang::QualType type) {
  return !is_merged(type) || differs(at, "C++ distinguishes '" + type.getAsString() +
                                             "' here from the classes that derive from it or that it derives from");
}

bool Match::answers(const clang::Expr& flattened, const clang::Expr& spec) {
  for (const clang::QualType type : distinguished(spec))
    if (!distinguishes(flattened.getBeginLoc(), type)) return false;
  const clang::ASTContext& context = counterparts_.family().specs().compiler().getASTContext();
  if (size_of_bytes(flattened, context) != size_of_bytes(spec, context))
    return differs(flattened, "these are the bytes of another number of fields than in the spec");
  if (!asks_about_types(spec)) return true;
  const auto here = get_constant(flattened, context), there = get_constant(spec, context);
  return !here || !there || llvm::APSInt::isSameValue(*here, *there) ||
         differs(flattened, "this constant is another one for the types of the flattened classes");
}

}  // namespace modgen
