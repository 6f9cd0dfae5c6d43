#include "generator/flatten/base_call.h"

#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <string>

#include "generator/resolve/effects.h"

namespace modgen {
namespace {

/// The call of skip_to that stands in the place of a base's arguments; null where there is none.
const clang::CallExpr* skipping(const clang::CXXConstructExpr& made) {
  if (made.getNumArgs() != 1) return nullptr;
  const auto* call = llvm::dyn_cast<clang::CallExpr>(made.getArg(0)->IgnoreUnlessSpelledInSource());
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  return callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == "modular::skip_to"
             ? call
             : nullptr;
}

/// The constructor of `record` that the arguments of `call` choose.
const clang::CXXConstructorDecl* chosen_constructor(const clang::CXXRecordDecl& record, const clang::CallExpr& call,
                                                    clang::Sema& sema) {
  llvm::SmallVector<clang::Expr*> arguments;
  for (const clang::Expr* argument : call.arguments())
    arguments.push_back(new (sema.Context) clang::OpaqueValueExpr(argument->getExprLoc(), argument->getType(),
                                                                  argument->getValueKind()));
  const auto entity = clang::InitializedEntity::InitializeTemporary(sema.Context.getRecordType(&record));
  const auto kind = clang::InitializationKind::CreateDirect(call.getBeginLoc(), call.getBeginLoc(), call.getEndLoc());
  clang::InitializationSequence sequence(sema, entity, kind, arguments);
  for (const auto& step : sequence.steps())
    if (step.Kind == clang::InitializationSequence::SK_ConstructorInitialization)
      return llvm::dyn_cast<clang::CXXConstructorDecl>(step.Function.Function);
  return nullptr;
}

}  // namespace

std::optional<BaseCall> base_call(const Family& family, const Entity& entity, size_t level,
                                  const clang::CXXCtorInitializer& init) {
  const Specs& specs = family.specs();
  const auto* record = init.getBaseClass()->getAsCXXRecordDecl();
  const Symbol* symbol = record ? specs.symbol(record) : nullptr;
  const auto level_of = [&](const Symbol* wanted, size_t from) {
    while (from < entity.levels.size() && entity.levels[from].symbol != wanted) ++from;
    return from;
  };
  BaseCall call;
  call.level = level_of(symbol, level + 1);
  if (!symbol || call.level == entity.levels.size()) return std::nullopt;
  const clang::Expr* value = init.getInit();
  const auto* made = value ? llvm::dyn_cast<clang::CXXConstructExpr>(value->IgnoreImplicit()) : nullptr;
  if (!made) {
    specs.refuse(family.parsed().span(specs.manager(), init.getSourceRange()),
                 "modgen cannot follow this initialization of the base", "call its constructor with parentheses");
    return call;
  }
  const clang::CXXConstructorDecl* target = made->getConstructor();
  call.arguments.assign(made->arg_begin(), made->arg_end());
  if (const clang::CallExpr* skip = skipping(*made)) {
    call.arguments.assign(skip->arg_begin(), skip->arg_end());
    const auto* ancestor =
        skip->getDirectCallee()->getTemplateSpecializationArgs()->get(1).getAsType()->getAsCXXRecordDecl();
    const size_t last = level_of(specs.symbol(ancestor), call.level);
    for (; call.level < last; ++call.level) call.skipped.push_back(call.level);
    target = chosen_constructor(*ancestor, *skip, specs.compiler().getSema());
    if (!target || call.level == entity.levels.size()) return call;  // a library's
  }
  while (const auto inherited = target->getInheritedConstructor()) target = inherited.getConstructor();
  while (call.level < entity.levels.size() &&
         entity.levels[call.level].symbol->record->getCanonicalDecl() != target->getParent()->getCanonicalDecl())
    ++call.level;
  const clang::FunctionDecl* definition = nullptr;
  // An implicit constructor does nothing here.
  if (call.level < entity.levels.size() && !target->isDefaulted() && target->getBody(definition))
    call.constructor = llvm::cast<clang::CXXConstructorDecl>(definition);
  return call;
}

Substitution base_arguments(Family& family, Entity& entity, const BaseCall& call, size_t level,
                            const Substitution& outer) {
  const Specs& specs = family.specs();
  const auto span = [&](clang::SourceRange range) { return family.parsed().span(specs.manager(), range); };
  const clang::CXXConstructorDecl& constructor = *call.constructor;
  const Effects effects = effects_of(constructor);
  Substitution arguments;
  for (unsigned index = 0; index < constructor.getNumParams(); ++index) {
    const clang::ParmVarDecl* parameter = constructor.getParamDecl(index);
    const clang::Expr* argument = index < call.arguments.size() ? call.arguments[index] : nullptr;
    const bool is_default = !argument || llvm::isa<clang::CXXDefaultArgExpr>(argument);
    if (is_default) argument = parameter->getDefaultArg();
    const int uses = effects.uses.count(parameter) ? effects.uses.at(parameter) : 0;
    if (effects_of(argument).changes_something)
      specs.refuse(
          span(argument->getSourceRange()),
          "this argument changes something, which would happen at another time where the base's constructor is "
          "unravelled",
          "compute it into a member that is initialized before the base",
          {{Diagnostic::Severity::note, span(constructor.getSourceRange()), "the base's constructor", "", {}}});
    else if (!is_repeatable_argument(*argument) && uses > 1)
      specs.refuse(
          span(argument->getSourceRange()),
          "this argument would be evaluated " + std::to_string(uses) +
              " times where the base's constructor is unravelled",
          "compute it once, into a member that is initialized before the base",
          {{Diagnostic::Severity::note, span(constructor.getSourceRange()), "the base's constructor", "", {}}});
    Fragment text = family.render(span(argument->getSourceRange()), entity.levels[is_default ? call.level : level],
                                  entity, is_default ? Substitution{} : outer);
    const clang::Expr* bare = argument->IgnoreImplicit();
    if (llvm::isa<clang::BinaryOperator, clang::AbstractConditionalOperator, clang::UnaryOperator>(bare) ||
        (llvm::isa<clang::CXXOperatorCallExpr>(bare) && !is_trivial_argument(*bare))) {
      Fragment wrapped("(");
      wrapped.append(text);
      wrapped.add(std::string(")"));
      text = wrapped;
    }
    arguments[parameter] = text;
  }
  return arguments;
}

}  // namespace modgen
