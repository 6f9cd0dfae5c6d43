#include "generator/weave/config_ranges.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "generator/weave/partition.h"
#include "generator/weave/trace.h"

namespace modgen {
namespace {

constexpr int64_t kMostParts = 2'048;  // layers and experts, each of which is constructed or listed

/// Arguments of the contract's functions and of tensor methods that have to be at least 1.
constexpr std::pair<std::string_view, size_t> kPositiveArguments[] = {{"modular::rotary_tables", 1},
                                                                      {"modular::rotary_tables", 2},
                                                                      {"modular::state_space_duality", 6},
                                                                      {"at::Tensor::topk", 1}};

bool is_integer(std::string_view type) { return type == "long" || type == "int" || type == "unsigned long"; }

bool holds_integers(const Field& field) {
  return field.canonical.find("long") != std::string::npos || field.canonical.find("int") != std::string::npos ||
         field.type.find("IntegerOrString") != std::string::npos;
}

const Field* find_field(const Class& owner, std::string_view name) {
  const auto found = std::ranges::find(owner.fields, name, &Field::name);
  return found == owner.fields.end() ? nullptr : &*found;
}

/// Whether `condition` depends on the number in `field`: of an optional field or a list, not only on whether there is
/// one.
bool depends_on(const Expr& condition, const Field& field, bool on_value) {
  if (condition.kind == Expr::Kind::field && condition.name == field.name)
    return on_value || is_integer(field.canonical);
  const bool reads_value = (condition.kind == Expr::Kind::op && (condition.name == "*" || condition.name == "[]")) ||
                           (condition.kind == Expr::Kind::method && condition.name.starts_with("value"));
  return std::ranges::any_of(condition.operands,
                             [&](const Expr& operand) { return depends_on(operand, field, on_value || reads_value); });
}

using Guards = std::vector<const Expr*>;

/// Whether operand `i` of `expr` is evaluated only if its first operand allows it.
bool is_guarded(const Expr& expr, size_t i) {
  return i > 0 && expr.kind == Expr::Kind::op && (expr.name == "&&" || expr.name == "||" || expr.name == "?:");
}

void add_guards(const Expr& expr, SourceSpan inside, Guards& guards) {
  for (size_t i = 0; i < expr.operands.size(); ++i) {
    if (!expr.operands[i].span.contains(inside)) continue;
    if (is_guarded(expr, i)) guards.push_back(&expr.operands[0]);
    add_guards(expr.operands[i], inside, guards);
  }
}

void add_guards(const std::vector<Stmt>& statements, SourceSpan inside, Guards& guards) {
  for (const Stmt& statement : statements) {
    if (!statement.span.contains(inside)) continue;
    for (const Expr& expr : statement.exprs) add_guards(expr, inside, guards);
    for (const auto* body : {&statement.then_body, &statement.else_body}) {
      const bool holds = std::ranges::any_of(*body, [&](const Stmt& inner) { return inner.span.contains(inside); });
      if (holds && statement.kind == Stmt::Kind::branch) guards.push_back(&statement.exprs[0]);
      add_guards(*body, inside, guards);
    }
  }
}

/// Whether `body` sets the variable again after its declaration.
bool sets_again(const Body& body, uint32_t variable) {
  bool found = false;
  for_each_expr(body, [&](const Expr& expr) {
    const bool is_named = expr.kind == Expr::Kind::local && expr.variable == variable;
    found |= sets_variable(expr, variable) || (is_named && expr.is_unread);
  });
  return found;
}

const Stmt* find_declaration(const std::vector<Stmt>& statements, uint32_t variable) {
  for (const Stmt& statement : statements) {
    if (statement.kind == Stmt::Kind::declare && statement.exprs.size() == 1 &&
        statement.variables == std::vector<uint32_t>{variable})
      return &statement;
    for (const auto* body : {&statement.then_body, &statement.else_body})
      if (const Stmt* found = find_declaration(*body, variable)) return found;
  }
  return nullptr;
}

/// A function of a module in the tree, or of a config, which has no node.
struct Code {
  const ModuleNode* node = nullptr;
  const Class* owner = nullptr;
  const Function* function = nullptr;
};

/// The constructor of `node`'s class that contains `expr`.
Code find_constructor_of(const ModuleNode& node, const Expr& expr) {
  for (const Function& function : node.type->functions) {
    if (!function.is_constructor) continue;
    const bool initializes = std::ranges::any_of(function.body.initializers,
                                                 [&](const Initializer& one) { return one.span.contains(expr.span); });
    if (initializes || function.body.span.contains(expr.span)) return {&node, node.type, &function};
  }
  return {&node, node.type, nullptr};
}

/// Conditions under which constructors create `node`.
Guards find_guards(const ModuleNode& node) {
  Guards guards;
  for (const ModuleNode* at = &node; at->parent; at = at->parent) {
    if (!at->construction) continue;
    const Code code = find_constructor_of(constructing_node(*at->parent), *at->construction);
    if (!code.function) continue;
    for (const Initializer& one : code.function->body.initializers)
      for (const Expr& argument : one.arguments) add_guards(argument, at->construction->span, guards);
    add_guards(code.function->body.statements, at->construction->span, guards);
  }
  return guards;
}

class RangeFinder {
 public:
  struct Range {
    bool counts_parts = false;
    SourceSpan where;  // a use that needs it
  };

  explicit RangeFinder(const FamilyModel& family) : family_(family) {}

  std::map<const Field*, Range> find(const std::vector<const ModuleNode*>& entries) {
    for (const Class& owner : family_.classes)
      if (owner.is_config) read_functions({nullptr, &owner, nullptr}, {});
    for (const ModuleNode* entry : entries) for_each_node(*entry, [&](const ModuleNode& node) { read(node); });
    return std::move(ranges_);
  }

 private:
  void read(const ModuleNode& node) {
    if (!node.type) return read_sizes(node);
    const Guards guards = find_guards(node);
    read_functions({&node, node.type, nullptr}, guards);
    for (const Field& field : node.type->fields)
      if (find_annotation(field.annotations, AnnotationKind::tp_local))
        if (const Expr* value = find_construction(*node.type, field).value)
          require(find_constructor_of(node, *value), *value, guards);
  }

  void read_sizes(const ModuleNode& node) {
    if (!node.construction || !node.parent) return;
    const Code code = find_constructor_of(constructing_node(*node.parent), *node.construction);
    const Guards guards = find_guards(node);
    for (const Expr& part : find_parts(node)) require(code, part, guards);
    const std::vector<Expr>* arguments = layer_arguments(node.construction);
    switch (node.kind) {
      case ModuleNode::Kind::linear:
      case ModuleNode::Kind::embedding:
        for (size_t i = 0; arguments && i < arguments->size() && i < 2; ++i) require(code, (*arguments)[i], guards);
        break;
      case ModuleNode::Kind::parameter:
      case ModuleNode::Kind::buffer:
        if (arguments && !arguments->empty() && (*arguments)[0].kind == Expr::Kind::list)
          for (const Expr& size : (*arguments)[0].operands) require(code, size, guards);
        break;
      case ModuleNode::Kind::module:
        require_integers(code, *node.construction, guards);
        break;
      default:
        break;
    }
  }

  /// Requires the integers that options of libtorch's module are made of.
  void require_integers(const Code& code, const Expr& expr, const Guards& guards) {
    for (const Expr& operand : expr.operands) {
      if (is_integer(operand.type))
        require(code, operand, guards);
      else
        require_integers(code, operand, guards);
    }
  }

  void read_functions(Code code, const Guards& guards) {
    for (const Function& function : code.owner->functions) {
      code.function = &function;
      for (const Initializer& one : function.body.initializers)
        for (const Expr& argument : one.arguments) read(code, argument, guards);
      read(code, function.body.statements, guards);
    }
  }

  void read(const Code& code, const std::vector<Stmt>& statements, const Guards& guards) {
    for (const Stmt& statement : statements) {
      for (const Expr& expr : statement.exprs) read(code, expr, guards);
      if (statement.kind == Stmt::Kind::loop) read_layers(code, statement, guards);
      Guards inner = guards;
      if (statement.kind == Stmt::Kind::branch) inner.push_back(&statement.exprs[0]);
      read(code, statement.then_body, inner);
      read(code, statement.else_body, inner);
    }
  }

  /// A constructor's loop that fills a list of modules.
  void read_layers(const Code& code, const Stmt& loop, const Guards& guards) {
    const auto fills = [&](const Expr& expr) {
      if (expr.kind != Expr::Kind::method || expr.name != "push_back" || !code.node) return false;
      const ModuleNode* list = code.node->child(expr.operands[0].name);
      return list && list->kind == ModuleNode::Kind::list;
    };
    const bool fills_list = std::ranges::any_of(
        loop.then_body, [&](const Stmt& statement) { return std::ranges::any_of(statement.exprs, fills); });
    for (const Expr& condition : loop.exprs)
      if (fills_list && condition.kind == Expr::Kind::op && condition.operands.size() == 2)
        require(code, condition.operands[1], guards, /*counts_parts=*/true);
  }

  void read(const Code& code, const Expr& expr, const Guards& guards) {
    if (expr.kind == Expr::Kind::op && expr.operands.size() == 2 && is_integer(expr.operands[1].type) &&
        (expr.name == "/" || expr.name == "%" || expr.name == "/=" || expr.name == "%="))
      require(code, expr.operands[1], guards);
    for (const auto& [name, argument] : kPositiveArguments)
      if (expr.callee && expr.callee->name == name && argument < expr.operands.size())
        require(code, expr.operands[argument], guards);
    if (expr.callee && code.node)
      for (const size_t weights : expert_operands(expr.callee->name))
        read_experts(code, expr.operands[weights], guards);
    for (size_t i = 0; i < expr.operands.size(); ++i) {
      Guards inner = guards;
      if (is_guarded(expr, i)) inner.push_back(&expr.operands[0]);
      read(code, expr.operands[i], inner);
    }
    if (expr.body) read(code, expr.body->statements, guards);
  }

  /// The weights of a mixture's experts: [experts, …].
  void read_experts(const Code& code, const Expr& weights, const Guards& guards) {
    const ModuleNode* parameter = find_parameter(*code.node, weights);
    const std::vector<Expr>* arguments = parameter ? layer_arguments(parameter->construction) : nullptr;
    if (!arguments || arguments->empty() || (*arguments)[0].operands.empty()) return;
    const Expr& experts = (*arguments)[0].operands[0];
    require(find_constructor_of(*code.node, experts), experts, guards, /*counts_parts=*/true);
  }

  /// Requires the fields that are factors of `expr` to be at least 1.
  void require(const Code& code, const Expr& expr, const Guards& guards, bool counts_parts = false, int depth = 0) {
    const auto follow = [&](const Code& in, const Expr& next) {
      if (depth < 64) require(in, next, guards, counts_parts, depth + 1);
    };
    const bool is_one = expr.operands.size() == 1;
    switch (expr.kind) {
      case Expr::Kind::cast:
        return follow(code, expr.operands[0]);
      case Expr::Kind::construct:
        return is_one ? follow(code, expr.operands[0]) : void();
      case Expr::Kind::method:
        return expr.name == "value" || expr.name == "value_or" ? follow(code, expr.operands[0]) : void();
      case Expr::Kind::op: {
        const bool adds_number = expr.name == "+" && expr.operands.back().kind == Expr::Kind::literal;
        if (expr.name == "*")
          for (const Expr& factor : expr.operands) follow(code, factor);
        if (expr.name == "/" || expr.name == "[]" || adds_number) follow(code, expr.operands[0]);
        return;
      }
      case Expr::Kind::field:
        if (!expr.operands.empty()) {
          if (const Class* config = find_config(*code.owner, expr.operands[0]))
            return add(*config, expr, guards, counts_parts);
          if (!code.node || !code.function || !code.function->is_constructor) return;
          const auto [value, config, method] = find_member_value(*code.node, expr.operands[0], expr.name);
          if (!value.expr) return;
          return follow(config ? Code{nullptr, class_of_type(family_, config->type), method}
                               : find_constructor_of(*value.node, *value.expr),
                        *value.expr);
        }
        if (code.owner->is_config) return add(*code.owner, expr, guards, counts_parts);
        if (const Field* field = find_field(*code.owner, expr.name); field && code.node && !field->varies)
          if (const Expr* value = find_construction(*code.owner, *field).value)
            follow(find_constructor_of(*code.node, *value), *value);
        return;
      case Expr::Kind::local:
        if (const Stmt* declared =
                code.function ? find_declaration(code.function->body.statements, expr.variable) : nullptr)
          return sets_again(code.function->body, expr.variable) ? void() : follow(code, declared->exprs[0]);
        if (!code.node || !code.function || !code.function->is_constructor) return;
        if (const auto [node, argument] = find_argument(*code.node, expr); argument)
          follow(find_constructor_of(*node, *argument), *argument);
        return;
      default:
        return;
    }
  }

  /// The class of the config that `expr` names in a function of `owner`; null for anything else.
  const Class* find_config(const Class& owner, const Expr& expr) const {
    const Class* found = class_of_type(family_, expr.type);
    const Field* member = expr.operands.empty() ? find_field(owner, expr.name) : nullptr;
    if (!found && member) found = class_of_type(family_, member->canonical);  // of an annotation, which has no types
    return found && found->is_config ? found : nullptr;
  }

  void add(const Class& config, const Expr& expr, const Guards& guards, bool counts_parts) {
    const Field* field = find_field(config, expr.name);
    // A field that methods of the config set has another number than config.json gives.
    if (!field || !holds_integers(*field) || (field->varies && is_integer(field->canonical))) return;
    if (std::ranges::any_of(guards, [&](const Expr* guard) { return depends_on(*guard, *field, false); })) return;
    const auto [range, is_new] = ranges_.try_emplace(field, Range{counts_parts, expr.span});
    range->second.counts_parts |= counts_parts;
  }

  const FamilyModel& family_;
  std::map<const Field*, Range> ranges_;  // never iterated
};

/// The default of `field` if it is a literal.
std::optional<int64_t> find_default(const FamilyModel& family, const Field& field) {
  std::string_view rest = std::string_view(family.text).substr(field.where.end);
  const auto skip = [&](std::string_view letters) {
    rest.remove_prefix(std::min(rest.find_first_not_of(letters), rest.size()));
  };
  skip(" ");
  if (!rest.starts_with("=") && !rest.starts_with("{")) return std::nullopt;
  skip("={ ");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  skip("} ");
  const bool is_literal = error == std::errc() && (rest.starts_with(";") || rest.starts_with(","));
  return is_literal ? std::optional(value) : std::nullopt;
}

}  // namespace

void derive_ranges(FamilyModel& family, const std::vector<const ModuleNode*>& entries, std::vector<Finding>& findings) {
  const std::map<const Field*, RangeFinder::Range> ranges = RangeFinder(family).find(entries);
  for (Class& owner : family.classes) {
    for (Field& field : owner.fields) {
      const auto found = ranges.find(&field);
      if (found == ranges.end()) continue;
      field.least = 1;
      if (found->second.counts_parts) field.most = kMostParts;
      const std::optional<int64_t> value = find_default(family, field);
      if (!value || (*value >= 1 && *value <= field.most.value_or(*value))) continue;
      findings.push_back({true,
                          field.where,
                          field.name + " is " + std::to_string(*value) + " by default, but has to be " +
                              (*value < 1 ? "at least 1" : "at most " + std::to_string(kMostParts)),
                          *value < 1 ? "give it another default, or use it only under a condition that reads it, as in "
                                       "if (config." +
                                           field.name + " > 0)"
                                     : "give it another default",
                          {{false, found->second.where, "it is a size, a divisor or a count here", "", {}}}});
    }
  }
}

std::string range_text(const Field& field) {
  if (!field.least) return "";
  return ", " + std::to_string(*field.least) + (field.most ? ", " + std::to_string(*field.most) : "");
}

void add_field_visitors(FamilyModel& family) {
  for (const Class& config : family.classes) {
    if (!config.is_config) continue;
    std::string visit = "visit";
    while (find_field(config, visit)) visit += "_";
    std::string visitor = "\n\n  template <class Visitor>\n  void fields(Visitor&& " + visit + ") {\n";
    for (const Field& field : config.fields)
      visitor += "    " + visit + "(\"" + field.name + "\", " + field.name + range_text(field) + ");\n";
    family.edits.push_back({config.visitor, visitor + "  }\n"});
  }
}

}  // namespace modgen
