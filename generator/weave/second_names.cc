#include "generator/weave/second_names.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace modgen {
namespace {

/// The arguments of a template: {"long", "at::Tensor"} for "std::map<long, at::Tensor>".
std::vector<std::string_view> arguments_of(std::string_view type) {
  std::vector<std::string_view> arguments;
  const size_t open = type.find('<'), close = type.rfind('>');
  if (open == std::string_view::npos || close == std::string_view::npos) return arguments;
  int depth = 0;
  for (size_t at = open + 1, begin = at; at <= close; ++at) {
    depth += type[at] == '<' || type[at] == '(' ? 1 : (type[at] == '>' || type[at] == ')') && at < close ? -1 : 0;
    if (at < close && (type[at] != ',' || depth > 0)) continue;
    while (begin < at && type[begin] == ' ') ++begin;
    arguments.push_back(type.substr(begin, at - begin));
    begin = at + 1;
  }
  return arguments;
}

/// Whether it is a number's type, or a number: the size of an array.
bool is_number(std::string_view type) {
  if (type.empty() || (type.front() >= '0' && type.front() <= '9')) return !type.empty();
  static constexpr std::array words = {"bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned"};
  while (!type.empty()) {
    const size_t end = std::min(type.find(' '), type.size());
    if (std::ranges::find(words, type.substr(0, end)) == words.end()) return false;
    type.remove_prefix(std::min(end + 1, type.size()));
  }
  return true;
}

/// Whether an object of that C++ type may hold tensors or modules, or lead to some. Types that are not known may.
bool leads_to_tensors(const FamilyModel& family, std::string_view type, int depth = 0) {
  static constexpr std::array<std::string_view, 8> values = {
      "std::string", "std::basic_string<char>", "std::basic_string_view<char>", "std::string_view",
      "c10::Device", "c10::ScalarType",         "c10::ArrayRef<long>",          "std::monostate"};
  static constexpr std::array<std::string_view, 15> containers = {
      "array", "deque", "initializer_list", "list",          "map",   "multimap", "multiset", "optional", "pair", "set",
      "tuple", "span",  "unordered_map",    "unordered_set", "vector"};
  if (find_class(family, type)) return true;
  if (is_number(type) || std::ranges::find(values, type) != values.end() || is_config(family, type)) return false;
  const auto is_type = [&](const auto& known) { return known.first == type; };
  if (std::ranges::any_of(family.config_field_types, is_type)) return false;
  if (const Class* owner = class_of_type(family, type))
    return depth > 8 || !owner->holder.empty() || std::ranges::any_of(owner->fields, [&](const Field& field) {
             return leads_to_tensors(family, field.canonical, depth + 1);
           });
  const bool is_own = type.starts_with("modular::" + family.name + "::");
  if (is_own && type.find_first_of("<*& ") == std::string_view::npos) return false;  // an enumeration
  const bool is_container = type.starts_with("std::") &&
                            std::ranges::find(containers, type.substr(5, type.find('<') - 5)) != containers.end();
  if (!is_container) return true;
  return std::ranges::any_of(arguments_of(type),
                             [&](std::string_view argument) { return leads_to_tensors(family, argument, depth + 1); });
}

using IsName = std::function<bool(const Expr&)>;

bool contains(const Expr& expr, const IsName& is_name) {
  return is_name(expr) ||
         std::ranges::any_of(expr.operands, [&](const Expr& operand) { return contains(operand, is_name); });
}

/// Whether evaluating `expr` changes what the variable refers to.
bool changes(const Expr& expr, const IsName& is_name) {
  const auto is_changed = [&](size_t i) { return i < expr.operands.size() && contains(expr.operands[i], is_name); };
  // These take any reference, and copy.
  const bool copies = expr.name == "std::make_pair" || expr.name == "std::make_tuple";
  const bool mutates =
      expr.callee && !copies &&
      (std::ranges::any_of(expr.callee->changes, is_changed) || (expr.callee->changes_object && is_changed(0)));
  return mutates || (changes_first(expr) && is_changed(0)) ||
         std::ranges::any_of(expr.operands, [&](const Expr& operand) { return changes(operand, is_name); });
}

/// Whether `expr` only reads what a tensor looks like, makes one that looks like it, or changes its values.
bool gives_no_name(const Expr& expr) {
  static constexpr std::array<std::string_view, 10> queries = {"size",  "sizes",  "dim",     "numel",       "options",
                                                               "dtype", "device", "defined", "scalar_type", "empty"};
  return is_in_place_method(expr) ||
         (expr.kind == Expr::Kind::method && std::ranges::find(queries, expr.name) != queries.end()) ||
         (expr.kind == Expr::Kind::call && (expr.name.ends_with("_like") || expr.name.ends_with("_")));
}

/// Looks for tensors and modules with names of their own in the code of one function.
class Search {
 public:
  Search(const FamilyModel& family, const Function& function) : family_(family), function_(function) {}

  /// A tensor or module in `expr` that has a name, other than the member `field`; null if there is none.
  const Expr* find_named(const Expr& expr, std::string_view field) {
    if (gives_no_name(expr) || is_own_field(expr, field)) return nullptr;
    const bool may_lead = leads_to_tensors(family_, expr.type);
    if (expr.kind == Expr::Kind::local && may_lead) return find_named(expr.variable, field) ? &expr : nullptr;
    const bool is_name =
        (expr.kind == Expr::Kind::global && !expr.callee) || (expr.kind == Expr::Kind::field && expr.operands.empty());
    if (expr.kind == Expr::Kind::self || (is_name && may_lead)) return &expr;
    const bool of_this = expr.kind == Expr::Kind::method && expr.operands[0].kind == Expr::Kind::self;
    if (of_this && !expr.name.starts_with("register_") && may_lead) return &expr;
    const bool is_set = expr.kind == Expr::Kind::op && expr.name == "=";
    for (size_t i = of_this || is_set ? 1 : 0; i < expr.operands.size(); ++i)
      if (const Expr* found = find_named(expr.operands[i], field)) return found;
    return nullptr;
  }

  /// Where the function makes the member another name of something.
  std::optional<SourceSpan> find(const std::vector<Stmt>& statements, const Field& field) {
    const bool is_module = field.modules != Field::Modules::none;
    const IsName is_name = [&](const Expr& expr) { return is_own_field(expr, field.name); };
    for (const Stmt& statement : statements) {
      for (const Expr& expr : statement.exprs) {
        const bool binds = statement.binding == Binding::reference && statement.kind == Stmt::Kind::declare;
        if (binds && function_.is_constructor && !is_module && contains(expr, is_name)) return expr.span;
        if (is_module ? !replaces_parameter(expr, is_name) : !changes(expr, is_name)) continue;
        if (const Expr* named = find_named(expr, is_module ? std::string_view() : field.name)) return named->span;
      }
      for (const auto* inner : {&statement.then_body, &statement.else_body})
        if (const auto found = find(*inner, field)) return found;
    }
    return std::nullopt;
  }

 private:
  /// Whether a local variable leads to a tensor or module with another name. Parameters do.
  bool find_named(uint32_t variable, std::string_view field) {
    if (!open_.insert(variable).second) return false;
    const IsName is_name = [&](const Expr& expr) {
      return expr.kind == Expr::Kind::local && expr.variable == variable;
    };
    bool is_declared = false, found = false;
    const std::function<void(const std::vector<Stmt>&)> look = [&](const std::vector<Stmt>& statements) {
      for (const Stmt& statement : statements) {
        const bool declares = std::ranges::count(statement.variables, variable) > 0;
        is_declared |= declares;
        for (const Expr& expr : statement.exprs)
          found |= (declares || changes(expr, is_name)) && find_named(expr, field) != nullptr;
        look(statement.then_body);
        look(statement.else_body);
      }
    };
    look(function_.body.statements);
    open_.erase(variable);
    return found || !is_declared;
  }

  /// Whether `expr` gives a parameter of a module, or of one in it, another tensor: `head->weight = …`.
  static bool replaces_parameter(const Expr& expr, const IsName& is_name) {
    if (expr.kind != Expr::Kind::op || expr.name != "=") return false;
    const Expr& target = expr.operands[0];
    return target.kind == Expr::Kind::field && !target.operands.empty() && target.type == "at::Tensor" &&
           contains(target.operands[0], is_name);
  }

  const FamilyModel& family_;
  const Function& function_;
  std::set<uint32_t> open_;
};

}  // namespace

std::optional<SourceSpan> find_shared(const FamilyModel& family, const Class& owner, const Field& field) {
  if (field.is_initially_shared) return field.where;
  for (const Function& function : owner.functions) {
    Search search(family, function);
    for (const Initializer& initializer : function.body.initializers)
      if (initializer.name == field.name && field.modules == Field::Modules::none)
        for (const Expr& argument : initializer.arguments)
          if (const Expr* named = search.find_named(argument, field.name)) return named->span;
    if (const auto found = search.find(function.body.statements, field)) return found;
  }
  return std::nullopt;
}

bool is_second_name(const ModuleNode& node) {
  const Expr* value = node.construction;
  if (!value || !node.parent || !node.parent->type) return false;
  while ((value->kind == Expr::Kind::cast || value->name == "std::move") && value->operands.size() == 1)
    value = value->operands.data();
  if (value->kind == Expr::Kind::field) return !is_own_field(*value, node.field->name);
  const auto takes = [&](const Function& function) {
    return function.is_constructor && std::ranges::any_of(function.parameters, [&](const Parameter& parameter) {
             return parameter.name == value->name;
           });
  };
  return value->kind == Expr::Kind::local && std::ranges::any_of(node.parent->type->functions, takes);
}

}  // namespace modgen
