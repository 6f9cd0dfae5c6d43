// Fields and parameters that constructors change, so that their value is not the one that was first given.
#include <algorithm>
#include <array>
#include <set>

#include "generator/model/family_model.h"
#include "generator/source/names.h"

namespace modgen {
namespace {

bool is_object(const Expr& expr) {
  return expr.kind == Expr::Kind::self ||
         (expr.kind == Expr::Kind::op && expr.name == "*" && expr.operands.size() == 1 && is_object(expr.operands[0]));
}

/// Methods that are not const for their result's sake alone: a change through it names them.
bool is_accessor(std::string_view name) {
  static constexpr std::array names = {"at", "back", "begin", "data", "end", "front", "get", "top", "value"};
  return std::ranges::find(names, name) != names.end();
}

/// Whether a change of `expr`, as the code around it may make, is one of what it names.
bool names_object(const Expr& expr) {
  const bool is_element = expr.kind == Expr::Kind::op && (expr.name == "[]" || expr.name == "*");
  return expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::local || expr.kind == Expr::Kind::method ||
         expr.kind == Expr::Kind::cast || is_element;
}

bool returns(const Stmt& statement) {
  return statement.kind == Stmt::Kind::ret || std::ranges::any_of(statement.then_body, returns) ||
         std::ranges::any_of(statement.else_body, returns);
}

class Marker {
 public:
  /// `owner` is the function's class, or null.
  Marker(std::vector<Class>& classes, Class* owner, Function& function)
      : classes_(classes), owner_(owner), function_(function) {}

  /// Looks for references to other fields in the default member initializer of `field`.
  void run(Field& field) {
    if (field.initial) look(*field.initial, nullptr);
  }

  void run() {
    for (Initializer& initializer : function_.body.initializers) {
      if (Field* field = find_field(owner_, initializer.name); field && !set_.insert(field).second)
        field->varies = true;
      for (Expr& argument : initializer.arguments) look(argument, nullptr);
    }
    bool is_certain = function_.is_constructor;
    for (Stmt& statement : function_.body.statements) {
      look(statement, is_certain);
      is_certain = is_certain && !returns(statement);
    }
  }

 private:
  static Field* find_field(Class* owner, const std::string& name) {
    if (!owner) return nullptr;
    const auto found = std::ranges::find(owner->fields, name, &Field::name);
    return found == owner->fields.end() ? nullptr : &*found;
  }

  /// The class of an object of that C++ type, or of the module that it holds or points to; null if there is none.
  Class* find_class(std::string_view type) {
    const std::string_view name = unqualified(type.substr(0, type.find(' ')));
    const auto found = std::ranges::find_if(
        classes_, [&](const Class& one) { return one.name == name || (!name.empty() && one.holder == name); });
    return found == classes_.end() ? nullptr : &*found;
  }

  /// Looks for changes in a statement. `is_certain`: the constructor runs it once.
  void look(Stmt& statement, bool is_certain) {
    const bool binds = statement.kind == Stmt::Kind::declare || statement.kind == Stmt::Kind::range_for;
    if (binds && statement.binding == Binding::reference && !statement.exprs.empty()) change(statement.exprs[0]);
    if (statement.kind == Stmt::Kind::range_for) harmless_.insert(&statement.exprs[0]);
    const bool sets = is_certain && statement.kind == Stmt::Kind::expression;
    for (Expr& expr : statement.exprs) look(expr, sets ? &statement.exprs[0] : nullptr);
    for (auto* body : {&statement.then_body, &statement.else_body})
      for (Stmt& inner : *body) look(inner, is_certain && statement.kind == Stmt::Kind::block);
  }

  /// Looks for changes in an expression. `once`: the assignment that is certain to run once, if it is one.
  void look(Expr& outer, const Expr* once) {
    for_each_expr(outer, [&](Expr& expr) {
      if (expr.body) {
        Body body = *expr.body;
        std::set<const Expr*> around;
        std::swap(around, harmless_);
        for (Stmt& statement : body.statements) look(statement, false);
        std::swap(around, harmless_);  // without what ends with `body`
      }
      if (!expr.members.empty() && expr.kind == Expr::Kind::unknown)
        if (Field* field = find_field(find_class(expr.type), expr.members[0])) field->varies = true;
      find_harmless(expr, once);
      // Whatever else it is bound to may change it.
      if (expr.is_unread && names_object(expr) && !harmless_.contains(&expr)) change(expr);
      const bool counts = expr.kind == Expr::Kind::op && (expr.name == "++" || expr.name == "--");
      const bool points = expr.kind == Expr::Kind::op && expr.name == "&" && expr.operands.size() == 1;
      if (expr.operands.empty()) return;
      if (changes_first(expr) && &expr == once && expr.name == "=")
        set(expr.operands[0]);
      else if (changes_first(expr) || counts || points)
        change(expr.operands[0]);
      if (!expr.callee) return;
      if (expr.kind == Expr::Kind::method && expr.callee->changes_object && !expr.callee->of_module &&
          !is_accessor(expr.name))
        change(expr.operands[0]);
      for (const size_t i : expr.callee->changes)
        if (i < expr.operands.size()) change(expr.operands[i]);
    });
  }

  /// Notes the operands of `expr` that are neither changed nor kept unless `expr` is, or as other code here finds.
  void find_harmless(const Expr& expr, const Expr* once) {
    const std::vector<Expr>& operands = expr.operands;
    if (operands.empty()) return;
    const bool is_op = expr.kind == Expr::Kind::op;
    const bool is_part =
        expr.kind == Expr::Kind::field || expr.kind == Expr::Kind::method ||
        (is_op && (expr.name == "[]" || expr.name == "," || (expr.name == "*" && operands.size() == 1)));
    const bool is_cast = expr.kind == Expr::Kind::cast && (expr.type == "void" || (expr.is_lvalue && !expr.is_unread));
    if (is_part || is_cast || (&expr == once && is_op && expr.name == "=")) harmless_.insert(&operands[0]);
    const bool selects = is_op && (expr.name == "?:" || expr.name == ",") && !expr.is_unread;
    for (size_t i = 1; selects && i < operands.size(); ++i) harmless_.insert(&operands[i]);
  }

  void set(const Expr& target) {
    const bool is_own = target.kind == Expr::Kind::field && target.operands.empty();
    Field* field = is_own ? find_field(owner_, target.name) : nullptr;
    if (!field) return change(target);
    if (!set_.insert(field).second) field->varies = true;
  }

  void change(const Expr& target) {
    if (target.kind == Expr::Kind::field && (target.operands.empty() || is_object(target.operands[0]))) {
      if (Field* field = find_field(owner_, target.name)) field->varies = true;
    } else if (target.kind == Expr::Kind::local) {
      for (Parameter& parameter : function_.parameters)
        if (parameter.variable == target.variable) parameter.varies = true;
    } else if (target.kind == Expr::Kind::construct) {
      return;  // what it refers to has been marked where it is bound
    } else if (target.kind == Expr::Kind::op && target.name == "?:") {
      for (size_t i = 1; i < target.operands.size(); ++i) change(target.operands[i]);  // not the condition
    } else if (target.kind == Expr::Kind::call || target.kind == Expr::Kind::list) {
      for (const Expr& operand : target.operands) change(operand);  // std::tie(a, b)
    } else if (!target.operands.empty()) {
      Class* other = target.kind == Expr::Kind::field ? find_class(target.operands[0].type) : nullptr;
      if (other && other->is_config && is_new(target.operands[0])) return;
      if (Field* field = find_field(other, target.name)) field->varies = true;
      change(target.operands[0]);
    }
  }

  /// Whether `object` is a local object of a function that belongs to no class: it makes a config, of which nothing has
  /// been read.
  bool is_new(const Expr& object) const {
    return !owner_ && object.kind == Expr::Kind::local && declares(function_.body.statements, object.variable);
  }

  static bool declares(const std::vector<Stmt>& statements, uint32_t variable) {
    return std::ranges::any_of(statements, [&](const Stmt& statement) {
      const bool is_own = statement.kind == Stmt::Kind::declare && statement.binding == Binding::value;
      return (is_own && std::ranges::count(statement.variables, variable) > 0) ||
             declares(statement.then_body, variable) || declares(statement.else_body, variable);
    });
  }

  std::vector<Class>& classes_;
  Class* owner_;
  Function& function_;
  std::set<const Field*> set_;
  std::set<const Expr*> harmless_;  // looked up, never iterated
};

}  // namespace

void mark_varying(FamilyModel& family) {
  for (Class& owner : family.classes)
    for (Function& function : owner.functions) Marker(family.classes, &owner, function).run();
  Function none;
  for (Class& owner : family.classes)
    for (Field& field : owner.fields) Marker(family.classes, &owner, none).run(field);
  for (Class& inner : family.inner_classes)
    for (Function& function : inner.functions) Marker(family.classes, nullptr, function).run();
  for (auto* functions : {&family.functions, &family.friends, &family.instances})
    for (Function& function : *functions) Marker(family.classes, nullptr, function).run();
}

}  // namespace modgen
