#include "generator/validate/match.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>
#include <utility>

#include "generator/flatten/side_effects.h"
#include "generator/resolve/effects.h"
#include "generator/resolve/prefixes.h"
#include "generator/resolve/remakes.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

const clang::CallExpr* call_in(const clang::Stmt* statement) {
  const auto* expr = llvm::dyn_cast_or_null<clang::Expr>(statement);
  if (const auto* ret = llvm::dyn_cast_or_null<clang::ReturnStmt>(statement)) expr = ret->getRetValue();
  return expr ? dyn_cast<clang::CallExpr>(written(expr).expr) : nullptr;
}

bool is_function(const clang::CallExpr& call, llvm::StringRef name) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  return callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == name;
}

/// A parameter that `function` gets by value and changes: written elsewhere, its body would change the argument.
const clang::ParmVarDecl* changed_parameter(const clang::FunctionDecl& function) {
  const SideEffects effects = find_side_effects(function.getBody(), {});
  for (const clang::ParmVarDecl* parameter : function.parameters())
    if (!parameter->getType()->isReferenceType() && effects.written_variables.count(parameter)) return parameter;
  return nullptr;
}

const clang::NestedNameSpecifier* qualifier(const clang::Expr& callee) {
  const clang::Expr* name = callee.IgnoreParenImpCasts();
  if (const auto* member = dyn_cast<clang::MemberExpr>(name)) return member->getQualifier();
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(name)) return reference->getQualifier();
  return nullptr;
}

/// What a conversion does, without its types.
std::string get_kind(const clang::Expr& conversion) {
  if (const auto* cast = dyn_cast<clang::ImplicitCastExpr>(&conversion)) return cast->getCastKindName();
  return isa<clang::CXXConstructExpr>(conversion) ? "construction" : "conversion function";
}

/// Whether a conversion of numbers may lose what the value is. Kinds of built-in types are in the order of their sizes,
/// unsigned ones first.
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

Match::Statements Match::get_statements(const clang::Stmt* body) {
  Statements result;
  if (const auto* compound = llvm::dyn_cast_or_null<clang::CompoundStmt>(body)) {
    for (const clang::Stmt* one : compound->body())
      if (!isa<clang::NullStmt>(one)) result.push_back(one);
  } else if (body) {
    result.push_back(body);
  }
  return result;
}

bool Match::differs(const clang::Stmt& at, std::string message) {
  if (!difference_) difference_ = {at.getBeginLoc(), std::move(message)};
  return false;
}

void Match::parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec) {
  for (unsigned index = 0; index < std::min(flattened.getNumParams(), spec.getNumParams()); ++index)
    locals_[spec.getParamDecl(index)] = flattened.getParamDecl(index);
}

bool Match::bodies(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec, const Setting& setting) {
  parameters(flattened, spec);
  return sequence(get_statements(flattened.getBody()), get_statements(spec.getBody()), setting);
}

// ---- Statements -----------------------------------------------------------------------------------------------------

bool Match::sequence(const Statements& flattened, const Statements& spec, const Setting& setting) {
  size_t at = 0;
  return beginning(flattened, at, spec, setting) &&
         (at == flattened.size() || differs(*flattened[at], "the spec has no such statement here"));
}

bool Match::beginning(const Statements& flattened, size_t& at, const Statements& spec, const Setting& setting) {
  for (const clang::Stmt* one : spec) {
    // A super call whose statements stand here.
    const clang::CallExpr* call = call_in(one);
    const clang::CXXMethodDecl* callee = call ? super_callee(*call, setting) : nullptr;
    const clang::FunctionDecl* definition = nullptr;
    if (callee && callee->getBody(definition) && !calls(at < flattened.size() ? flattened[at] : nullptr, *callee)) {
      const Statements inner = get_statements(definition->getBody());
      const bool is_expression = inner.size() == 1 && isa<clang::ReturnStmt>(inner[0]);
      if (!is_expression) {
        if (const clang::ParmVarDecl* parameter = changed_parameter(*definition))
          return differs(at < flattened.size() ? *flattened[at] : *one,
                         "this changes what the super call gets as '" + parameter->getNameAsString() + "' by value");
        if (!beginning(flattened, at, inner, called(*callee, *call, setting))) return false;
        continue;
      }
    }
    if (at == flattened.size()) {
      const auto where = flattened.empty() ? clang::SourceLocation() : flattened.back()->getBeginLoc();
      if (!difference_) difference_ = {where, "a statement of the spec is missing after this"};
      return false;
    }
    if (!statement(*flattened[at++], *one, setting)) return false;
  }
  return true;
}

bool Match::statement(const clang::Stmt& flattened, const clang::Stmt& spec, const Setting& setting) {
  if (const auto* expr = dyn_cast<clang::Expr>(&spec)) {
    const auto* flattened_expr = dyn_cast<clang::Expr>(&flattened);
    return flattened_expr ? expression(flattened_expr, expr, setting)
                          : differs(flattened, "a statement stands where the spec has an expression");
  }
  if (flattened.getStmtClass() != spec.getStmtClass())
    return differs(flattened, "another kind of statement than in the spec");
  if (isa<clang::CompoundStmt>(spec)) return sequence(get_statements(&flattened), get_statements(&spec), setting);
  if (const auto* declared = dyn_cast<clang::DeclStmt>(&spec)) {
    const auto& theirs = *clang::cast<clang::DeclStmt>(&flattened);
    auto other = theirs.decl_begin();
    for (const clang::Decl* decl : declared->decls()) {
      if (other == theirs.decl_end()) return differs(flattened, "a declaration of the spec is missing");
      if (!declaration(**other++, *decl, setting)) return false;
    }
    return true;
  }
  if (const auto* loop = dyn_cast<clang::CXXForRangeStmt>(&spec)) {
    const auto& theirs = *clang::cast<clang::CXXForRangeStmt>(&flattened);
    return expression(theirs.getRangeInit(), loop->getRangeInit(), setting) &&
           declaration(*theirs.getLoopVariable(), *loop->getLoopVariable(), setting) &&
           sequence(get_statements(theirs.getBody()), get_statements(loop->getBody()), setting);
  }
  if (const auto* handler = dyn_cast<clang::CXXCatchStmt>(&spec)) {
    const auto& theirs = *clang::cast<clang::CXXCatchStmt>(&flattened);
    if (handler->getExceptionDecl()) locals_[handler->getExceptionDecl()] = theirs.getExceptionDecl();
    return sequence(get_statements(theirs.getHandlerBlock()), get_statements(handler->getHandlerBlock()), setting);
  }
  return children(flattened, spec, setting);
}

bool Match::declaration(const clang::Decl& flattened, const clang::Decl& spec, const Setting& setting) {
  const auto* variable = dyn_cast<clang::VarDecl>(&spec);
  const auto* theirs = dyn_cast<clang::VarDecl>(&flattened);
  if (!variable || !theirs) return flattened.getKind() == spec.getKind();
  locals_[variable] = theirs;
  if (const auto* bound = dyn_cast<clang::DecompositionDecl>(variable)) {
    const auto* other = dyn_cast<clang::DecompositionDecl>(theirs);
    if (!other || other->bindings().size() != bound->bindings().size()) return false;
    for (size_t index = 0; index < bound->bindings().size(); ++index)
      locals_[bound->bindings()[index]] = other->bindings()[index];
  }
  const bool implicit = variable->isImplicit() || variable->isCXXForRangeDecl();
  bool redefined = false;
  if (variable->getInit() && theirs->getInit() && !variable->isCXXForRangeDecl()) {
    if (!expression(theirs->getInit(), variable->getInit(), setting)) return false;
    redefined = redefined_ && variable->getType()->getContainedAutoType();
  }
  if (!variable->getInit() != !theirs->getInit()) {
    if (!difference_) difference_ = {theirs->getLocation(), "this variable is not initialized as in the spec"};
    return false;
  }
  if (implicit || redefined) return true;
  const std::string here = counterparts_.type_of_flattened(theirs->getType()),
                    there = counterparts_.type_of_spec(variable->getType(), setting.context);
  if (here == there && theirs->getType()->isReferenceType() == variable->getType()->isReferenceType()) return true;
  if (!difference_)
    difference_ = {theirs->getLocation(), "this variable is of type '" + here + "', and '" + there + "' in the spec"};
  return false;
}

bool Match::children(const clang::Stmt& flattened, const clang::Stmt& spec, const Setting& setting) {
  std::vector<const clang::Stmt*> here, there;
  for (const clang::Stmt* child : flattened.children()) here.push_back(child);
  for (const clang::Stmt* child : spec.children()) there.push_back(child);
  const auto is_default = [](const clang::Stmt* one) { return one && isa<clang::CXXDefaultArgExpr>(one); };
  while (!here.empty() && is_default(here.back())) here.pop_back();
  while (!there.empty() && is_default(there.back())) there.pop_back();
  if (here.size() != there.size()) return differs(flattened, "this has other parts than in the spec");
  bool redefined = false;
  const bool is_call = isa<clang::CallExpr>(spec);
  for (size_t index = 0; index < here.size(); ++index) {
    if (!here[index] != !there[index]) return differs(flattened, "this has other parts than in the spec");
    if (!here[index]) continue;
    redefined_ = false;
    converts_freely_ = is_call && index > 0 && redefined;  // an argument of what the family redefines
    if (!isa<clang::Expr>(*there[index])) {
      if (!sequence(get_statements(here[index]), get_statements(there[index]), setting)) return false;
    } else if (!statement(*here[index], *there[index], setting)) {
      return false;
    }
    redefined |= redefined_;
  }
  redefined_ = redefined;
  return true;
}

// ---- Expressions ----------------------------------------------------------------------------------------------------

bool Match::expression(const clang::Expr* flattened, const clang::Expr* spec, const Setting& setting) {
  const bool converts_freely = std::exchange(converts_freely_, false);
  const Written here = written(flattened), there = written(spec);
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(there.expr))
    if (const auto* parameter = dyn_cast<clang::ParmVarDecl>(reference->getDecl()))
      if (const auto given = setting.arguments.find(parameter); given != setting.arguments.end())
        return argument(here, there, *given->second, setting);
  if (const auto* call = dyn_cast<clang::CallExpr>(there.expr)) {
    if (is_function(*call, "modular::own") && call->getNumArgs() == 1) {
      redefined_ = true;  // that is what it is for
      const bool same = expression(here.expr, call->getArg(0), setting);
      redefined_ = true;
      return same;
    }
    if (const clang::CXXMethodDecl* callee = super_callee(*call, setting); callee && !calls(here.expr, *callee))
      return inlined(here, there, *call, setting);
  }
  if (const auto* flag = dyn_cast<clang::CXXBoolLiteralExpr>(here.expr);
      flag && !isa<clang::CXXBoolLiteralExpr>(there.expr))
    if (const clang::VarDecl* constant = counterparts_.constant(*there.expr, setting.context))
      return folded(*flag, *constant, here, there, setting);
  redefined_ = false;
  if (!nodes(*here.expr, *there.expr, setting)) return false;
  ++validation_.expressions;
  if (redefined_) {
    ++validation_.by_redefinition;
    return true;
  }
  std::vector<std::pair<const clang::Expr*, const Setting*>> conversions;
  for (const clang::Expr* one : there.conversions) conversions.emplace_back(one, &setting);
  // A number that was chosen from variables, and is now chosen from numbers, is the same number.
  const bool is_choice =
      isa<clang::ConditionalOperator>(here.expr) && here.expr->getType()->isArithmeticType() && here.expr->isPRValue();
  if (here.expr->getValueKind() != there.expr->getValueKind() && !is_choice)
    return differs(*here.expr, "this is another category of value than in the spec");
  const bool is_text = isa<clang::StringLiteral, clang::PredefinedExpr>(here.expr);  // a renamed one has another length
  return (is_text || same_type(*here.expr, *there.expr, setting)) &&
         (converts_freely ? widens(here, conversions.size()) : same_conversions(here, conversions, *here.expr));
}

/// What the family puts in the place of a function may take other types, but loses nothing of an argument that
/// inherited code gives it.
bool Match::widens(const Written& argument, size_t conversions_before) {
  for (size_t index = conversions_before; index < argument.conversions.size(); ++index)
    if (const clang::Expr& one = *argument.conversions[index]; narrows(one))
      return differs(*argument.expr, "this is narrowed to '" + one.getType().getAsString() +
                                         "' by what the family has in the place of the called function");
  return true;
}

/// A config's flag that the family makes a constant, as its value.
bool Match::folded(const clang::CXXBoolLiteralExpr& flag, const clang::VarDecl& constant, const Written& flattened,
                   const Written& spec, const Setting& setting) {
  ++validation_.expressions;
  redefined_ = false;
  const clang::APValue* value = constant.evaluateValue();
  if (!value || !value->isInt() || (value->getInt() != 0) != flag.getValue())
    return differs(flag, "this is another value than that of '" + constant.getNameAsString() + "'");
  std::vector<std::pair<const clang::Expr*, const Setting*>> conversions;
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &setting);
  return same_conversions(flattened, conversions, flag);
}

bool Match::same_type(const clang::Expr& flattened, const clang::Expr& spec, const Setting& setting) {
  if (flattened.getType().getCanonicalType() == spec.getType().getCanonicalType()) return true;
  const std::string here = counterparts_.type_of_flattened(flattened.getType()),
                    there = counterparts_.type_of_spec(spec.getType(), setting.context);
  return here == there || differs(flattened, "this is of type '" + here + "', and '" + there + "' in the spec");
}

bool Match::same_conversions(const Written& flattened,
                             const std::vector<std::pair<const clang::Expr*, const Setting*>>& spec,
                             const clang::Expr& at) {
  const bool same = std::equal(flattened.conversions.begin(), flattened.conversions.end(), spec.begin(), spec.end(),
                               [&](const clang::Expr* here, const auto& there) {
                                 return get_kind(*here) == get_kind(*there.first) &&
                                        counterparts_.type_of_flattened(here->getType()) ==
                                            counterparts_.type_of_spec(there.first->getType(), there.second->context);
                               });
  if (same) return true;
  const auto& odd = flattened.conversions.size() >= spec.size() && !flattened.conversions.empty()
                        ? counterparts_.type_of_flattened(flattened.conversions.back()->getType())
                        : counterparts_.type_of_spec(spec.back().first->getType(), spec.back().second->context);
  return differs(at, "this is converted otherwise than in the spec (to '" + odd + "')");
}

bool Match::argument(const Written& flattened, const Written& spec, const clang::Expr& given, const Setting& setting) {
  const auto& parameter = *clang::cast<clang::ParmVarDecl>(clang::cast<clang::DeclRefExpr>(spec.expr)->getDecl());
  const bool is_default = parameter.getDefaultArg() == &given;
  const Setting& there = is_default ? setting : *setting.outer;
  const Written argument = written(&given);
  std::vector<std::pair<const clang::Expr*, const Setting*>> conversions;
  Written here = flattened;
  const auto* cast = dyn_cast<clang::ExplicitCastExpr>(here.expr);
  const auto* list = dyn_cast<clang::InitListExpr>(here.expr);
  // What stands for a parameter that is handed on may have been converted where that was bound.
  const auto* handed_on = dyn_cast<clang::DeclRefExpr>(argument.expr);
  const auto* outer = handed_on ? dyn_cast<clang::ParmVarDecl>(handed_on->getDecl()) : nullptr;
  const bool is_converted_here = !outer || !there.arguments.count(outer) || !argument.conversions.empty();
  const bool is_cast =
      is_converted_here && ((cast && !isa<clang::ExplicitCastExpr>(argument.expr)) ||
                            (list && list->getNumInits() == 1 && !isa<clang::InitListExpr>(argument.expr)));
  if (is_cast) {
    // Written out, as the call would convert it.
    if (!same_type(*here.expr, *spec.expr, setting)) return false;
    Written inner = written(cast ? cast->getSubExpr() : list->getInit(0));
    if (const auto* braces = dyn_cast<clang::InitListExpr>(inner.expr); braces && braces->getNumInits() == 1)
      inner = written(braces->getInit(0));
    for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &setting);
    if (!same_conversions(here, conversions, *here.expr)) return false;
    return expression(inner.expr, argument.expr, there);
  }
  for (const clang::Expr* one : argument.conversions) conversions.emplace_back(one, &there);
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &setting);
  if (!same_conversions(here, conversions, *here.expr)) return false;
  return expression(here.expr, argument.expr, there);
}

bool Match::inlined(const Written& flattened, const Written& spec, const clang::CallExpr& call,
                    const Setting& setting) {
  const clang::CXXMethodDecl* callee = super_callee(call, setting);
  const clang::FunctionDecl* definition = nullptr;
  const Statements body = callee->getBody(definition) ? get_statements(definition->getBody()) : Statements{};
  const auto* returned = body.size() == 1 ? dyn_cast<clang::ReturnStmt>(body[0]) : nullptr;
  if (!returned || !returned->getRetValue()) return differs(*flattened.expr, "this is not the super call's value");
  const Setting there = called(*callee, call, setting);
  const Written value = written(returned->getRetValue());
  if (!expression(flattened.expr, value.expr, there)) return false;
  if (redefined_) return true;
  // The value meets what the call's meets, after what the return does to it.
  std::vector<std::pair<const clang::Expr*, const Setting*>> conversions;
  for (const clang::Expr* one : value.conversions) conversions.emplace_back(one, &there);
  for (const clang::Expr* one : spec.conversions) conversions.emplace_back(one, &setting);
  const std::string type = counterparts_.type_of_flattened(flattened.expr->getType()),
                    wanted = counterparts_.type_of_spec(call.getType(), there.context);
  if (type != wanted && value.conversions.empty())
    return differs(*flattened.expr, "this is of type '" + type + "', and the super call's of '" + wanted + "'");
  return same_conversions(flattened, conversions, *flattened.expr);
}

bool Match::nodes(const clang::Expr& flattened, const clang::Expr& spec, const Setting& setting) {
  if (const auto* call = dyn_cast<clang::CallExpr>(&spec); call && is_function(*call, "modular::remake")) {
    // register_module("name", value), as the member was registered.
    const auto* theirs = dyn_cast<clang::CallExpr>(&flattened);
    const auto registration = replaced_registration(*call);
    const clang::StringLiteral* name = theirs ? registered_literal(*theirs) : nullptr;
    if (!registration || !name || theirs->getDirectCallee()->getName() != registration->function ||
        !is_name_for(registration->name, name->getString().str(), setting))
      return differs(flattened, "this does not register what the spec remakes");
    const bool same = expression(theirs->getArg(1), call->getArg(1), setting);
    redefined_ = true;
    return same;
  }
  // A static member may be named as one of the object.
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&spec))
    if (const auto* member = dyn_cast<clang::MemberExpr>(&flattened);
        member && isa<clang::CXXThisExpr>(member->getBase()))
      return refers(*member->getMemberDecl(), *reference->getDecl(), flattened, setting, names_base(*reference));
  if (flattened.getStmtClass() != spec.getStmtClass())
    return differs(flattened, "this is another kind of expression than in the spec");
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&spec))
    return refers(*clang::cast<clang::DeclRefExpr>(&flattened)->getDecl(), *reference->getDecl(), flattened, setting,
                  names_base(*reference));
  if (const auto* member = dyn_cast<clang::MemberExpr>(&spec)) {
    const auto& theirs = *clang::cast<clang::MemberExpr>(&flattened);
    if (!expression(theirs.getBase(), member->getBase(), setting)) {
      return false;
    }
    // Of an object whose class is the family's own.
    if (redefined_ && theirs.getMemberDecl()->getDeclName() == member->getMemberDecl()->getDeclName()) return true;
    return refers(*theirs.getMemberDecl(), *member->getMemberDecl(), flattened, setting, names_base(*member));
  }
  if (isa<clang::CXXThisExpr, clang::PredefinedExpr, clang::SourceLocExpr>(spec)) return true;
  if (isa<clang::StringLiteral, clang::IntegerLiteral>(spec) && is_made_by_macro(spec)) {
    ++validation_.skipped["literals that macros make of places and conditions"];
    return true;
  }
  if (const auto* op = dyn_cast<clang::CXXOperatorCallExpr>(&spec)) {
    // What it is applied to first: that decides which operator it is.
    const auto& theirs = *clang::cast<clang::CXXOperatorCallExpr>(&flattened);
    if (op->getOperator() != theirs.getOperator() || op->getNumArgs() != theirs.getNumArgs())
      return differs(flattened, "this is another operator than in the spec");
    bool redefined = false;
    for (unsigned index = 0; index < op->getNumArgs(); ++index) {
      if (!expression(theirs.getArg(index), op->getArg(index), setting)) return false;
      redefined |= redefined_;
    }
    redefined_ = redefined;
    return redefined || expression(theirs.getCallee(), op->getCallee(), setting);
  }
  if (const auto* text = dyn_cast<clang::StringLiteral>(&spec))
    return literals(*clang::cast<clang::StringLiteral>(&flattened), *text, setting);
  if (const auto* number = dyn_cast<clang::IntegerLiteral>(&spec))
    return clang::cast<clang::IntegerLiteral>(&flattened)->getValue() == number->getValue() ||
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
    return lambda(*clang::cast<clang::LambdaExpr>(&flattened), *closure, setting);
  if (const auto* asked = dyn_cast<clang::UnaryExprOrTypeTraitExpr>(&spec); asked && asked->isArgumentType())
    return true;
  return children(flattened, spec, setting);
}

bool Match::lambda(const clang::LambdaExpr& flattened, const clang::LambdaExpr& spec, const Setting& setting) {
  parameters(*flattened.getCallOperator(), *spec.getCallOperator());
  // What it captures by naming it follows from its body.
  const auto number = [](const clang::LambdaExpr& lambda) {
    return std::distance(lambda.explicit_capture_begin(), lambda.explicit_capture_end());
  };
  if (number(flattened) != number(spec) || flattened.getCaptureDefault() != spec.getCaptureDefault())
    return differs(flattened, "this captures other variables than in the spec");
  auto theirs = flattened.explicit_capture_begin();
  for (const clang::LambdaCapture& capture : spec.explicit_captures()) {
    const clang::LambdaCapture& other = *theirs++;
    if (capture.getCaptureKind() != other.getCaptureKind())
      return differs(flattened, "this captures otherwise than in the spec");
    if (!capture.capturesVariable()) continue;
    if (spec.isInitCapture(&capture)) {
      locals_[capture.getCapturedVar()] = other.getCapturedVar();
      const auto* init = llvm::cast<clang::VarDecl>(capture.getCapturedVar())->getInit();
      const auto* other_init = llvm::cast<clang::VarDecl>(other.getCapturedVar())->getInit();
      if (init && other_init && !expression(other_init, init, setting)) return false;
    }
  }
  const bool same = sequence(get_statements(flattened.getBody()), get_statements(spec.getBody()), setting);
  redefined_ = false;
  return same;
}

bool Match::refers(const clang::ValueDecl& flattened, const clang::ValueDecl& spec, const clang::Expr& at,
                   const Setting& setting, bool exactly) {
  const auto* variable = dyn_cast<clang::VarDecl>(&spec);
  if (isa<clang::BindingDecl>(spec) || (variable && variable->isLocalVarDeclOrParm())) {
    const auto known = locals_.find(&spec);
    if (known != locals_.end() && known->second == &flattened) return true;
    return differs(at, "'" + flattened.getNameAsString() + "' is not the variable '" + spec.getNameAsString() +
                           "' that the spec names");
  }
  if (!counterparts_.is_meant(flattened, spec, setting.context, exactly)) {
    const auto* owner = dyn_cast<clang::NamedDecl>(spec.getDeclContext());
    return differs(at, "'" + flattened.getNameAsString() + "' means something else here than '" +
                           (owner ? owner->getNameAsString() + "::" : std::string()) + spec.getNameAsString() +
                           "' that the spec names");
  }
  if (flattened.getType().getCanonicalType() != spec.getType().getCanonicalType())
    redefined_ |= counterparts_.type_of_flattened(flattened.getType()) !=
                  counterparts_.type_of_spec(spec.getType(), setting.context);
  return true;
}

bool Match::literals(const clang::StringLiteral& flattened, const clang::StringLiteral& spec, const Setting& setting) {
  if (flattened.getBytes() == spec.getBytes()) return true;
  // Prose that names the family, or the name of a member.
  const Level& level = *setting.context.level;
  const std::string before = spec.getBytes().str(), after = flattened.getBytes().str();
  const Names to = names_with(counterparts_.family().spec(), level.prefix);
  if (renamed_prose(before, false, level.symbol->spec->names, to) == after) return true;
  return is_name_for(before, after, setting) || differs(flattened, "this is another text than in the spec");
}

/// Whether the family calls the member `before` of the spec's class `after`.
bool Match::is_name_for(const std::string& before, const std::string& after, const Setting& setting) const {
  const Level& level = *setting.context.level;
  for (const Symbol* symbol = level.symbol; symbol; symbol = symbol->base)
    if (symbol->declares_field(before))
      return counterparts_.family().member_name(before, *symbol, level, *setting.context.entity) == after;
  return before == after;
}

/// A file, a line or the text of a condition, that a macro's body makes; what is given to the macro is not.
bool Match::is_made_by_macro(const clang::Expr& literal) const {
  const clang::SourceLocation where = literal.getBeginLoc();
  return where.isMacroID() && !counterparts_.manager().isMacroArgExpansion(where);
}

bool Match::names_base(const clang::Expr& name) const {
  const clang::NestedNameSpecifier* named = qualifier(name);
  return named && named->getAsType();
}

const clang::CXXMethodDecl* Match::super_callee(const clang::CallExpr& call, const Setting& setting) const {
  const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(call.getDirectCallee());
  const clang::NestedNameSpecifier* named = method ? qualifier(*call.getCallee()) : nullptr;
  if (!named || !named->getAsType()) return nullptr;
  const Symbol* symbol = counterparts_.family().specs().symbol(method->getParent());
  const auto& levels = setting.context.entity->levels;
  return symbol && std::any_of(levels.begin(), levels.end(), [&](const Level& one) { return one.symbol == symbol; })
             ? method
             : nullptr;
}

bool Match::calls(const clang::Stmt* flattened, const clang::CXXMethodDecl& callee) const {
  const clang::CallExpr* call = call_in(flattened);
  const clang::FunctionDecl* function = call ? call->getDirectCallee() : nullptr;
  if (!function) return false;
  return counterparts_.is_meant(*function, callee, {}, /*exactly=*/true);
}

Setting Match::called(const clang::CXXMethodDecl& callee, const clang::CallExpr& call, const Setting& setting) const {
  const clang::FunctionDecl* definition = nullptr;
  callee.getBody(definition);
  Setting there{counterparts_.context(*setting.context.entity, *callee.getCanonicalDecl()), &setting, {}};
  for (unsigned index = 0; index < definition->getNumParams(); ++index) {
    const clang::ParmVarDecl* parameter = definition->getParamDecl(index);
    const clang::Expr* given = index < call.getNumArgs() ? call.getArg(index) : nullptr;
    if (!given || isa<clang::CXXDefaultArgExpr>(given)) given = parameter->getDefaultArg();
    there.arguments[parameter] = given;
  }
  return there;
}

}  // namespace modgen
