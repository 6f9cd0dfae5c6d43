#include "generator/resolve/object_types.h"

#include <clang/AST/Attr.h>
#include <clang/AST/ExprCXX.h>

#include <set>

#include "generator/resolve/origins.h"
#include "generator/resolve/specs.h"

namespace modgen {
namespace {

/// Templates whose instances lead to objects that exist elsewhere: their copies are not copies of these.
bool holds_no_copies(const clang::CXXRecordDecl& instance) {
  static const std::set<llvm::StringRef> names = {"shared_ptr",        "unique_ptr", "weak_ptr",
                                                  "reference_wrapper", "span",       "ModuleHolder",
                                                  "ModuleListOf",      "OneOf",      "initializer_list"};
  return names.count(instance.getName());
}

}  // namespace

const clang::CXXRecordDecl* get_class(clang::QualType type) {
  if (type.isNull()) return nullptr;
  if (type->isReferenceType() || type->isPointerType()) type = type->getPointeeType();
  const clang::CXXRecordDecl* record = type->getAsCXXRecordDecl();
  return record && record->hasDefinition() ? record->getDefinition() : nullptr;
}

bool is_namespace_of_spec(const clang::DeclContext& context) {
  const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(&context);
  const auto* outer = space ? llvm::dyn_cast<clang::NamespaceDecl>(space->getDeclContext()) : nullptr;
  return outer && outer->getName() == "modular" && outer->getDeclContext()->isTranslationUnit();
}

bool is_class_of_spec(const clang::CXXRecordDecl& record) { return is_namespace_of_spec(*record.getDeclContext()); }

bool is_declared_by_specs(const clang::FunctionDecl& function) {
  const clang::DeclContext* context = function.getDeclContext();
  while (context && !context->isNamespace() && !context->isTranslationUnit()) context = context->getParent();
  return context && is_namespace_of_spec(*context);
}

bool is_config(const clang::CXXRecordDecl& record) { return derives_from(record, "modular::Config"); }

std::vector<clang::QualType> get_types(llvm::ArrayRef<clang::TemplateArgument> arguments) {
  std::vector<clang::QualType> types;
  for (const clang::TemplateArgument& one : arguments) {
    if (one.getKind() == clang::TemplateArgument::Type) types.push_back(one.getAsType());
    if (one.getKind() == clang::TemplateArgument::Pack)
      for (const clang::QualType inner : get_types(one.pack_elements())) types.push_back(inner);
  }
  return types;
}

void add_classes(clang::QualType type, std::vector<const clang::CXXRecordDecl*>& found) {
  const clang::CXXRecordDecl* record = get_class(type);
  if (!record) return;
  if (const clang::CXXRecordDecl* held = held_by(*record)) record = held->getDefinition();
  if (record && is_class_of_spec(*record) && !is_config(*record)) found.push_back(record);
  const auto* instance = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(record);
  if (!instance) return;
  for (const clang::QualType one : get_types(instance->getTemplateArgs().asArray())) add_classes(one, found);
}

void add_held(clang::QualType type, std::vector<const clang::CXXRecordDecl*>& found) {
  if (type.isNull() || type->isReferenceType()) return;
  while (const clang::Type* element = type->getArrayElementTypeNoTypeQual()) type = clang::QualType(element, 0);
  const clang::CXXRecordDecl* record = type->isPointerType() ? nullptr : get_class(type);
  if (record && is_class_of_spec(*record) && !is_config(*record)) found.push_back(record);
  const auto* instance = llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(record);
  if (!instance || holds_no_copies(*instance)) return;
  for (const clang::QualType one : get_types(instance->getTemplateArgs().asArray())) add_held(one, found);
}

std::vector<const clang::Stmt*> get_method_bodies(const clang::CXXRecordDecl& record) {
  std::vector<const clang::Stmt*> bodies;
  for (const clang::Decl* decl : record.decls()) {
    const clang::FunctionDecl* method = decl->getAsFunction();
    if (const clang::Stmt* body = method && !method->isImplicit() ? method->getBody() : nullptr) bodies.push_back(body);
  }
  return bodies;
}

bool has_exact_class(const clang::Expr& object) {
  const clang::Expr* bare = object.IgnoreParenImpCasts();
  const clang::CXXRecordDecl* record = bare->getType()->getAsCXXRecordDecl();
  if (!record) return false;  // a pointer
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(bare);
  const auto* member = llvm::dyn_cast<clang::MemberExpr>(bare);
  const clang::ValueDecl* holder = name ? name->getDecl() : member ? member->getMemberDecl() : nullptr;
  const bool is_value = holder ? !holder->getType()->isReferenceType() : bare->isPRValue();
  return is_value || record->hasAttr<clang::FinalAttr>();
}

bool may_be_overridden(const clang::CXXMethodDecl& method, bool is_exact) {
  return !is_exact && method.isVirtual() && is_of_spec(*method.getParent()) && !method.hasAttr<clang::FinalAttr>();
}

}  // namespace modgen
