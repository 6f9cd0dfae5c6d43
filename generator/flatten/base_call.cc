#include "generator/flatten/base_call.h"

#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <string>

#include "generator/flatten/implicit_members.h"
#include "generator/flatten/operands.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// The skip_to call that is the only argument of a base's initializer; null if it has none.
const clang::CallExpr* find_skip_to(const clang::CXXConstructExpr& construct) {
  if (construct.getNumArgs() != 1) return nullptr;
  const auto* call = llvm::dyn_cast<clang::CallExpr>(construct.getArg(0)->IgnoreUnlessSpelledInSource());
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  return callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == "modular::skip_to"
             ? call
             : nullptr;
}

/// The constructor of `record` that overload resolution selects for the arguments `given`.
const clang::CXXConstructorDecl* chosen_constructor(const clang::CXXRecordDecl& record,
                                                    const std::vector<const clang::Expr*>& given,
                                                    clang::SourceRange where, clang::Sema& sema) {
  llvm::SmallVector<clang::Expr*> arguments;
  for (const clang::Expr* argument : given)
    arguments.push_back(new (sema.Context) clang::OpaqueValueExpr(argument->getExprLoc(), argument->getType(),
                                                                  argument->getValueKind()));
  const auto entity = clang::InitializedEntity::InitializeTemporary(sema.Context.getRecordType(&record));
  const auto kind = clang::InitializationKind::CreateDirect(where.getBegin(), where.getBegin(), where.getEnd());
  clang::InitializationSequence sequence(sema, entity, kind, arguments);
  for (const auto& step : sequence.steps())
    if (step.Kind == clang::InitializationSequence::SK_ConstructorInitialization)
      return llvm::dyn_cast<clang::CXXConstructorDecl>(step.Function.Function);
  return nullptr;
}

size_t find_level(const Entity& entity, const Symbol* wanted, size_t from) {
  while (from < entity.levels.size() && entity.levels[from].symbol != wanted) ++from;
  return from;
}

/// Stores in `call` the user-provided constructor that `constructor` runs: the constructor itself, or, if it is
/// defaulted, the default constructor of a base.
void run_written(const Specs& specs, const Entity& entity, const clang::CXXConstructorDecl& constructor,
                 BaseCall& call) {
  const clang::CXXConstructorDecl* target = &constructor;
  while (call.level < entity.levels.size() && target->isDefaulted() && target->isDefaultConstructor()) {
    const clang::CXXMethodDecl* next = nullptr;
    size_t level_of_next = call.level;
    for (const clang::CXXBaseSpecifier& base : target->getParent()->bases()) {
      const auto* base_record = base.getType()->getAsCXXRecordDecl();
      const Symbol* base_symbol = base_record ? specs.symbol(base_record) : nullptr;
      if (!base_symbol || !base_symbol->record) continue;
      level_of_next = find_level(entity, base_symbol, call.level);
      next = find_special_member(specs, *base_record, SpecialMember::default_constructor);
    }
    if (!next) break;
    target = llvm::cast<clang::CXXConstructorDecl>(next);
    call.level = find_level(entity, specs.symbol(target->getParent()), level_of_next);  // it may be inherited
    call.arguments.clear();
  }
  const clang::FunctionDecl* definition = nullptr;
  if (call.level < entity.levels.size() && !target->isDefaulted() && target->getBody(definition))
    call.constructor = llvm::cast<clang::CXXConstructorDecl>(definition);
}

}  // namespace

std::optional<BaseCall> base_call(const Family& family, const Entity& entity, size_t level,
                                  const clang::CXXCtorInitializer& init) {
  const Specs& specs = family.specs();
  const auto* record = init.getBaseClass()->getAsCXXRecordDecl();
  const Symbol* symbol = record ? specs.symbol(record) : nullptr;
  BaseCall call;
  call.level = find_level(entity, symbol, level + 1);
  if (!symbol || call.level == entity.levels.size()) return std::nullopt;
  const clang::Expr* value = init.getInit();
  const auto* construct = value ? llvm::dyn_cast<clang::CXXConstructExpr>(value->IgnoreImplicit()) : nullptr;
  if (!construct) {
    specs.reject(family.parsed().span(specs.manager(), init.getSourceRange()),
                 "modgen cannot follow this initialization of the base", "call its constructor with parentheses");
    return call;
  }
  const clang::CXXConstructorDecl* target = construct->getConstructor();
  if (target->isCopyOrMoveConstructor() && !target->isUserProvided() && !find_skip_to(*construct)) {
    specs.reject(family.parsed().span(specs.manager(), init.getSourceRange()),
                 "C++ copies the base's part of this class here, which modgen does not do",
                 "initialize the fields of the base one by one, or let C++ copy the whole object");
    return call;
  }
  call.arguments.assign(construct->arg_begin(), construct->arg_end());
  if (const clang::CallExpr* skip = find_skip_to(*construct)) {
    call.arguments.assign(skip->arg_begin(), skip->arg_end());
    const auto* ancestor =
        skip->getDirectCallee()->getTemplateSpecializationArgs()->get(1).getAsType()->getAsCXXRecordDecl();
    const size_t last = find_level(entity, specs.symbol(ancestor), call.level);
    for (; call.level < last; ++call.level) call.skipped.push_back(call.level);
    target = chosen_constructor(*ancestor, call.arguments, skip->getSourceRange(), specs.compiler().getSema());
    if (!target || call.level == entity.levels.size()) return call;  // a library's class
  }
  const auto level_of_target = [&](size_t at) {
    while (const auto inherited = target->getInheritedConstructor()) target = inherited.getConstructor();
    while (at < entity.levels.size() &&
           entity.levels[at].symbol->record->getCanonicalDecl() != target->getParent()->getCanonicalDecl())
      ++at;
    return at;
  };
  call.level = level_of_target(call.level);
  for (size_t at = level; at < call.level && call.level < entity.levels.size() && call.skipped.empty(); ++at) {
    if (entity.levels[at].under == 0) continue;
    // Both<Y, Z>: Y receives the arguments that Z passes to its base.
    for (const clang::Expr*& argument : call.arguments) argument = argument->IgnoreUnlessSpelledInSource();
    const Symbol& under = *entity.levels[at + 1].symbol;
    target = chosen_constructor(*under.record, call.arguments, init.getSourceRange(), specs.compiler().getSema());
    if (!target) {
      specs.reject(entity.levels.front().symbol->where,
                   "no constructor of '" + under.name + "' takes the arguments that '" +
                       entity.levels[at].symbol->name + "' passes to its base, which Both<…> replaces with it",
                   "derive from one of the two and make the other a member");
      call.level = entity.levels.size();
      return call;
    }
    call.level = level_of_target(at + 1);
  }
  run_written(specs, entity, *target, call);
  return call;
}

BaseCall default_base_call(const Family& family, const Entity& entity, size_t level,
                           const clang::CXXConstructorDecl& constructor) {
  BaseCall call;
  call.level = level;
  run_written(family.specs(), entity, constructor, call);
  return call;
}

namespace {

struct UseCounter : SyntaxVisitor {
  const clang::ParmVarDecl* parameter = nullptr;
  int uses = 0;
  bool captured = false;
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override {
    uses += expr->getDecl() == parameter;
    return true;
  }
  bool VisitLambdaExpr(clang::LambdaExpr* lambda) override {
    for (const clang::LambdaCapture& capture : lambda->explicit_captures())
      captured |= capture.capturesVariable() && capture.getCapturedVar() == parameter;
    if (lambda->getCaptureDefault() != clang::LCD_ByCopy) return true;
    UseCounter inside;  // of the lambda, which copies what it names
    inside.parameter = parameter;
    inside.visit(lambda->getBody());
    captured |= inside.uses > 0;
    return true;
  }
};

/// The parameter, which is passed by value, that `value` moves; null for other values.
const clang::ParmVarDecl* moved_parameter(const clang::Expr& value) {
  const auto* call = llvm::dyn_cast<clang::CallExpr>(value.IgnoreUnlessSpelledInSource());
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  if (!callee || call->getNumArgs() != 1 || callee->getQualifiedNameAsString() != "std::move") return nullptr;
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(call->getArg(0)->IgnoreParenImpCasts());
  const auto* parameter = name ? llvm::dyn_cast<clang::ParmVarDecl>(name->getDecl()) : nullptr;
  return parameter && !parameter->getType()->isReferenceType() ? parameter : nullptr;
}

/// Whether the argument is a value, the name of one, or moves a parameter that the other arguments do not name.
bool can_be_sunk(const BaseCall& call, const clang::Expr& argument, const SideEffects& effects) {
  if (effects.is_pure_and_ends()) return true;
  UseCounter counter;
  counter.parameter = moved_parameter(argument);
  if (!counter.parameter) return false;
  for (const clang::Expr* one : call.arguments) counter.visit(one);
  return counter.uses == 1;
}

/// Uses of one parameter by its constructor.
struct ParameterUses {
  int in_initializers = 0, in_body = 0;
  bool is_changed_in_initializers = false, is_changed_in_body = false;
  bool is_captured = false;                             // by a lambda, by name
  const clang::FieldDecl* initialized_field = nullptr;  // field of the same type that it alone initializes
  const clang::Expr* moved = nullptr;                   // std::move of it, which initializes such a field
  int uses() const { return in_initializers + in_body; }
};

ParameterUses find_uses(const clang::ParmVarDecl& parameter, const clang::CXXConstructorDecl& constructor,
                        const MethodsMeant& meant) {
  UseCounter counter;
  counter.parameter = &parameter;
  ParameterUses result;
  for (const clang::CXXCtorInitializer* init : constructor.inits()) {
    if (!init->isWritten() || !init->getInit()) continue;
    counter.visit(init->getInit());
    result.is_changed_in_initializers |=
        find_side_effects(init->getInit(), meant).written_variables.count(&parameter) != 0;
    const clang::Expr* value = init->getInit()->IgnoreImplicit();
    if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(value);
        construct && construct->getNumArgs() == 1)
      value = construct->getArg(0);
    value = value->IgnoreUnlessSpelledInSource();
    if (sunk_parameter(*value) == &parameter) {
      result.moved = value;
      value = llvm::cast<clang::CallExpr>(value)->getArg(0)->IgnoreUnlessSpelledInSource();
    }
    const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(value);
    const clang::FieldDecl* field = init->getAnyMember();
    if (name && name->getDecl() == &parameter && field &&
        field->getType().getCanonicalType().getUnqualifiedType() ==
            parameter.getType().getNonReferenceType().getCanonicalType().getUnqualifiedType())
      result.initialized_field = field;
  }
  result.in_initializers = counter.uses;
  counter.visit(constructor.getBody());
  result.in_body = counter.uses - result.in_initializers;
  result.is_captured = counter.captured;
  if (!result.initialized_field) result.moved = nullptr;
  if (result.moved) result.is_changed_in_initializers = false;  // the argument itself initializes the field
  result.is_changed_in_body |= find_side_effects(constructor.getBody(), meant).written_variables.count(&parameter) != 0;
  return result;
}

/// `text`, the spelling of `argument`, with the conversion to the parameter's type that the call performs.
Fragment converted(Family& family, Entity& entity, const Level& level, const clang::ParmVarDecl& parameter,
                   const clang::Expr& argument, Fragment text) {
  clang::TypeLoc type = parameter.getTypeSourceInfo()->getTypeLoc();
  if (const auto reference = type.getAs<clang::ReferenceTypeLoc>()) type = reference.getPointeeLoc();
  const SourceSpan where = family.parsed().span(family.specs().manager(), type.getUnqualifiedLoc().getSourceRange());
  const Fragment name = family.render(where, level, entity);
  const clang::Expr* spelled = argument.IgnoreUnlessSpelledInSource();
  const clang::QualType to = parameter.getType().getNonReferenceType();
  const bool is_integer_literal =
      llvm::isa<clang::IntegerLiteral>(spelled) && to->isArithmeticType() && !to->isBooleanType();
  const bool is_cast = !is_integer_literal && (to->isArithmeticType() || to->isPointerType());
  Fragment result;
  if (is_cast) result.add(std::string("static_cast<"));
  if (to->isPointerType())
    result.add(family.type_text(to, level, entity));
  else
    result.append(name);
  result.add(std::string(is_integer_literal ? "{" : is_cast ? ">(" : "("));
  result.append(text);
  result.add(std::string(is_integer_literal ? "}" : ")"));
  return result;
}

}  // namespace

const clang::ParmVarDecl* sunk_parameter(const clang::Expr& value) {
  const clang::ParmVarDecl* parameter = moved_parameter(value);
  const auto* constructor =
      parameter ? llvm::dyn_cast<clang::CXXConstructorDecl>(parameter->getDeclContext()) : nullptr;
  if (!constructor) return nullptr;
  UseCounter counter;
  counter.parameter = parameter;
  for (const clang::CXXCtorInitializer* init : constructor->inits())
    if (init->isWritten() && init->getInit()) counter.visit(init->getInit());
  counter.visit(constructor->getBody());
  return counter.uses == 1 && !counter.captured ? parameter : nullptr;
}

BoundArguments base_arguments(Family& family, Entity& entity, const BaseCall& call, size_t level,
                              const Substitution& outer) {
  const Specs& specs = family.specs();
  const auto span = [&](clang::SourceRange range) { return family.parsed().span(specs.manager(), range); };
  const clang::CXXConstructorDecl& constructor = *call.constructor;
  const MethodsMeant meant = methods_meant(entity);
  const SideEffects initializers = find_initializer_effects(constructor, meant);
  SideEffects base = initializers;
  add(base, find_side_effects(constructor.getBody(), meant));
  for (const clang::CXXCtorInitializer* init : constructor.inits())
    if (init->isAnyMemberInitializer()) base.writes.insert(init->getAnyMember()->getNameAsString());
  // The same with the changes that the constructor makes through parameters of reference types, which a value that it
  // is passed does not see.
  Arguments passed;
  for (unsigned index = 0; index < constructor.getNumParams(); ++index) {
    const clang::Expr* argument = index < call.arguments.size() ? call.arguments[index] : nullptr;
    if (argument && !llvm::isa<clang::CXXDefaultArgExpr>(argument)) passed[constructor.getParamDecl(index)] = argument;
  }
  SideEffects initializers_by_name = initializers, base_by_name = base;
  add(initializers_by_name, find_initializer_effects(constructor, meant, passed));
  add(base_by_name, initializers_by_name);
  add(base_by_name, find_side_effects(constructor.getBody(), meant, passed));
  BoundArguments bound;
  for (unsigned index = 0; index < constructor.getNumParams(); ++index) {
    const clang::ParmVarDecl* parameter = constructor.getParamDecl(index);
    const clang::Expr* argument = index < call.arguments.size() ? call.arguments[index] : nullptr;
    const bool is_default = !argument || llvm::isa<clang::CXXDefaultArgExpr>(argument);
    if (is_default) argument = parameter->getDefaultArg();
    const size_t from = is_default ? call.level : level;
    const ParameterUses uses = find_uses(*parameter, constructor, meant);
    const SideEffects effects = find_side_effects(argument, meant);
    const clang::Expr* spelled = argument->IgnoreUnlessSpelledInSource();
    const clang::QualType type = parameter->getType();
    const bool by_value = !type->isReferenceType();
    const bool commutes = commute(effects, by_value ? base_by_name : base);
    const bool is_same = family.type_text(spelled->getType(), entity.levels[from], entity) ==
                         family.type_text(type, entity.levels[call.level], entity);
    if (is_list(family, span(argument->getSourceRange())) && uses.uses() > 0 &&
        (is_default || !uses.initialized_field)) {
      specs.reject(span(argument->getSourceRange()), "a list as an argument of the base's constructor",
                   "write its type before it");
      continue;
    }
    const std::vector<Remark> notes = {
        {Diagnostic::Severity::note, span(constructor.getSourceRange()), "the base's constructor", "", {}}};
    Fragment text = family.render(span(argument->getSourceRange()), entity.levels[from], entity,
                                  is_default ? Substitution{} : outer);
    const bool is_sunk = by_value && uses.moved && uses.uses() == 1 && can_be_sunk(call, *argument, effects) &&
                         (effects.is_pure() ? commutes : commute(effects, base));
    if (!is_sunk && !effects.is_pure_and_ends()) {
      specs.reject(
          span(argument->getSourceRange()),
          effects.is_pure()
              ? "this argument may throw, which would be at another time when the base's constructor is inlined"
              : "this argument has side effects, which would run at another time when the base's constructor is "
                "inlined",
          "compute it into a member that is initialized before the base", notes);
      continue;
    }
    const bool would_repeat = uses.uses() > 1 && !is_repeatable_argument(*argument);
    const bool is_variable = (by_value && (uses.is_changed_in_initializers || uses.is_changed_in_body)) ||
                             (uses.is_captured && !names_local(*spelled)) || would_repeat ||
                             (!is_default && !commutes && uses.uses() > 0);
    // Initializers read the argument; the body modifies a variable of its own.
    const bool is_both = is_variable && uses.in_initializers > 0 && !uses.is_changed_in_initializers &&
                         !uses.is_captured && commutes &&
                         (is_repeatable_argument(*argument) || uses.in_initializers == 0);
    const Fragment given = text;
    if (is_sunk) {
      bound.moves.push_back({span(uses.moved->getSourceRange()), text});
      continue;
    }
    if (!is_variable || is_both) {
      const bool stays = is_same || (uses.initialized_field && uses.uses() == 1);
      if (!stays) text = converted(family, entity, entity.levels[call.level], *parameter, *argument, text);
      bound.substitution.texts[parameter] = stays ? tight(std::move(text), *argument) : std::move(text);
      if (is_both) bound.variables.push_back({parameter, given});
    } else if (uses.in_initializers == 0 && commute(effects, by_value ? initializers_by_name : initializers)) {
      bound.variables.push_back({parameter, text});
    } else if (would_repeat) {
      specs.reject(span(argument->getSourceRange()),
                   "this argument would be evaluated " + std::to_string(uses.uses()) +
                       " times when the base's constructor is inlined",
                   "compute it once, into a member that is initialized before the base", notes);
    } else if (uses.is_captured) {
      specs.reject(span(argument->getSourceRange()),
                   "a lambda in an initializer of the base's constructor captures this argument, and would read it "
                   "later when the base's constructor is inlined",
                   "pass a parameter of the constructor, or make the lambda in the body of the base's constructor",
                   notes);
    } else {
      specs.reject(
          span(argument->getSourceRange()),
          "the base's constructor modifies what this argument reads, and uses the argument in its initializers",
          "compute it into a member that is initialized before the base, or change the base's constructor", notes);
    }
  }
  return bound;
}

}  // namespace modgen
