#include "generator/validate/match.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "generator/flatten/side_effects.h"
#include "generator/resolve/object_types.h"

namespace modgen {
namespace {

using llvm::dyn_cast;
using llvm::isa;

const clang::CallExpr* call_in(const clang::Stmt* statement) {
  const auto* expr = llvm::dyn_cast_or_null<clang::Expr>(statement);
  if (const auto* ret = llvm::dyn_cast_or_null<clang::ReturnStmt>(statement)) expr = ret->getRetValue();
  return expr ? dyn_cast<clang::CallExpr>(written(expr).expr) : nullptr;
}

/// A parameter that `function` takes by value and modifies: inlined, its body would modify the argument.
const clang::ParmVarDecl* changed_parameter(const clang::FunctionDecl& function) {
  const SideEffects effects = find_side_effects(function.getBody(), {});
  for (const clang::ParmVarDecl* parameter : function.parameters())
    if (!parameter->getType()->isReferenceType() && effects.written_variables.count(parameter)) return parameter;
  return nullptr;
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

bool Match::differs(clang::SourceLocation at, std::string message, std::string advice) {
  if (difference_) return false;
  difference_ = {at, std::move(message)};
  if (!advice.empty()) difference_->advice = std::move(advice);
  return false;
}

void Match::parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec) {
  for (unsigned index = 0; index < std::min(flattened.getNumParams(), spec.getNumParams()); ++index)
    locals_[spec.getParamDecl(index)] = flattened.getParamDecl(index);
}

bool Match::bodies(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec, const BindingScope& scope) {
  parameters(flattened, spec);
  return sequence(get_statements(flattened.getBody()), get_statements(spec.getBody()), scope);
}

bool Match::sequence(const Statements& flattened, const Statements& spec, const BindingScope& scope) {
  size_t at = 0;
  return beginning(flattened, at, spec, scope) &&
         (at == flattened.size() || differs(*flattened[at], "the spec does not have this statement here"));
}

bool Match::beginning(const Statements& flattened, size_t& at, const Statements& spec, const BindingScope& scope) {
  for (const clang::Stmt* one : spec) {
    // A super call whose statements are inlined here.
    const clang::CallExpr* call = call_in(one);
    const clang::CXXMethodDecl* callee = call ? super_callee(*call, scope) : nullptr;
    const clang::FunctionDecl* definition = nullptr;
    if (callee && callee->getBody(definition) && !calls(at < flattened.size() ? flattened[at] : nullptr, *callee)) {
      const Statements inner = get_statements(definition->getBody());
      const bool is_expression = inner.size() == 1 && isa<clang::ReturnStmt>(inner[0]);
      if (!is_expression) {
        if (const clang::ParmVarDecl* parameter = changed_parameter(*definition))
          return differs(at < flattened.size() ? *flattened[at] : *one,
                         "this modifies the argument that the super call takes as '" + parameter->getNameAsString() +
                             "' by value");
        if (!beginning(flattened, at, inner, called(*callee, *call, scope))) return false;
        continue;
      }
    }
    if (at == flattened.size()) {
      const auto where = flattened.empty() ? clang::SourceLocation() : flattened.back()->getBeginLoc();
      return differs(where, "a statement of the spec is missing after this");
    }
    if (!statement(*flattened[at++], *one, scope)) return false;
  }
  return true;
}

bool Match::statement(const clang::Stmt& flattened, const clang::Stmt& spec, const BindingScope& scope) {
  if (const auto* expr = dyn_cast<clang::Expr>(&spec)) {
    const auto* flattened_expr = dyn_cast<clang::Expr>(&flattened);
    return flattened_expr ? expression(flattened_expr, expr, scope)
                          : differs(flattened, "a statement, where the spec has an expression");
  }
  if (flattened.getStmtClass() != spec.getStmtClass())
    return differs(flattened, "the spec has another kind of statement here");
  if (isa<clang::CompoundStmt>(spec)) return sequence(get_statements(&flattened), get_statements(&spec), scope);
  if (const auto* declared = dyn_cast<clang::DeclStmt>(&spec)) {
    const auto& flattened_part = *clang::cast<clang::DeclStmt>(&flattened);
    auto other = flattened_part.decl_begin();
    for (const clang::Decl* decl : declared->decls()) {
      if (other == flattened_part.decl_end()) return differs(flattened, "a declaration of the spec is missing");
      if (!declaration(**other++, *decl, scope)) return false;
    }
    return true;
  }
  if (const auto* loop = dyn_cast<clang::CXXForRangeStmt>(&spec)) {
    const auto& flattened_part = *clang::cast<clang::CXXForRangeStmt>(&flattened);
    if (!flattened_part.getInit() != !loop->getInit())
      return differs(flattened, "this has other parts than in the spec");
    return (!loop->getInit() || statement(*flattened_part.getInit(), *loop->getInit(), scope)) &&
           expression(flattened_part.getRangeInit(), loop->getRangeInit(), scope) &&
           declaration(*flattened_part.getLoopVariable(), *loop->getLoopVariable(), scope) &&
           same_steps(flattened_part, *loop, scope) &&
           sequence(get_statements(flattened_part.getBody()), get_statements(loop->getBody()), scope);
  }
  if (const auto* handler = dyn_cast<clang::CXXCatchStmt>(&spec)) {
    const auto& flattened_part = *clang::cast<clang::CXXCatchStmt>(&flattened);
    if (const clang::VarDecl* caught = handler->getExceptionDecl()) {
      if (!distinguishes(flattened.getBeginLoc(), caught->getType())) return false;
      locals_[caught] = flattened_part.getExceptionDecl();
    }
    return sequence(get_statements(flattened_part.getHandlerBlock()), get_statements(handler->getHandlerBlock()),
                    scope);
  }
  return children(flattened, spec, scope);
}

bool Match::same_steps(const clang::CXXForRangeStmt& flattened, const clang::CXXForRangeStmt& spec,
                       const BindingScope& scope) {
  const auto called_by = [](const clang::CXXForRangeStmt& loop) {
    std::vector<const clang::FunctionDecl*> functions;
    const std::function<void(const clang::Stmt*)> visit = [&](const clang::Stmt* one) {
      if (!one) return;
      const auto* call = dyn_cast<clang::CallExpr>(one);
      if (call && call->getDirectCallee()) functions.push_back(call->getDirectCallee());
      for (const clang::Stmt* child : one->children()) visit(child);
    };
    for (const clang::Stmt* part :
         {static_cast<const clang::Stmt*>(loop.getBeginStmt()), static_cast<const clang::Stmt*>(loop.getEndStmt()),
          static_cast<const clang::Stmt*>(loop.getCond()), static_cast<const clang::Stmt*>(loop.getInc())})
      visit(part);
    visit(loop.getLoopVariable()->getInit());
    return functions;
  };
  const auto here = called_by(flattened), there = called_by(spec);
  for (size_t index = 0; index < std::min(here.size(), there.size()); ++index)
    if (!same_function(*here[index], *there[index], scope))
      return differs(flattened, "this loop calls another '" + here[index]->getNameAsString() + "' than in the spec");
  return true;
}

bool Match::declaration(const clang::Decl& flattened, const clang::Decl& spec, const BindingScope& scope) {
  if (const auto* type = dyn_cast<clang::TagDecl>(&spec))
    if (const auto* other = dyn_cast<clang::TagDecl>(&flattened)) return local_type(*other, *type, scope);
  const auto* variable = dyn_cast<clang::VarDecl>(&spec);
  const auto* flattened_part = dyn_cast<clang::VarDecl>(&flattened);
  if (!variable || !flattened_part) return flattened.getKind() == spec.getKind();
  locals_[variable] = flattened_part;
  if (const auto* bound = dyn_cast<clang::DecompositionDecl>(variable)) {
    const auto* other = dyn_cast<clang::DecompositionDecl>(flattened_part);
    if (!other || other->bindings().size() != bound->bindings().size()) return false;
    for (size_t index = 0; index < bound->bindings().size(); ++index)
      locals_[bound->bindings()[index]] = other->bindings()[index];
  }
  const bool implicit = variable->isImplicit() || variable->isCXXForRangeDecl();
  bool redefined = false;
  if (variable->getInit() && flattened_part->getInit() && !variable->isCXXForRangeDecl()) {
    if (!expression(flattened_part->getInit(), variable->getInit(), scope)) return false;
    redefined = redefined_ && variable->getType()->getContainedAutoType();
  }
  if (!variable->getInit() != !flattened_part->getInit())
    return differs(flattened_part->getLocation(), "this variable is not initialized as in the spec");
  return implicit || redefined || same_declared_type(*flattened_part, *variable, scope);
}

bool Match::same_declared_type(const clang::ValueDecl& flattened, const clang::ValueDecl& spec,
                               const BindingScope& scope) {
  const std::string here = counterparts_.type_of_flattened(flattened.getType()),
                    there = counterparts_.type_of_spec(spec.getType(), scope.context);
  if (here == there && flattened.getType()->isReferenceType() == spec.getType()->isReferenceType()) return true;
  return differs(flattened.getLocation(), "this is declared as '" + here + "', and as '" + there + "' in the spec");
}

bool Match::children(const clang::Stmt& flattened, const clang::Stmt& spec, const BindingScope& scope) {
  std::vector<const clang::Stmt*> here, there;
  for (const clang::Stmt* child : flattened.children()) here.push_back(child);
  for (const clang::Stmt* child : spec.children()) there.push_back(child);
  const auto is_default = [](const clang::Stmt* one) { return one && isa<clang::CXXDefaultArgExpr>(one); };
  while (!here.empty() && is_default(here.back())) {
    if (there.size() == here.size() && is_default(there.back()) &&
        !same_default(*clang::cast<clang::CXXDefaultArgExpr>(here.back()),
                      *clang::cast<clang::CXXDefaultArgExpr>(there.back()), scope))
      return false;
    here.pop_back();
    if (!there.empty() && is_default(there.back())) there.pop_back();
  }
  while (!there.empty() && is_default(there.back())) there.pop_back();
  if (here.size() != there.size()) return differs(flattened, "this has other parts than in the spec");
  bool redefined = false;
  const bool is_call = isa<clang::CallExpr>(spec);
  bool calls_other_instance = false;  // of a library's function template
  for (size_t index = 0; index < here.size(); ++index) {
    if (!here[index] != !there[index]) return differs(flattened, "this has other parts than in the spec");
    if (!here[index]) continue;
    redefined_ = false;
    converts_freely_ = is_call && index > 0 && redefined;  // an argument of a function that the family redefines
    if (!isa<clang::Expr>(*there[index])) {
      if (!sequence(get_statements(here[index]), get_statements(there[index]), scope)) return false;
    } else if (!statement(*here[index], *there[index], scope)) {
      return false;
    }
    redefined |= redefined_;
    if (is_call && redefined_) calls_other_instance = index == 0 && names_library(*there[index]);
    // The type of a renamed string differs in its length.
    const auto* argument = dyn_cast<clang::Expr>(there[index]);
    calls_other_instance &= !argument || !isa<clang::StringLiteral>(argument->IgnoreParenImpCasts());
  }
  redefined_ = redefined;
  return !calls_other_instance ||
         differs(flattened, "this calls another instance of a library's function than in the spec");
}

bool Match::same_default(const clang::CXXDefaultArgExpr& flattened, const clang::CXXDefaultArgExpr& spec,
                         const BindingScope& scope) {
  const auto function_of = [](const clang::CXXDefaultArgExpr& value) {
    return clang::cast<clang::FunctionDecl>(value.getParam()->getDeclContext())->getCanonicalDecl();
  };
  const clang::NamedDecl* from = counterparts_.origin(*function_of(flattened));
  const Specs& specs = counterparts_.family().specs();
  const auto spec_of = [&](const clang::Decl& decl) {
    return specs.of_file(counterparts_.locate(decl.getLocation()).file);
  };
  if (!from || from->getCanonicalDecl() == function_of(spec) || !spec_of(*function_of(spec))) return true;
  // Inherited code takes what the family declares instead.
  const Spec* const replacing = spec_of(*from);
  if (!replacing || !scope.context.level->symbol->spec->sees(*replacing)) return true;
  const bool redefined = redefined_;
  const bool is_same = expression(flattened.getExpr(), spec.getExpr(), scope);
  redefined_ = redefined;
  if (is_same) return true;
  forget_difference();
  return differs(
      flattened.getUsedLocation(),
      "this call takes another default argument of '" + function_of(spec)->getNameAsString() + "' than in the spec",
      "pass the argument");
}

bool Match::names_library(const clang::Stmt& callee) const {
  const auto* expr = dyn_cast<clang::Expr>(&callee);
  const auto* name = expr ? dyn_cast<clang::DeclRefExpr>(expr->IgnoreParenImpCasts()) : nullptr;
  const SourceSpan where = name ? counterparts_.locate(name->getDecl()->getLocation()) : SourceSpan{};
  return name && !counterparts_.family().specs().of_file(where.file);
}

bool Match::calls(const clang::Stmt* flattened, const clang::CXXMethodDecl& callee) const {
  const clang::CallExpr* call = call_in(flattened);
  const clang::FunctionDecl* function = call ? call->getDirectCallee() : nullptr;
  if (!function) return false;
  return counterparts_.is_meant(*function, callee, {}, /*exactly=*/true);
}

/// Whether `after` is the family's name for the member `before` of the spec's class.
bool Match::is_name_for(const std::string& before, const std::string& after, const BindingScope& scope) const {
  const Level& level = *scope.context.level;
  for (const Symbol* symbol = level.symbol; symbol; symbol = symbol->base)
    if (symbol->declares_field(before))
      return counterparts_.family().member_name(before, *symbol, level, *scope.context.entity) == after;
  return before == after;
}

}  // namespace modgen
