// Expressions of a flattened body and the spec's: what they name, their types and their conversions.
#include "generator/validate/match.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "generator/flatten/base_call.h"
#include "generator/resolve/registrations.h"
#include "generator/resolve/specs.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

bool is_function(const clang::CallExpr& call, llvm::StringRef name) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  return callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == name;
}

const clang::NestedNameSpecifier* qualifier(const clang::Expr& callee) {
  const clang::Expr* name = callee.IgnoreParenImpCasts();
  if (const auto* member = dyn_cast<clang::MemberExpr>(name)) return member->getQualifier();
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(name)) return reference->getQualifier();
  return nullptr;
}

/// The name of a function in flattened text without the namespace that is only around it here.
std::string without_extra_space(std::string name) {
  constexpr std::string_view kExtra = "flattened::";
  for (size_t at; (at = name.find(kExtra)) != std::string::npos;) name.erase(at, kExtra.size());
  return name;
}

/// The kind of a conversion, without its types.
std::string get_kind(const clang::Expr& conversion) {
  if (const auto* cast = dyn_cast<clang::ImplicitCastExpr>(&conversion)) return cast->getCastKindName();
  return isa<clang::CXXConstructExpr>(conversion) ? "construction" : "conversion function";
}

bool is_member_of_local_type(const clang::ValueDecl& decl) {
  const auto* record = dyn_cast<clang::CXXRecordDecl>(decl.getDeclContext());
  const auto* type = dyn_cast<clang::TagDecl>(decl.getDeclContext());
  return type && type->getParentFunctionOrMethod() && !(record && record->isLambda());
}

/// Whether instances of one function template have the same numbers as template arguments.
bool same_numbers(const clang::ValueDecl& flattened, const clang::ValueDecl& spec) {
  const auto arguments = [](const clang::ValueDecl& decl) {
    const auto* function = dyn_cast<clang::FunctionDecl>(&decl);
    return function ? function->getTemplateSpecializationArgs() : nullptr;
  };
  const clang::TemplateArgumentList *here = arguments(flattened), *there = arguments(spec);
  if (!here || !there || here->size() != there->size()) return true;
  for (unsigned index = 0; index < here->size(); ++index) {
    const clang::TemplateArgument &one = here->get(index), &other = there->get(index);
    if (one.getKind() == clang::TemplateArgument::Integral && other.getKind() == one.getKind() &&
        !llvm::APSInt::isSameValue(one.getAsIntegral(), other.getAsIntegral()))
      return false;
  }
  return true;
}

/// Whether a conversion of numbers may lose information. Kinds of built-in types are ordered by size, unsigned ones
/// first.
bool narrows(const clang::Expr& conversion) {
  const auto* cast = dyn_cast<clang::ImplicitCastExpr>(&conversion);
  if (!cast || isa<clang::IntegerLiteral>(cast->getSubExpr()->IgnoreParens())) return false;
  const clang::QualType from = cast->getSubExpr()->getType(), to = cast->getType();
  switch (cast->getCastKind()) {
    case clang::CK_FloatingToIntegral:
    case clang::CK_FloatingToBoolean:
    case clang::CK_IntegralToBoolean:
      return true;
    case clang::CK_FloatingCast:
    case clang::CK_IntegralCast: {
      return to->isBuiltinType() && from->isBuiltinType() &&
             to->castAs<clang::BuiltinType>()->getKind() < from->castAs<clang::BuiltinType>()->getKind();
    }
    default:
      return false;
  }
}

}  // namespace

bool Match::expression(const clang::Expr* flattened, const clang::Expr* spec, const BindingScope& scope) {
  const bool converts_freely = std::exchange(converts_freely_, false);
  const Written here = written(flattened), there = written(spec);
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(there.expr))
    if (const auto* parameter = dyn_cast<clang::ParmVarDecl>(reference->getDecl()))
      if (const auto given = scope.arguments.find(parameter); given != scope.arguments.end())
        return argument(here, there, *given->second, scope);
  if (const clang::ParmVarDecl* parameter = sunk_parameter(*there.expr))
    if (const auto given = scope.arguments.find(parameter); given != scope.arguments.end())
      return argument(here, written(clang::cast<clang::CallExpr>(there.expr)->getArg(0)), *given->second, scope);
  if (const auto* call = dyn_cast<clang::CallExpr>(there.expr)) {
    if (is_function(*call, "modular::own") && call->getNumArgs() == 1) {
      redefined_ = true;  // own() marks a redefined type
      const bool same = expression(here.expr, call->getArg(0), scope);
      redefined_ = true;
      return same;
    }
    if (const clang::CXXMethodDecl* callee = super_callee(*call, scope); callee && !calls(here.expr, *callee))
      return inlined(here, there, *call, scope);
  }
  if (const auto* flag = dyn_cast<clang::CXXBoolLiteralExpr>(here.expr);
      flag && !isa<clang::CXXBoolLiteralExpr>(there.expr))
    if (const clang::VarDecl* constant = counterparts_.constant(*there.expr, scope.context))
      return folded(*flag, *constant, here, there, scope);
  redefined_ = false;
  if (!nodes(*here.expr, *there.expr, scope) || !libraries(*here.expr, *there.expr, scope) ||
      !made_objects(*here.expr, *there.expr, scope))
    return false;
  ++validation_.expressions;
  if (redefined_) {
    ++validation_.by_redefinition;
    return true;
  }
  std::vector<std::pair<const clang::Expr*, const BindingScope*>> conversions;
  for (const clang::Expr* one : there.conversions) conversions.emplace_back(one, &scope);
  // A number that was selected from variables and is now selected from constants is the same number.
  const bool is_choice =
      isa<clang::ConditionalOperator>(here.expr) && here.expr->getType()->isArithmeticType() && here.expr->isPRValue();
  if (here.expr->getValueKind() != there.expr->getValueKind() && !is_choice)
    return differs(*here.expr, "this is another category of value than in the spec");
  // The type of a renamed string differs in its length.
  const bool is_text = isa<clang::StringLiteral, clang::PredefinedExpr>(here.expr->IgnoreParens());
  return (is_text || same_type(*here.expr, *there.expr, scope)) &&
         (converts_freely ? widens(here, conversions.size()) : same_conversions(here, conversions, *here.expr));
}

/// A function's replacement may take other types, but must not lose information of an argument that inherited code
/// passes.
bool Match::widens(const Written& argument, size_t conversions_before) {
  for (size_t index = conversions_before; index < argument.conversions.size(); ++index)
    if (const clang::Expr& one = *argument.conversions[index]; narrows(one))
      return differs(*argument.expr, "this is narrowed to '" + one.getType().getAsString() +
                                         "' by the family's replacement of the called function");
  return true;
}

/// Compares a config flag that the family turned into a constant with the constant's value.
bool Match::folded(const clang::CXXBoolLiteralExpr& flag, const clang::VarDecl& constant, const Written& flattened,
                   const Written& spec, const BindingScope& scope) {
  ++validation_.expressions;
  redefined_ = false;
  const clang::APValue* value = constant.evaluateValue();
  if (!value || !value->isInt() || (value->getInt() != 0) != flag.getValue())
    return differs(flag, "this value differs from '" + constant.getNameAsString() + "'");
  std::vector<std::pair<const clang::Expr*, const BindingScope*>> conversions;
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &scope);
  return same_conversions(flattened, conversions, flag);
}

bool Match::same_type(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope) {
  // A list in a template has no type.
  if (spec.getType().isNull() || flattened.getType().isNull())
    return spec.getType().isNull() == flattened.getType().isNull();
  if (flattened.getType().getCanonicalType() == spec.getType().getCanonicalType()) return true;
  const std::string here = counterparts_.type_of_flattened(flattened.getType()),
                    there = counterparts_.type_of_spec(spec.getType(), scope.context);
  return here == there || differs(flattened, "this is of type '" + here + "', and '" + there + "' in the spec");
}

bool Match::same_conversions(const Written& flattened,
                             const std::vector<std::pair<const clang::Expr*, const BindingScope*>>& spec,
                             const clang::Expr& at) {
  const bool same = std::equal(flattened.conversions.begin(), flattened.conversions.end(), spec.begin(), spec.end(),
                               [&](const clang::Expr* here, const auto& there) {
                                 return get_kind(*here) == get_kind(*there.first) &&
                                        counterparts_.type_of_flattened(here->getType()) ==
                                            counterparts_.type_of_spec(there.first->getType(), there.second->context);
                               });
  if (same) {
    for (size_t index = 0; index < spec.size(); ++index)
      if (!same_callee(*flattened.conversions[index], *spec[index].first, *spec[index].second)) return false;
    return true;
  }
  const auto& odd = flattened.conversions.size() >= spec.size() && !flattened.conversions.empty()
                        ? counterparts_.type_of_flattened(flattened.conversions.back()->getType())
                        : counterparts_.type_of_spec(spec.back().first->getType(), spec.back().second->context);
  return differs(at, "this is converted differently than in the spec (to '" + odd + "')");
}

bool Match::argument(const Written& flattened, const Written& spec, const clang::Expr& given,
                     const BindingScope& scope) {
  const auto& parameter = *clang::cast<clang::ParmVarDecl>(clang::cast<clang::DeclRefExpr>(spec.expr)->getDecl());
  const bool is_default = parameter.getDefaultArg() == &given;
  const BindingScope& there = is_default ? scope : *scope.outer;
  const Written argument = written(&given);
  std::vector<std::pair<const clang::Expr*, const BindingScope*>> conversions;
  Written here = flattened;
  const auto* cast = dyn_cast<clang::ExplicitCastExpr>(here.expr);
  const auto* list = dyn_cast<clang::InitListExpr>(here.expr);
  // If a parameter is passed on, its argument may have been converted where the outer parameter was bound.
  const auto* passed_on = dyn_cast<clang::DeclRefExpr>(argument.expr);
  const auto* outer = passed_on ? dyn_cast<clang::ParmVarDecl>(passed_on->getDecl()) : nullptr;
  const bool is_converted_here = !outer || !there.arguments.count(outer) || !argument.conversions.empty();
  const bool is_cast =
      is_converted_here && ((cast && !isa<clang::ExplicitCastExpr>(argument.expr)) ||
                            (list && list->getNumInits() == 1 && !isa<clang::InitListExpr>(argument.expr)));
  if (is_cast) {
    // The conversion of the call, as an explicit cast.
    if (!same_type(*here.expr, *spec.expr, scope)) return false;
    Written inner = written(cast ? cast->getSubExpr() : list->getInit(0));
    if (const auto* braces = dyn_cast<clang::InitListExpr>(inner.expr); braces && braces->getNumInits() == 1)
      inner = written(braces->getInit(0));
    for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &scope);
    if (!same_conversions(here, conversions, *here.expr)) return false;
    return expression(inner.expr, argument.expr, there);
  }
  for (const clang::Expr* one : argument.conversions) conversions.emplace_back(one, &there);
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &scope);
  if (!same_conversions(here, conversions, *here.expr)) return false;
  return expression(here.expr, argument.expr, there);
}

bool Match::inlined(const Written& flattened, const Written& spec, const clang::CallExpr& call,
                    const BindingScope& scope) {
  const clang::CXXMethodDecl* callee = super_callee(call, scope);
  const clang::FunctionDecl* definition = nullptr;
  const Statements body = callee->getBody(definition) ? get_statements(definition->getBody()) : Statements{};
  const auto* returned = body.size() == 1 ? dyn_cast<clang::ReturnStmt>(body[0]) : nullptr;
  if (!returned || !returned->getRetValue()) return differs(*flattened.expr, "this is not the super call's value");
  const BindingScope there = called(*callee, call, scope);
  const Written value = written(returned->getRetValue());
  if (!expression(flattened.expr, value.expr, there)) return false;
  if (redefined_) return true;
  // The value undergoes the call's conversions, after those of the return statement.
  std::vector<std::pair<const clang::Expr*, const BindingScope*>> conversions;
  for (const clang::Expr* one : value.conversions) conversions.emplace_back(one, &there);
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &scope);
  const std::string type = counterparts_.type_of_flattened(flattened.expr->getType()),
                    wanted = counterparts_.type_of_spec(call.getType(), there.context);
  if (type != wanted && value.conversions.empty())
    return differs(*flattened.expr,
                   "this is of type '" + type + "', but the super call's value is of type '" + wanted + "'");
  return same_conversions(flattened, conversions, *flattened.expr);
}

bool Match::nodes(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope) {
  if (const auto* call = dyn_cast<clang::CallExpr>(&spec); call && is_function(*call, "modular::remake")) {
    // register_module("name", value), as the member was registered.
    const auto* flattened_part = dyn_cast<clang::CallExpr>(&flattened);
    const auto registration = replaced_registration(*call);
    const clang::StringLiteral* name = flattened_part ? registered_literal(*flattened_part) : nullptr;
    if (!registration || !name || flattened_part->getDirectCallee()->getName() != registration->function ||
        !is_name_for(registration->name, name->getString().str(), scope))
      return differs(flattened, "this does not register the member that the spec replaces with remake");
    const bool same = expression(flattened_part->getArg(1), call->getArg(1), scope);
    redefined_ = true;
    return same;
  }
  // Code may name a static member as a member of the object.
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&spec))
    if (const auto* member = dyn_cast<clang::MemberExpr>(&flattened);
        member && isa<clang::CXXThisExpr>(member->getBase()))
      return refers(*member->getMemberDecl(), *reference->getDecl(), flattened, scope, names_base(*reference));
  // A family may replace a field by a constant.
  if (const auto* member = dyn_cast<clang::MemberExpr>(&spec); member && isa<clang::CXXThisExpr>(member->getBase()))
    if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&flattened))
      return refers(*reference->getDecl(), *member->getMemberDecl(), flattened, scope, names_base(*member));
  if (flattened.getStmtClass() != spec.getStmtClass())
    return differs(flattened, "this is another kind of expression than in the spec");
  if (!answers(flattened, spec)) return false;
  if (const auto* names = dyn_cast<clang::OverloadExpr>(&spec))
    if (!overloads(*clang::cast<clang::OverloadExpr>(&flattened), *names, scope)) return false;
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&spec))
    return refers(*clang::cast<clang::DeclRefExpr>(&flattened)->getDecl(), *reference->getDecl(), flattened, scope,
                  names_base(*reference));
  if (const auto* member = dyn_cast<clang::MemberExpr>(&spec)) {
    const auto& flattened_part = *clang::cast<clang::MemberExpr>(&flattened);
    if (!expression(flattened_part.getBase(), member->getBase(), scope)) {
      return false;
    }
    // A member of an object whose class the family redefines.
    if (redefined_ && flattened_part.getMemberDecl()->getDeclName() == member->getMemberDecl()->getDeclName())
      return true;
    return refers(*flattened_part.getMemberDecl(), *member->getMemberDecl(), flattened, scope, names_base(*member));
  }
  if (isa<clang::CXXThisExpr, clang::SourceLocExpr>(spec)) return true;
  if (const auto* name = dyn_cast<clang::PredefinedExpr>(&spec)) {
    const auto& other = *clang::cast<clang::PredefinedExpr>(&flattened);
    const clang::StringLiteral *here = other.getFunctionName(), *there = name->getFunctionName();
    if (!here || !there) return true;  // in a template, of which instances are compared
    return without_extra_space(here->getBytes().str()) == there->getBytes() || !is_written_in_spec(spec) ||
           differs(flattened, "this is the name of another function than in the spec");
  }
  if (const auto* op = dyn_cast<clang::CXXOperatorCallExpr>(&spec)) {
    // The operands first: they decide which operator function it is.
    const auto& flattened_part = *clang::cast<clang::CXXOperatorCallExpr>(&flattened);
    if (op->getOperator() != flattened_part.getOperator() || op->getNumArgs() != flattened_part.getNumArgs())
      return differs(flattened, "this is another operator than in the spec");
    bool redefined = false;
    for (unsigned index = 0; index < op->getNumArgs(); ++index) {
      if (!expression(flattened_part.getArg(index), op->getArg(index), scope)) return false;
      redefined |= redefined_;
    }
    redefined_ = redefined;
    return redefined || expression(flattened_part.getCallee(), op->getCallee(), scope);
  }
  if (const auto* text = dyn_cast<clang::StringLiteral>(&spec))
    return literals(*clang::cast<clang::StringLiteral>(&flattened), *text, scope);
  if (const auto* number = dyn_cast<clang::IntegerLiteral>(&spec))
    return clang::cast<clang::IntegerLiteral>(&flattened)->getValue() == number->getValue() || skips_place(spec) ||
           differs(flattened, "this is another number than in the spec");
  if (const auto* number = dyn_cast<clang::FloatingLiteral>(&spec))
    return clang::cast<clang::FloatingLiteral>(&flattened)->getValue().bitwiseIsEqual(number->getValue()) ||
           differs(flattened, "this is another number than in the spec");
  if (const auto* flag = dyn_cast<clang::CXXBoolLiteralExpr>(&spec))
    return clang::cast<clang::CXXBoolLiteralExpr>(&flattened)->getValue() == flag->getValue() ||
           differs(flattened, "this is another value than in the spec");
  if (const auto* op = dyn_cast<clang::BinaryOperator>(&spec);
      op && clang::cast<clang::BinaryOperator>(&flattened)->getOpcode() != op->getOpcode())
    return differs(flattened, "this is another operator than in the spec");
  if (const auto* op = dyn_cast<clang::UnaryOperator>(&spec);
      op && clang::cast<clang::UnaryOperator>(&flattened)->getOpcode() != op->getOpcode())
    return differs(flattened, "this is another operator than in the spec");
  if (const auto* closure = dyn_cast<clang::LambdaExpr>(&spec))
    return lambda(*clang::cast<clang::LambdaExpr>(&flattened), *closure, scope);
  if (const auto* trait = dyn_cast<clang::UnaryExprOrTypeTraitExpr>(&spec); trait && trait->isArgumentType())
    return true;
  return children(flattened, spec, scope);
}

bool Match::lambda(const clang::LambdaExpr& flattened, const clang::LambdaExpr& spec, const BindingScope& scope) {
  parameters(*flattened.getCallOperator(), *spec.getCallOperator());
  // Implicit captures follow from the body.
  const auto number = [](const clang::LambdaExpr& lambda) {
    return std::distance(lambda.explicit_capture_begin(), lambda.explicit_capture_end());
  };
  if (number(flattened) != number(spec) || flattened.getCaptureDefault() != spec.getCaptureDefault())
    return differs(flattened, "this captures other variables than in the spec");
  auto flattened_part = flattened.explicit_capture_begin();
  for (const clang::LambdaCapture& capture : spec.explicit_captures()) {
    const clang::LambdaCapture& other = *flattened_part++;
    if (capture.getCaptureKind() != other.getCaptureKind())
      return differs(flattened, "this captures differently than in the spec");
    if (!capture.capturesVariable()) continue;
    if (spec.isInitCapture(&capture)) {
      locals_[capture.getCapturedVar()] = other.getCapturedVar();
      const auto* init = llvm::cast<clang::VarDecl>(capture.getCapturedVar())->getInit();
      const auto* other_init = llvm::cast<clang::VarDecl>(other.getCapturedVar())->getInit();
      if (init && other_init && !expression(other_init, init, scope)) return false;
    }
  }
  const bool same = sequence(get_statements(flattened.getBody()), get_statements(spec.getBody()), scope);
  redefined_ = false;
  return same;
}

bool Match::refers(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const clang::Expr& at,
                   const BindingScope& scope, bool exactly) {
  if (is_member_of_local_type(spec))
    return is_local_member(flattened, spec) || differs(at, "'" + flattened.getNameAsString() + "' is not the member '" +
                                                               spec.getNameAsString() + "' that the spec names");
  const auto* variable = dyn_cast<clang::VarDecl>(&spec);
  if (isa<clang::BindingDecl>(spec) || (variable && variable->isLocalVarDeclOrParm())) {
    const auto known = locals_.find(&spec);
    if (known != locals_.end() && known->second == &flattened) return true;
    return differs(at, "'" + flattened.getNameAsString() + "' is not the variable '" + spec.getNameAsString() +
                           "' that the spec names");
  }
  if (!counterparts_.is_meant(flattened, spec, scope.context, exactly)) {
    const auto* owner = dyn_cast<clang::NamedDecl>(spec.getDeclContext());
    return differs(at, "'" + flattened.getNameAsString() + "' has another meaning here than '" +
                           (owner ? owner->getNameAsString() + "::" : std::string()) + spec.getNameAsString() +
                           "' that the spec names");
  }
  if (!same_numbers(flattened, spec))
    return differs(at, "this is another instance of '" + spec.getNameAsString() + "' than in the spec");
  if (flattened.getType().getCanonicalType() != spec.getType().getCanonicalType())
    redefined_ |= counterparts_.type_of_flattened(flattened.getType()) !=
                  counterparts_.type_of_spec(spec.getType(), scope.context);
  return instances(flattened, spec, scope);
}

bool Match::literals(const clang::StringLiteral& flattened, const clang::StringLiteral& spec,
                     const BindingScope& scope) {
  if (flattened.getBytes() == spec.getBytes()) return true;
  const Level& level = *scope.context.level;
  const std::string before = spec.getBytes().str(), after = flattened.getBytes().str();
  if (counterparts_.family().specs().is_text(spec)) {
    if (skips_place(spec)) return true;
    // Prose with the family's name, or the name of a member.
    const Family& family = counterparts_.family();
    if (family.message_text(before, level, *scope.context.entity) == after ||
        renamed_prose(before, /*is_comment=*/false, level.symbol->spec->names, family.spec().names) == after)
      return true;
  }
  if (!is_written_in_spec(spec))
    return differs(flattened, "a macro makes this text of names, which are others than in the spec");
  return is_name_for(before, after, scope) || differs(flattened, "this is another text than in the spec");
}

/// Whether a token of a spec is the literal, as opposed to one that a macro of a library has, or makes of a place or of
/// its argument.
bool Match::is_written_in_spec(const clang::Expr& literal) const {
  const SourceSpan where = counterparts_.locate(counterparts_.manager().getSpellingLoc(literal.getBeginLoc()));
  return counterparts_.family().specs().of_file(where.file) != nullptr;
}

/// Counts a literal that a library's macro makes, as checks do of the place and the condition.
bool Match::skips_place(const clang::Expr& literal) {
  if (is_written_in_spec(literal)) return false;
  ++validation_.skipped["literals that macros make from source locations and conditions"];
  return true;
}

bool Match::names_base(const clang::Expr& name) const {
  const clang::NestedNameSpecifier* named = qualifier(name);
  return named && named->getAsType();
}

const clang::CXXMethodDecl* Match::super_callee(const clang::CallExpr& call, const BindingScope& scope) const {
  const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(call.getDirectCallee());
  const clang::NestedNameSpecifier* named = method ? qualifier(*call.getCallee()) : nullptr;
  if (!named || !named->getAsType()) return nullptr;
  const auto* member = dyn_cast<clang::MemberExpr>(call.getCallee()->IgnoreParenImpCasts());
  if (member && !isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts())) return nullptr;
  const Symbol* symbol = counterparts_.family().specs().symbol(method->getParent());
  const auto& levels = scope.context.entity->levels;
  return symbol && std::any_of(levels.begin(), levels.end(), [&](const Level& one) { return one.symbol == symbol; })
             ? method
             : nullptr;
}

BindingScope Match::called(const clang::CXXMethodDecl& callee, const clang::CallExpr& call,
                           const BindingScope& scope) const {
  const clang::FunctionDecl* definition = nullptr;
  callee.getBody(definition);
  BindingScope there{counterparts_.context(*scope.context.entity, *callee.getCanonicalDecl()), &scope, {}};
  for (unsigned index = 0; index < definition->getNumParams(); ++index) {
    const clang::ParmVarDecl* parameter = definition->getParamDecl(index);
    const clang::Expr* given = index < call.getNumArgs() ? call.getArg(index) : nullptr;
    if (!given || isa<clang::CXXDefaultArgExpr>(given)) given = parameter->getDefaultArg();
    there.arguments[parameter] = given;
  }
  return there;
}

}  // namespace modgen
