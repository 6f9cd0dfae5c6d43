#include "generator/validate/constructors.h"

#include <clang/AST/DeclCXX.h>

#include <algorithm>
#include <deque>

#include "generator/flatten/base_call.h"
#include "generator/flatten/side_effects.h"
#include "generator/resolve/effects.h"

namespace modgen {
namespace {

using llvm::dyn_cast;

/// One thing that a constructor of the specs does, in the order in which C++ does it.
struct Effect {
  const clang::CXXCtorInitializer* initializer = nullptr;
  const clang::Stmt* statement = nullptr;
  const clang::FieldDecl* declared = nullptr;  // a field that is initialized where it is declared
  const clang::Expr* value = nullptr;          // what it sets `field` to
  std::string field;
  std::string registered;
  Setting* setting = nullptr;
  SideEffects effects;
  bool matched = false, again = false;
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

class Constructors {
 public:
  Constructors(const Counterparts& counterparts, Validation& validation, const Entity& entity)
      : counterparts_(counterparts), entity_(entity), match_(counterparts, validation), meant_(methods_meant(entity)) {}

  std::optional<Match::Difference> difference(const clang::CXXConstructorDecl& flattened,
                                              const clang::CXXConstructorDecl& spec, const Context& context) {
    match_.parameters(flattened, spec);
    settings_.push_back({context, nullptr, {}});
    const auto level = static_cast<size_t>(context.level - entity_.levels.data());
    list(spec, level, settings_.back());
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
  // ---- What the specs' constructors do ----

  void list(const clang::CXXConstructorDecl& constructor, size_t level, Setting& setting) {
    if (constructor.isDefaulted()) {
      const BaseCall call = default_base_call(counterparts_.family(), entity_, level, constructor);
      if (call.constructor) run(call, level, setting);
      return add_declared(level, level + 1);
    }
    std::vector<const clang::CXXCtorInitializer*> written;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten()) written.push_back(init);
    std::sort(written.begin(), written.end(),
              [](const auto* a, const auto* b) { return a->getSourceOrder() < b->getSourceOrder(); });
    // Those written before the base's come first: a rule of the language.
    size_t early = 0;
    const auto is_own_base = [&](const clang::CXXCtorInitializer* init) {
      const auto* record = init->isBaseInitializer() ? init->getBaseClass()->getAsCXXRecordDecl() : nullptr;
      return record && counterparts_.family().specs().symbol(record);
    };
    while (early < written.size() && !is_own_base(written[early])) ++early;
    if (early == written.size()) early = 0;
    for (size_t index = 0; index < early; ++index) add(*written[index], setting);
    for (const clang::CXXCtorInitializer* init : constructor.inits()) {
      if (std::find(written.begin(), written.begin() + static_cast<long>(early), init) !=
          written.begin() + static_cast<long>(early))
        continue;
      if (init->isBaseInitializer()) {
        const auto call = base_call(counterparts_.family(), entity_, level, *init);
        if (call && call->constructor) run(*call, level, setting);
        if (call) continue;
      }
      if (init->isWritten())
        add(*init, setting);
      else if (init->isAnyMemberInitializer())
        add_declared(*init->getAnyMember(), level);
    }
    for (const clang::Stmt* statement : Match::get_statements(constructor.getBody())) add(*statement, setting);
  }

  void run(const BaseCall& call, size_t level, Setting& outer) {
    settings_.push_back({{&entity_, &entity_.levels[call.level]}, &outer, {}});
    Setting& setting = settings_.back();
    for (unsigned index = 0; index < call.constructor->getNumParams(); ++index) {
      const clang::ParmVarDecl* parameter = call.constructor->getParamDecl(index);
      const clang::Expr* argument = index < call.arguments.size() ? call.arguments[index] : nullptr;
      if (!argument || llvm::isa<clang::CXXDefaultArgExpr>(argument)) argument = parameter->getDefaultArg();
      setting.arguments[parameter] = argument;
    }
    list(*call.constructor, call.level, setting);
    add_declared(level + 1, call.level);
  }

  /// What classes from level `first` on, and before level `end`, initialize where they declare it.
  void add_declared(size_t first, size_t end) {
    for (size_t level = end; level-- > first;)
      for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) add_declared(*field, level);
  }

  /// What is declared again stands at the inherited place: a rule of the language.
  void add_declared(const clang::FieldDecl& field, size_t level) {
    const std::string name = field.getNameAsString();
    const bool is_inherited = std::any_of(entity_.levels.begin() + static_cast<long>(level) + 1, entity_.levels.end(),
                                          [&](const Level& one) { return one.symbol->declares_field(name); });
    if (!field.hasInClassInitializer() || is_inherited) return;
    settings_.push_back({{&entity_, &entity_.levels[level]}, nullptr, {}});
    Effect effect;
    effect.declared = &field;
    effect.field = name;
    effect.setting = &settings_.back();
    effect.effects = find_side_effects(field.getInClassInitializer(), meant_);
    effect.effects.writes.insert(name);
    effect.matched = true;  // a value of its own: only its order is a matter of constructors
    effects_.push_back(std::move(effect));
  }

  void add(const clang::CXXCtorInitializer& init, Setting& setting) {
    Effect effect;
    effect.initializer = &init;
    effect.value = init.getInit();
    effect.setting = &setting;
    if (init.isAnyMemberInitializer()) effect.field = init.getAnyMember()->getNameAsString();
    effect.registered = registered_name(init.getInit());
    effect.effects = find_side_effects(init.getInit(), meant_);
    if (!effect.field.empty()) effect.effects.writes.insert(effect.field);
    effects_.push_back(std::move(effect));
  }

  void add(const clang::Stmt& statement, Setting& setting) {
    // `if (parameter) statement` with `true` for the parameter.
    if (const auto* condition = dyn_cast<clang::IfStmt>(&statement); condition && always_holds(*condition, setting))
      return add(*condition->getThen(), setting);
    Effect effect;
    effect.statement = &statement;
    effect.setting = &setting;
    std::tie(effect.field, effect.value) = assignment(statement);
    effect.registered = registered_name(&statement);
    effect.effects = find_side_effects(&statement, meant_);
    effects_.push_back(std::move(effect));
  }

  static bool always_holds(const clang::IfStmt& condition, const Setting& setting) {
    const auto* name = dyn_cast<clang::DeclRefExpr>(condition.getCond()->IgnoreParenImpCasts());
    const auto* parameter = name ? dyn_cast<clang::ParmVarDecl>(name->getDecl()) : nullptr;
    const Setting* at = &setting;
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

  // ---- Where the flattened constructor does it ----

  std::string name_for(const Effect& effect) const {
    const Level& level = *effect.setting->context.level;
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
      if (effect.declared && init.isAnyMemberInitializer() &&
          name_for(effect) == init.getAnyMember()->getNameAsString())
        take(effect);
  }

  bool find(const clang::CXXCtorInitializer& init) {
    match_.forget_difference();
    for (auto effect = effects_.rbegin(); effect != effects_.rend(); ++effect) {
      if (effect->matched || !effect->value) continue;
      const bool same_target =
          init.isAnyMemberInitializer()
              ? !effect->field.empty() && name_for(*effect) == init.getAnyMember()->getNameAsString()
              : effect->initializer && effect->initializer->isBaseInitializer();
      if (!same_target) continue;
      if (match_.expression(init.getInit(), effect->value, *effect->setting)) {
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
      if (effect.statement && match_.sequence({&statement}, {effect.statement}, *effect.setting)) {
        effect.again = !effect.registered.empty() && !effect.field.empty();
        return take(effect);
      }
      if (effect.statement && !first_) first_ = match_.difference();
      match_.forget_difference();
      // An initializer as an assignment.
      if (effect.initializer && !field.empty() && name_for(effect) == field &&
          match_.expression(value, effect.value, *effect.setting))
        return take(effect);
      match_.forget_difference();
    }
    return false;
  }

  /// A parameter of a base's constructor as a variable, with the argument as its first value.
  bool is_parameter(const clang::Stmt& statement) {
    const auto* declared = dyn_cast<clang::DeclStmt>(&statement);
    const auto* variable =
        declared && declared->isSingleDecl() ? dyn_cast<clang::VarDecl>(declared->getSingleDecl()) : nullptr;
    if (!variable || !variable->getInit()) return false;
    const SourceSpan from = counterparts_.origin(variable->getLocation());
    for (Setting& setting : settings_)
      for (const auto& [parameter, given] : setting.arguments) {
        const SourceSpan where = counterparts_.place(parameter->getLocation());
        if (where.file != from.file || where.begin != from.begin) continue;
        const bool is_default = parameter->getDefaultArg() == given;
        if (!match_.expression(variable->getInit(), given, is_default ? setting : *setting.outer)) return false;
        match_.stands_for(*parameter, *variable);
        setting.arguments.erase(parameter);
        return true;
      }
    return false;
  }

  // ---- What must hold ----

  std::optional<Match::Difference> missing(clang::SourceLocation where, const std::string& what) const {
    if (first_) return first_;
    return Match::Difference{where, "the spec's constructors have no counterpart of " + what};
  }

  /// What nothing in the flattened constructor stands for has been replaced, or serves a member that is gone.
  std::optional<Match::Difference> left_out(const clang::CXXConstructorDecl& flattened) const {
    for (const Effect& effect : effects_) {
      if (effect.matched) continue;
      const std::string& target = effect.field.empty() ? effect.registered : effect.field;
      const bool removed = !target.empty() && entity_.removed.count(target) != 0;
      const bool replaced = std::any_of(effects_.begin(), effects_.end(), [&](const Effect& other) {
        const std::string& theirs = other.field.empty() ? other.registered : other.field;
        return &other > &effect && other.matched && !target.empty() && theirs == target;
      });
      const bool redeclared =
          !target.empty() && std::any_of(entity_.levels.begin(), entity_.levels.end(), [&](const Level& one) {
            return one.symbol != effect.setting->context.level->symbol && one.symbol->declares_field(target);
          });
      const bool served_removed = changes_only(effect.effects, [&](const std::string& field) {
        return entity_.removed.count(field) != 0 || is_member_replaced(field);
      });
      if (removed || replaced || redeclared || served_removed || is_removal(effect)) continue;
      const auto* code = effect.statement;
      const SourceSpan where =
          counterparts_.place(code ? code->getBeginLoc() : effect.initializer->getSourceLocation());
      const Location at = counterparts_.family().parsed().sources.locate(where);
      return Match::Difference{flattened.getLocation(),
                               "this constructor leaves out what " + at.path + ":" + std::to_string(at.line) + " does"};
    }
    return std::nullopt;
  }

  /// Whether one of the constructors says remove(field).
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

  /// Whether a return in `one`, of a base's constructor, would skip `other`, of one that C++ continues with.
  static bool ends_before(const Effect& one, const Effect& other) {
    return one.statement && one.effects.returns && other.statement &&
           other.setting->context.level < one.setting->context.level;
  }

  std::optional<Match::Difference> misplaced(const clang::CXXConstructorDecl& flattened) const {
    for (size_t later = 0; later < order_.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier) {
        const Effect &one = effects_[order_[earlier]], &other = effects_[order_[later]];
        if (ends_before(one, other))
          return Match::Difference{other.statement->getBeginLoc(),
                                   "this would not run where a base's constructor returns early"};
        if (order_[earlier] < order_[later]) continue;
        if (one.again || other.again || commute(one.effects, other.effects)) continue;
        const auto name = [&](const Effect& effect) {
          const SourceSpan where = counterparts_.place(effect.statement  ? effect.statement->getBeginLoc()
                                                       : effect.declared ? effect.declared->getLocation()
                                                                         : effect.initializer->getSourceLocation());
          const Location at = counterparts_.family().parsed().sources.locate(where);
          return at.path + ":" + std::to_string(at.line);
        };
        return Match::Difference{flattened.getLocation(), "this constructor does what " + name(one) +
                                                              " does before what " + name(other) +
                                                              " does, which C++ does first, and one needs the other"};
      }
    return std::nullopt;
  }

  const Counterparts& counterparts_;
  const Entity& entity_;
  Match match_;
  const MethodsMeant meant_;
  std::deque<Setting> settings_;
  std::vector<Effect> effects_;
  std::vector<size_t> order_;  // of effects, as the flattened constructor has them
  std::optional<Match::Difference> first_;
};

}  // namespace

std::optional<Match::Difference> constructor_difference(const Counterparts& counterparts, Validation& validation,
                                                        const clang::CXXConstructorDecl& flattened,
                                                        const clang::CXXConstructorDecl& spec, const Context& context) {
  return Constructors(counterparts, validation, *context.entity).difference(flattened, spec, context);
}

}  // namespace modgen
