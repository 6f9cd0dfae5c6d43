#include "generator/validate/match.h"

#include <clang/AST/DeclCXX.h>

#include <algorithm>
#include <deque>

#include "generator/flatten/base_call.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/side_effects.h"
#include "generator/resolve/registrations.h"

namespace modgen {
namespace {

using llvm::dyn_cast;

/// One step of the specs' constructors, in C++'s order of execution.
struct Effect {
  const clang::CXXCtorInitializer* initializer = nullptr;
  const clang::Stmt* statement = nullptr;
  const clang::FieldDecl* declared = nullptr;     // a field that C++ initializes
  const clang::ParmVarDecl* parameter = nullptr;  // of a base's constructor, which may become a variable
  const clang::Expr* value = nullptr;             // the value that it sets `field` to
  std::string field;
  std::string registered;
  BindingScope* scope = nullptr;
  SideEffects effects;
  bool matched = false, again = false;
  bool assigned = false;  // an initializer that became an assignment
};

std::pair<std::string, const clang::Expr*> assignment(const clang::Stmt& statement) {
  const auto* expr = dyn_cast<clang::Expr>(&statement);
  if (!expr) return {};
  expr = expr->IgnoreImplicit();
  if (const auto* binary = dyn_cast<clang::BinaryOperator>(expr); binary && binary->getOpcode() == clang::BO_Assign)
    return {own_field(binary->getLHS()), binary->getRHS()};
  if (const auto* call = dyn_cast<clang::CXXOperatorCallExpr>(expr); call && call->getOperator() == clang::OO_Equal)
    return {own_field(call->getArg(0)), call->getArg(1)};
  return {};
}

/// The value in braces around one, which initializes with it.
const clang::Expr& single_value(const clang::Expr& value) {
  const auto* list = dyn_cast<clang::InitListExpr>(value.IgnoreImplicit());
  return list && list->getNumInits() == 1 && list->getType()->isScalarType() ? *list->getInit(0) : value;
}

class Constructors {
 public:
  Constructors(const Counterparts& counterparts, Validation& validation, const Entity& entity)
      : counterparts_(counterparts), entity_(entity), match_(counterparts, validation), meant_(methods_meant(entity)) {}

  std::optional<Match::Difference> difference(const clang::CXXConstructorDecl& flattened,
                                              const clang::CXXConstructorDecl& spec, const Context& context) {
    match_.parameters(flattened, spec);
    flattened_ = flattened.getParent();
    scopes_.push_back({context, nullptr, {}});
    if (spec.isDelegatingConstructor()) return delegating(flattened, spec);
    const auto level = static_cast<size_t>(context.level - entity_.levels.data());
    list(spec, level, scopes_.back());
    add_declared(0, level);
    for (const clang::CXXCtorInitializer* init : flattened.inits())
      if (!init->isWritten())
        find_declared(*init);
      else if (!find(*init))
        return missing(init->getSourceLocation(), "this initializer");
    const auto statements = Match::get_statements(flattened.getBody());
    for (const clang::Stmt* statement : statements)
      if (!find(*statement)) return missing(statement->getBeginLoc(), "this statement");
    if (const auto left = left_out(flattened)) return left;
    return misplaced(flattened);
  }

 private:
  /// Of a class whose constructors stay as they are.
  std::optional<Match::Difference> delegating(const clang::CXXConstructorDecl& flattened,
                                              const clang::CXXConstructorDecl& spec) {
    const clang::CXXConstructorDecl* target =
        flattened.isDelegatingConstructor() ? flattened.getTargetConstructor() : nullptr;
    if (!target || !counterparts_.is_meant(*target, *spec.getTargetConstructor(), scopes_.back().context, true))
      return missing(flattened.getLocation(), "this constructor");
    if (match_.initializers_and_body(flattened, spec, scopes_.back())) return std::nullopt;
    return match_.difference();
  }

  // ---- Steps of the specs' constructors ----

  void list(const clang::CXXConstructorDecl& constructor, size_t level, BindingScope& scope) {
    if (constructor.isDefaulted()) {
      const BaseCall call = default_base_call(counterparts_.family(), entity_, level, constructor);
      if (call.constructor) run(call, level, scope);
      return add_declared(level, level + 1);
    }
    std::vector<const clang::CXXCtorInitializer*> written;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten()) written.push_back(init);
    std::sort(written.begin(), written.end(),
              [](const auto* a, const auto* b) { return a->getSourceOrder() < b->getSourceOrder(); });
    // Rule of the language: initializers written before the base's run first.
    size_t early = 0;
    const auto is_own_base = [&](const clang::CXXCtorInitializer* init) {
      const auto* record = init->isBaseInitializer() ? init->getBaseClass()->getAsCXXRecordDecl() : nullptr;
      return record && counterparts_.family().specs().symbol(record);
    };
    while (early < written.size() && !is_own_base(written[early])) ++early;
    if (early == written.size()) early = 0;
    for (size_t index = 0; index < early; ++index) add(*written[index], scope);
    for (const clang::CXXCtorInitializer* init : constructor.inits()) {
      if (std::find(written.begin(), written.begin() + static_cast<long>(early), init) !=
          written.begin() + static_cast<long>(early))
        continue;
      if (init->isBaseInitializer()) {
        const auto call = base_call(counterparts_.family(), entity_, level, *init);
        if (call && call->constructor) run(*call, level, scope);
        if (call) continue;
      }
      if (init->isWritten())
        add(*init, scope);
      else if (init->isAnyMemberInitializer())
        add_declared(*init->getAnyMember(), level);
    }
    for (const clang::Stmt* statement : Match::get_statements(constructor.getBody())) add(*statement, scope);
  }

  void run(const BaseCall& call, size_t level, BindingScope& outer) {
    scopes_.push_back({{&entity_, &entity_.levels[call.level]}, &outer, {}});
    BindingScope& scope = scopes_.back();
    for (unsigned index = 0; index < call.constructor->getNumParams(); ++index) {
      const clang::ParmVarDecl* parameter = call.constructor->getParamDecl(index);
      const clang::Expr* argument = index < call.arguments.size() ? call.arguments[index] : nullptr;
      if (!argument || llvm::isa<clang::CXXDefaultArgExpr>(argument)) argument = parameter->getDefaultArg();
      scope.arguments[parameter] = argument;
      arguments_[parameter] = argument;
      Effect effect;
      effect.parameter = parameter;
      effect.scope = &scope;
      effect.effects = find_side_effects(argument, meant_, arguments_);
      effect.matched = true;  // it is compared where it is read: only the order of a variable matters
      effects_.push_back(std::move(effect));
    }
    list(*call.constructor, call.level, scope);
    add_declared(level + 1, call.level);
  }

  /// Adds what initializes the fields of levels in [first, end) that no constructor names.
  void add_declared(size_t first, size_t end) {
    for (size_t level = end; level-- > first;)
      for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) add_declared(*field, level);
  }

  /// Rule of the language: a redeclared field stays at the inherited position.
  void add_declared(const clang::FieldDecl& field, size_t level) {
    const std::string name = field.getNameAsString();
    const bool is_inherited = std::any_of(entity_.levels.begin() + static_cast<long>(level) + 1, entity_.levels.end(),
                                          [&](const Level& one) { return one.symbol->declares_field(name); });
    if (is_inherited) return;
    Effect effect;
    effect.effects = find_field_effects(field, meant_);
    if (!field.hasInClassInitializer() && !effect.effects.depends_on_order()) return;
    scopes_.push_back({{&entity_, &entity_.levels[level]}, nullptr, {}});
    effect.declared = &field;
    effect.field = name;
    effect.scope = &scopes_.back();
    if (field.hasInClassInitializer()) {
      effect.value = field.getInClassInitializer();
      effect.effects.writes.insert(name);
    }
    effect.matched = !is_deferred(effect);  // its value is compared elsewhere: only its order matters here
    effects_.push_back(std::move(effect));
  }

  /// Whether the flattened class leaves it to its constructors to set the field to its default member initializer.
  bool is_deferred(const Effect& effect) const {
    if (!effect.value) return false;
    const std::string name = name_for(effect);
    return std::any_of(flattened_->field_begin(), flattened_->field_end(), [&](const clang::FieldDecl* field) {
      return field->getName() == name && !field->hasInClassInitializer();
    });
  }

  void add(const clang::CXXCtorInitializer& init, BindingScope& scope) {
    Effect effect;
    effect.initializer = &init;
    effect.value = init.getInit();
    effect.scope = &scope;
    if (init.isAnyMemberInitializer()) effect.field = init.getAnyMember()->getNameAsString();
    effect.registered = registered_name(init.getInit());
    effect.effects = find_side_effects(init.getInit(), meant_, arguments_);
    if (init.isAnyMemberInitializer()) effect.effects.acts_at_its_end = acts_at_its_end(init.getAnyMember()->getType());
    if (!effect.field.empty()) effect.effects.writes.insert(effect.field);
    effects_.push_back(std::move(effect));
  }

  void add(const clang::Stmt& statement, BindingScope& scope) {
    // `if (parameter) statement` with `true` for the parameter.
    if (const auto* condition = dyn_cast<clang::IfStmt>(&statement); condition && always_holds(*condition, scope))
      return add(*condition->getThen(), scope);
    Effect effect;
    effect.statement = &statement;
    effect.scope = &scope;
    std::tie(effect.field, effect.value) = assignment(statement);
    effect.registered = registered_name(&statement);
    effect.effects = find_side_effects(&statement, meant_, arguments_);
    effects_.push_back(std::move(effect));
  }

  static bool always_holds(const clang::IfStmt& condition, const BindingScope& scope) {
    const auto* name = dyn_cast<clang::DeclRefExpr>(condition.getCond()->IgnoreParenImpCasts());
    const auto* parameter = name ? dyn_cast<clang::ParmVarDecl>(name->getDecl()) : nullptr;
    const BindingScope* at = &scope;
    const clang::Expr* given = nullptr;
    while (parameter && at) {
      const auto found = at->arguments.find(parameter);
      if (found == at->arguments.end()) return false;
      given = found->second->IgnoreParenImpCasts();
      const auto* next = dyn_cast<clang::DeclRefExpr>(given);
      parameter = next ? dyn_cast<clang::ParmVarDecl>(next->getDecl()) : nullptr;
      at = at->outer;
    }
    const auto* flag = llvm::dyn_cast_or_null<clang::CXXBoolLiteralExpr>(given);
    return flag && flag->getValue() && !condition.hasElseStorage() && !condition.hasInitStorage() &&
           !llvm::isa<clang::CompoundStmt>(condition.getThen());
  }

  // ---- Steps of the flattened constructor ----

  std::string name_for(const Effect& effect) const {
    const Level& level = *effect.scope->context.level;
    for (const Symbol* symbol = level.symbol; symbol; symbol = symbol->base)
      if (symbol->declares_field(effect.field))
        return counterparts_.family().member_name(effect.field, *symbol, level, entity_);
    return effect.field;
  }

  bool take(Effect& effect) {
    effect.matched = true;
    order_.push_back(static_cast<size_t>(&effect - effects_.data()));
    match_.forget_difference();
    return true;
  }

  void find_declared(const clang::CXXCtorInitializer& init) {
    for (Effect& effect : effects_)
      if (effect.declared && effect.matched && init.isAnyMemberInitializer() &&
          name_for(effect) == init.getAnyMember()->getNameAsString())
        take(effect);
  }

  bool find(const clang::CXXCtorInitializer& init) {
    match_.forget_difference();
    for (auto effect = effects_.rbegin(); effect != effects_.rend(); ++effect) {
      if (effect->matched || !effect->value || effect->declared) continue;
      const bool same_target =
          init.isAnyMemberInitializer()
              ? !effect->field.empty() && name_for(*effect) == init.getAnyMember()->getNameAsString()
              : effect->initializer && effect->initializer->isBaseInitializer();
      if (!same_target) continue;
      if (match_.expression(init.getInit(), effect->value, *effect->scope)) {
        effect->again = effect->statement != nullptr && !effect->registered.empty();
        return take(*effect);
      }
      first_ = first_ ? first_ : match_.difference();
      match_.forget_difference();
    }
    return false;
  }

  bool find(const clang::Stmt& statement) {
    first_.reset();
    match_.forget_difference();
    if (is_parameter(statement)) return true;
    const auto [field, value] = assignment(statement);
    for (Effect& effect : effects_) {
      if (effect.matched) continue;
      if (effect.statement && match_.sequence({&statement}, {effect.statement}, *effect.scope)) {
        effect.again = !effect.registered.empty() && !effect.field.empty();
        return take(effect);
      }
      if (effect.statement && !first_) first_ = match_.difference();
      match_.forget_difference();
      // An initializer that became an assignment.
      if ((effect.initializer || effect.declared) && !field.empty() && name_for(effect) == field &&
          match_.expression(value, &single_value(*effect.value), *effect.scope)) {
        effect.assigned = true;
        return take(effect);
      }
      match_.forget_difference();
    }
    return false;
  }

  /// Whether `statement` declares a variable for a parameter of a base's constructor, initialized with the argument.
  bool is_parameter(const clang::Stmt& statement) {
    const auto* declared = dyn_cast<clang::DeclStmt>(&statement);
    const auto* variable =
        declared && declared->isSingleDecl() ? dyn_cast<clang::VarDecl>(declared->getSingleDecl()) : nullptr;
    if (!variable || !variable->getInit()) return false;
    const SourceSpan from = counterparts_.origin(variable->getLocation());
    for (BindingScope& scope : scopes_)
      for (const auto& [parameter, given] : scope.arguments) {
        const SourceSpan where = counterparts_.locate(parameter->getLocation());
        if (where.file != from.file || where.begin != from.begin) continue;
        const bool is_default = parameter->getDefaultArg() == given;
        if (!match_.expression(variable->getInit(), given, is_default ? scope : *scope.outer)) return false;
        match_.stands_for(*parameter, *variable);
        const auto effect = std::find_if(effects_.begin(), effects_.end(),
                                         [&](const Effect& one) { return one.parameter == parameter; });
        scope.arguments.erase(parameter);
        return take(*effect);
      }
    return false;
  }

  // ---- Conditions ----

  std::optional<Match::Difference> missing(clang::SourceLocation where, const std::string& what) const {
    if (first_) return first_;
    return Match::Difference{where, "the spec's constructors have no counterpart of " + what};
  }

  /// Every step without a counterpart in the flattened constructor has been replaced, or serves a member that is
  /// removed.
  std::optional<Match::Difference> left_out(const clang::CXXConstructorDecl& flattened) const {
    for (const Effect& effect : effects_) {
      if (effect.matched) continue;
      const std::string& target = effect.field.empty() ? effect.registered : effect.field;
      const bool removed = !target.empty() && entity_.removed.count(target) != 0;
      const bool replaced = std::any_of(effects_.begin(), effects_.end(), [&](const Effect& other) {
        const std::string& other_target = other.field.empty() ? other.registered : other.field;
        return &other > &effect && other.matched && !target.empty() && other_target == target;
      });
      const bool redeclared =
          !target.empty() && std::any_of(entity_.levels.begin(), entity_.levels.end(), [&](const Level& one) {
            return one.symbol != effect.scope->context.level->symbol && one.symbol->declares_field(target);
          });
      const bool served_removed = changes_only(effect.effects, [&](const std::string& field) {
        return entity_.removed.count(field) != 0 || is_member_replaced(field);
      });
      if (removed || replaced || redeclared || served_removed || is_removal(effect)) continue;
      const auto* code = effect.statement;
      const SourceSpan where = counterparts_.locate(code              ? code->getBeginLoc()
                                                    : effect.declared ? effect.declared->getLocation()
                                                                      : effect.initializer->getSourceLocation());
      const Location at = counterparts_.family().parsed().sources.locate(where);
      return Match::Difference{flattened.getLocation(),
                               "this constructor omits the code at " + at.path + ":" + std::to_string(at.line)};
    }
    return std::nullopt;
  }

  /// Whether one of the constructors calls remove(field).
  bool is_member_replaced(const std::string& field) const {
    return std::any_of(effects_.begin(), effects_.end(), [&](const Effect& one) {
      return is_removal(one) && own_field(llvm::cast<clang::CallExpr>(one.statement)->getArg(0)) == field;
    });
  }

  static bool is_removal(const Effect& effect) {
    const auto* call = llvm::dyn_cast_or_null<clang::CallExpr>(effect.statement);
    const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
    return callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == "modular::remove";
  }

  /// Whether `second` is a statement of a constructor that C++ continues with after that of `first`, a statement.
  static bool is_after_base(const Effect& first, const Effect& second) {
    return first.statement && (second.statement || second.assigned) &&
           second.scope->context.level < first.scope->context.level;
  }

  std::optional<Match::Difference> misplaced(const clang::CXXConstructorDecl& flattened) const {
    for (size_t later = 0; later < order_.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier) {
        const Effect &first = effects_[order_[earlier]], &second = effects_[order_[later]];
        if (is_after_base(first, second) && first.effects.returns)
          return Match::Difference{second.statement ? second.statement->getBeginLoc() : flattened.getLocation(),
                                   "this would not run where a base's constructor returns early"};
        if (is_after_base(first, second) && !llvm::isa<clang::CompoundStmt>(first.statement) &&
            leaves_a_guard(*first.statement))
          return Match::Difference{second.statement ? second.statement->getBeginLoc() : flattened.getLocation(),
                                   "this would run before the end of a guard in a base's constructor"};
        if (order_[earlier] < order_[later]) continue;
        if (first.again || second.again || commute(first.effects, second.effects)) continue;
        const auto name = [&](const Effect& effect) {
          const SourceSpan where = counterparts_.locate(effect.statement   ? effect.statement->getBeginLoc()
                                                        : effect.declared  ? effect.declared->getLocation()
                                                        : effect.parameter ? effect.parameter->getLocation()
                                                                           : effect.initializer->getSourceLocation());
          const Location at = counterparts_.family().parsed().sources.locate(where);
          return at.path + ":" + std::to_string(at.line);
        };
        return Match::Difference{flattened.getLocation(), "this constructor runs " + name(first) + " before " +
                                                              name(second) +
                                                              ", which C++ runs first, and one depends on the other"};
      }
    return std::nullopt;
  }

  const Counterparts& counterparts_;
  const Entity& entity_;
  Match match_;
  const MethodsMeant meant_;
  const clang::CXXRecordDecl* flattened_ = nullptr;
  std::deque<BindingScope> scopes_;
  Arguments arguments_;  // of the constructors of the bases
  std::vector<Effect> effects_;
  std::vector<size_t> order_;  // indices of effects, in the flattened constructor's order
  std::optional<Match::Difference> first_;
};

}  // namespace

std::optional<Match::Difference> constructor_difference(const Counterparts& counterparts, Validation& validation,
                                                        const clang::CXXConstructorDecl& flattened,
                                                        const clang::CXXConstructorDecl& spec, const Context& context) {
  return Constructors(counterparts, validation, *context.entity).difference(flattened, spec, context);
}

}  // namespace modgen
