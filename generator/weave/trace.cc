#include "generator/weave/trace.h"

#include <algorithm>
#include <utility>

namespace modgen {
namespace {

/// The constructor of a class; null if it has none or several, of which any may run.
const Function* only_constructor(const Class& owner) {
  const auto is_constructor = [](const Function& function) { return function.is_constructor; };
  const auto found = std::ranges::find_if(owner.functions, is_constructor);
  return std::ranges::count_if(owner.functions, is_constructor) == 1 ? &*found : nullptr;
}

/// Index of the parameter of `node`'s constructor that `expr` names; empty if it names something else, or if the
/// constructor changes the parameter.
std::optional<size_t> find_parameter_index(const ModuleNode& node, const Expr& expr) {
  const Function* constructor = only_constructor(*node.type);
  for (size_t i = 0; constructor && i < constructor->parameters.size(); ++i)
    if (constructor->parameters[i].variable == expr.variable)
      return constructor->parameters[i].varies ? std::nullopt : std::optional(i);
  return std::nullopt;
}

/// The value that the only constructor of `node`'s class gives the field `name`; null if it is not known.
const Expr* find_field_value(const ModuleNode& node, const std::string& name) {
  const auto field = std::ranges::find(node.type->fields, name, &Field::name);
  if (field == node.type->fields.end() || field->varies || !only_constructor(*node.type)) return nullptr;
  return find_construction(*node.type, *field).value;
}

bool is_copy(const Expr& construct) {
  return construct.operands.size() == 1 && construct.operands[0].type == construct.type;
}

/// Path of the config that `expr` names within the entry's config: "" for the entry's config itself, "text_config." for
/// a nested one. Empty optional if it cannot be traced.
std::optional<std::string> path_of_config(const ModuleNode& node, const Expr& expr, int depth) {
  if (depth > 64) return std::nullopt;
  switch (expr.kind) {
    case Expr::Kind::cast:
      return path_of_config(node, expr.operands[0], depth + 1);
    case Expr::Kind::construct:
      return is_copy(expr) ? path_of_config(node, expr.operands[0], depth + 1) : std::nullopt;
    case Expr::Kind::local: {
      if (!node.parent) return find_parameter_index(node, expr) ? std::optional<std::string>("") : std::nullopt;
      const auto [parent, argument] = find_argument(node, expr);
      const bool is_config = argument && argument->type == expr.type;  // not one that is made from it
      return is_config ? path_of_config(*parent, *argument, depth + 1) : std::nullopt;
    }
    case Expr::Kind::field: {
      if (!expr.operands.empty()) {
        const auto holder = path_of_config(node, expr.operands[0], depth + 1);
        return holder ? std::optional(*holder + expr.name + ".") : std::nullopt;
      }
      const Expr* value = find_field_value(node, expr.name);
      const auto field = std::ranges::find(node.type->fields, expr.name, &Field::name);
      return value && value->type == field->canonical ? path_of_config(node, *value, depth + 1) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// The member `name` of a braced list of members.
const Expr* find_listed(const Expr& expr, std::string_view name) {
  const auto member = std::ranges::find(expr.members, name);
  return expr.kind == Expr::Kind::list && member != expr.members.end() ? &expr.operands[member - expr.members.begin()]
                                                                       : nullptr;
}

/// The value of `return value;`, a method's only statement; null for any other method.
const Expr* find_returned(const Function& method) {
  const std::vector<Stmt>& statements = method.body.statements;
  const bool returns = statements.size() == 1 && statements[0].kind == Stmt::Kind::ret && !statements[0].exprs.empty();
  return returns && method.is_const && !method.is_virtual ? &statements[0].exprs[0] : nullptr;
}

/// The method of a config that `call` calls without arguments; null for anything else.
const Function* find_config_method(const FamilyModel& family, const Expr& call) {
  if (call.kind != Expr::Kind::method || call.operands.size() != 1 || !is_config(family, call.operands[0].type))
    return nullptr;
  const Class* config = class_of_type(family, call.operands[0].type);
  return config ? find_method(*config, call.name, 0) : nullptr;
}

MemberValue find_member_value(const ModuleNode& node, const Expr& expr, std::string_view name, int depth) {
  if (depth > 64) return {};
  switch (expr.kind) {
    case Expr::Kind::local: {
      const auto [parent, argument] = find_argument(node, expr);
      return argument ? find_member_value(*parent, *argument, name, depth + 1) : MemberValue();
    }
    case Expr::Kind::field: {
      const Expr* value = expr.operands.empty() ? find_field_value(node, expr.name) : nullptr;
      return value ? find_member_value(node, *value, name, depth + 1) : MemberValue();
    }
    case Expr::Kind::construct:
      return is_copy(expr) ? find_member_value(node, expr.operands[0], name, depth + 1) : MemberValue();
    case Expr::Kind::list: {
      const Expr* value = find_listed(expr, name);
      return value ? MemberValue{{&node, value}} : MemberValue();
    }
    case Expr::Kind::method: {
      const Function* method = find_config_method(*node.family, expr);
      const Expr* returned = method ? find_returned(*method) : nullptr;
      const Expr* value = returned ? find_listed(*returned, name) : nullptr;
      return value ? MemberValue{{&node, value}, &expr.operands[0], method} : MemberValue();
    }
    default:
      return {};
  }
}

Size trace(const ModuleNode& node, const Expr& expr, int depth);

/// Traces the member `name` of a struct.
Size trace_member(const ModuleNode& node, const Expr& holder, const std::string& name, int depth) {
  const MemberValue member = find_member_value(node, holder, name, depth);
  if (!member.value.expr) return {};
  if (!member.config) return trace(*member.value.node, *member.value.expr, depth + 1);
  Size size;
  const auto path = path_of_config(*member.value.node, *member.config, depth + 1);
  const Expr& value = *member.value.expr;
  if (path && value.kind == Expr::Kind::field && value.operands.empty() && value.narrowed_to.empty())
    size.count = field_count(*path + value.name);
  return size;
}

/// Traces arithmetic on sizes.
Size trace_operator(const ModuleNode& node, const Expr& expr, int depth) {
  if (expr.operands.size() == 1 && expr.name == "*") return trace(node, expr.operands[0], depth);  // of an optional
  if (expr.operands.size() != 2) return {};
  const Size one = trace(node, expr.operands[0], depth), other = trace(node, expr.operands[1], depth);
  Size size;
  if (expr.name == "*") {
    size.count = product_of(one.count, other.count);
    size.local_fields = one.local_fields;
    size.local_fields.insert(size.local_fields.end(), other.local_fields.begin(), other.local_fields.end());
  } else if (expr.name == "+" || expr.name == "-") {
    size.count = sum_of(one.count, other.count, expr.name == "-");
  } else if (expr.name == "/") {
    size.count = quotient_of(one.count, other.count);
  }
  return size;
}

/// Traces a field of `node`'s class.
Size trace_field(const ModuleNode& node, const std::string& name, int depth) {
  const Expr* value = find_field_value(node, name);
  if (!value) return {};
  const auto field = std::ranges::find(node.type->fields, name, &Field::name);
  Size size = trace(node, *value, depth);
  size.count = converted(std::move(size.count), field->canonical);
  if (const Count::Term* product = size.count.product();
      product && find_annotation(field->annotations, AnnotationKind::tp_local))
    size.local_fields = product->fields;
  return size;
}

Size trace(const ModuleNode& node, const Expr& expr, int depth) {
  if (depth > 64 || !expr.narrowed_to.empty()) return {};
  Size size;
  switch (expr.kind) {
    case Expr::Kind::literal:
      size.count = read_literal(expr.name);
      break;
    case Expr::Kind::cast:
      size = trace(node, expr.operands[0], depth + 1);
      break;
    case Expr::Kind::op:
      size = trace_operator(node, expr, depth + 1);
      break;
    case Expr::Kind::method:
      if (expr.name == "value" && expr.operands.size() == 1) size = trace(node, expr.operands[0], depth + 1);
      break;
    case Expr::Kind::field: {
      if (expr.operands.empty()) return trace_field(node, expr.name, depth + 1);
      if (!is_config(*node.family, expr.operands[0].type)) {
        size = trace_member(node, expr.operands[0], expr.name, depth + 1);
      } else if (const auto holder = path_of_config(node, expr.operands[0], depth + 1)) {
        size.count = field_count(*holder + expr.name);
      }
      break;
    }
    case Expr::Kind::local:
      // A constructor parameter: trace the argument that the parent module passes for it.
      if (const auto [parent, argument] = find_argument(node, expr); argument)
        size = trace(*parent, *argument, depth + 1);
      break;
    default:
      break;
  }
  size.count = converted(std::move(size.count), expr.type);
  return size;
}

}  // namespace

std::optional<std::string> trace_config(const ModuleNode& node, const Expr& expr) {
  return path_of_config(constructing_node(node), expr, 0);
}

Argument find_argument(const ModuleNode& node, const Expr& parameter) {
  const std::optional<size_t> index = find_parameter_index(node, parameter);
  if (!index || !node.parent || !node.construction || *index >= node.construction->operands.size()) return {};
  const Expr& argument = node.construction->operands[*index];
  for (const Expr* other : node.others)
    if (*index >= other->operands.size() || !is_same(argument, other->operands[*index])) return {};
  return {&constructing_node(*node.parent), &argument};
}

MemberValue find_member_value(const ModuleNode& node, const Expr& expr, std::string_view name) {
  return find_member_value(node, expr, name, 0);
}

Size trace_size(const ModuleNode& node, const Expr& expr) { return trace(constructing_node(node), expr, 0); }

}  // namespace modgen
