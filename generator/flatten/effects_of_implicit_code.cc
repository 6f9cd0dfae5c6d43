// Side effects of what C++ runs without an expression of its own: constructors of fields without an initializer,
// initializers that braces leave out, functions of a class that C++ defines, destructors, the calls of a range-based
// for.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>

#include "generator/flatten/effects_reader.h"
#include "generator/flatten/library_effects.h"
#include "generator/resolve/object_types.h"

namespace modgen {
namespace {

const clang::CXXRecordDecl* class_of_object(clang::QualType type) {
  const auto* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  return record && record->hasDefinition() && !record->isLambda() ? record->getDefinition() : nullptr;
}

/// The types of the objects that an object of the class of a library makes with itself.
std::vector<clang::QualType> parts_of_library(const clang::CXXRecordDecl& record) {
  const auto* instance = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(&record);
  const llvm::StringRef name = record.getName();
  const bool all = name == "pair" || name == "tuple";
  if (!instance || (!all && name != "array" && name != "variant" && name != "ModuleHolder")) return {};
  std::vector<clang::QualType> types = get_types(instance->getTemplateArgs().asArray());
  if (!all && types.size() > 1) types.resize(1);
  return types;
}

/// Calls `run` with the classes of the bases and fields.
template <class Run>
void each_part(const clang::CXXRecordDecl& record, Run&& run) {
  for (const clang::CXXBaseSpecifier& base : record.bases())
    if (const auto* part = class_of_object(base.getType())) run(*part);
  for (const clang::FieldDecl* field : record.fields())
    if (const auto* part = class_of_object(field->getType()); part && !record.isUnion()) run(*part);
}

}  // namespace

void EffectsReader::construct(clang::QualType type) {
  const clang::CXXRecordDecl* record = class_of_object(type);
  if (!record) return;
  if (!is_of_spec(*record)) {
    // A guard or a mode changes what every function of a library does.
    if (!is_of_standard(*record) && acts_at_its_end(type)) writes_anything();
    for (const clang::QualType part : parts_of_library(*record)) construct(part);
    return;
  }
  for (const clang::CXXConstructorDecl* constructor : record->ctors())
    if (constructor->isDefaultConstructor() && constructor->isUserProvided()) {
      run_elsewhere(*constructor);
      return;
    }
  construct_parts(*record);
}

void EffectsReader::construct_parts(const clang::CXXRecordDecl& record) {
  for (const clang::CXXBaseSpecifier& base : record.bases()) construct(base.getType());
  for (const clang::FieldDecl* field : record.fields())
    if (field->hasInClassInitializer() && field->getInClassInitializer())
      initialize_elsewhere(*field->getInClassInitializer());
    else if (!record.isUnion())
      construct(field->getType());
}

void EffectsReader::initialize_elsewhere(const clang::Expr& value) {
  EffectsReader inner(as_named(), *this);
  inner.visit(&value);
  add_elsewhere(inner);
}

void EffectsReader::construct_omitted(const clang::InitListExpr& list) {
  const clang::InitListExpr* all = list.isSemanticForm() ? &list : list.getSemanticForm();
  if (!all) return;
  const auto initialize = [&](const clang::Expr* value) {
    value = value ? value->IgnoreImplicit() : nullptr;
    if (!value) return;
    if (const auto* omitted = llvm::dyn_cast<clang::CXXDefaultInitExpr>(value))
      initialize_elsewhere(*omitted->getExpr());
    else if (const auto* inner = llvm::dyn_cast<clang::InitListExpr>(value))
      construct_omitted(*inner);
    else if (const auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(value); made && made->getNumArgs() == 0)
      construct(made->getType());
  };
  for (const clang::Expr* value : all->inits()) initialize(value);
  if (all->hasArrayFiller()) initialize(all->getArrayFiller());
}

void EffectsReader::run_memberwise(const clang::CXXMethodDecl& method) {
  const clang::CXXRecordDecl& record = *method.getParent();
  if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&method)) {
    if (constructor->isCopyOrMoveConstructor())
      return run_of_parts(record, [](const clang::CXXMethodDecl& one) {
        const auto* other = llvm::dyn_cast<clang::CXXConstructorDecl>(&one);
        return other && other->isCopyOrMoveConstructor();
      });
    if (const auto inherited = constructor->getInheritedConstructor()) run_elsewhere(*inherited.getConstructor());
    construct_parts(record);
  } else if (method.isCopyAssignmentOperator() || method.isMoveAssignmentOperator()) {
    run_of_parts(record, [](const clang::CXXMethodDecl& one) {
      return one.isCopyAssignmentOperator() || one.isMoveAssignmentOperator();
    });
  }
}

void EffectsReader::run_of_parts(const clang::CXXRecordDecl& record,
                                 const std::function<bool(const clang::CXXMethodDecl&)>& is_kind) {
  each_part(record, [&](const clang::CXXRecordDecl& part) {
    bool is_own = false;
    for (const clang::CXXMethodDecl* one : part.methods()) {
      if (!is_kind(*one)) continue;
      call_library(*one);
      if (!one->isUserProvided()) continue;
      is_own = true;
      run_elsewhere(*one);
    }
    if (!is_own && is_of_spec(part)) run_of_parts(part, is_kind);
  });
}

void EffectsReader::destroy(clang::QualType type) {
  const clang::CXXRecordDecl* record = class_of_object(type);
  if (!record || record->hasTrivialDestructor()) return;
  if (const clang::CXXDestructorDecl* destructor = record->getDestructor()) {
    add_classes_run_by(*destructor, found.held);
    run_elsewhere(*destructor);
  }
  if (is_of_spec(*record))
    each_part(*record, [&](const clang::CXXRecordDecl& part) { destroy(part.getASTContext().getRecordType(&part)); });
}

void EffectsReader::run_range(const clang::CXXForRangeStmt& loop) {
  const clang::Expr* range = loop.getRangeInit();
  if (!range || range->isTypeDependent()) return;
  bool modifies = false;
  const bool is_exact = has_exact_class(*range);
  for (const clang::DeclStmt* end : {loop.getBeginStmt(), loop.getEndStmt()}) {
    const auto* iterator = end ? llvm::dyn_cast<clang::VarDecl>(end->getSingleDecl()) : nullptr;
    if (iterator && iterator->getInit()) modifies |= run_callees(*iterator->getInit(), is_exact);
  }
  for (const clang::Expr* step : {loop.getCond(), loop.getInc()})
    if (step) run_callees(*step, true);
  if (modifies) write(range, true);
}

bool EffectsReader::run_callees(const clang::Stmt& code, bool is_exact) {
  struct Calls : SyntaxVisitor {
    std::vector<const clang::FunctionDecl*> found;
    bool VisitCallExpr(clang::CallExpr* call) override {
      const clang::FunctionDecl* callee = call->getDirectCallee();
      if (callee && is_of_spec(*callee)) found.push_back(callee);
      return true;
    }
    bool VisitStmt(clang::Stmt* statement) override {
      const auto* rewritten = llvm::dyn_cast<clang::CXXRewrittenBinaryOperator>(statement);
      return !rewritten || visit(rewritten->getSemanticForm());
    }
  } calls;
  calls.visit(&code);
  bool modifies = false;
  for (const clang::FunctionDecl* callee : calls.found)
    if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(callee); method && !method->isStatic())
      modifies |= run_elsewhere(*method, is_exact);
    else
      follow(*callee);
  return modifies;
}

void EffectsReader::run_special_members(const clang::CXXRecordDecl& record) {
  for (const clang::CXXMethodDecl* method : record.methods()) {
    const bool is_operator = method->isOverloadedOperator() || llvm::isa<clang::CXXConstructorDecl>(method);
    if (is_operator && !method->isDeleted()) run_elsewhere(*method);
  }
  construct_parts(record);
  destroy(record.getASTContext().getRecordType(&record));
}

SideEffects find_held_effects(const std::set<const clang::CXXRecordDecl*>& held) {
  static const MethodsMeant kNone;
  EffectsReader reader(kNone);
  for (const clang::CXXRecordDecl* record : held)
    if (record->hasDefinition()) reader.run_special_members(*record->getDefinition());
  SideEffects effects;
  effects.reads = std::move(reader.found.reads);
  effects.writes = std::move(reader.found.writes);
  effects.reads_everything = reader.found.reads_everything;
  effects.writes_everything = reader.found.writes_everything;
  return effects;
}

}  // namespace modgen
