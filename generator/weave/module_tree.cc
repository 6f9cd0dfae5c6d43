#include "generator/weave/module_tree.h"

#include <algorithm>
#include <utility>

namespace modgen {
namespace {

std::string unquoted(const std::string& literal) {
  return literal.size() >= 2 && literal.front() == '"' ? literal.substr(1, literal.size() - 2) : literal;
}

void collect_statements(const std::vector<Stmt>& statements, std::vector<const Stmt*>& out) {
  for (const Stmt& statement : statements) {
    out.push_back(&statement);
    collect_statements(statement.then_body, out);
    collect_statements(statement.else_body, out);
  }
}

/// Reads `register_module("name", value)`, `register_parameter(…)` or `register_buffer(…)` into `result`.
bool read_registration(const Expr& call, Construction& result) {
  using Registered = Construction::Registered;
  if (call.kind != Expr::Kind::method || call.operands.size() < 3 || call.operands[0].kind != Expr::Kind::self)
    return false;
  if (call.name == "register_module")
    result.registered = Registered::module;
  else if (call.name == "register_parameter")
    result.registered = Registered::parameter;
  else if (call.name == "register_buffer")
    result.registered = Registered::buffer;
  else
    return false;
  result.name = unquoted(call.operands[1].name);
  return true;
}

void read_value(const Expr& value, Construction& result) {
  const bool registration = read_registration(value, result);
  if (result.value && (result.value->kind == Expr::Kind::call || result.value->kind == Expr::Kind::construct))
    result.others.push_back(result.value);
  result.value = registration ? &value.operands[2] : &value;
}

/// The arguments of the constructor's `push_back`s on the list `name`.
std::vector<const Expr*> find_pushed_elements(const Class& owner, std::string_view name) {
  std::vector<const Expr*> elements;
  for (const Function& function : owner.functions) {
    if (!function.is_constructor) continue;
    std::vector<const Stmt*> statements;
    collect_statements(function.body.statements, statements);
    for (const Stmt* statement : statements)
      for (const Expr& expr : statement->exprs)
        if (expr.kind == Expr::Kind::method && expr.name == "push_back" && expr.operands.size() == 2 &&
            is_own_field(expr.operands[0], name))
          elements.push_back(&expr.operands[1]);
  }
  return elements;
}

/// The expressions by which the constructor assigns a `holder` to field `name`.
std::vector<const Expr*> find_alternatives(const Class& owner, std::string_view name, std::string_view holder) {
  std::vector<const Expr*> alternatives;
  for (const Function& function : owner.functions) {
    if (!function.is_constructor) continue;
    std::vector<const Stmt*> statements;
    collect_statements(function.body.statements, statements);
    for (const Stmt* statement : statements)
      for (const Expr& expr : statement->exprs) {
        if (expr.kind != Expr::Kind::op || expr.name != "=" || !is_own_field(expr.operands[0], name)) continue;
        Construction construction;
        read_value(expr.operands[1], construction);
        if (construction.value && unqualified(construction.value->name) == holder)
          alternatives.push_back(construction.value);
      }
  }
  return alternatives;
}

/// Returns {"A", "B"} for "OneOf<A, B>".
std::vector<std::string> template_arguments(const std::string& type) {
  std::vector<std::string> result;
  const size_t open = type.find('<'), close = type.rfind('>');
  if (open == std::string::npos || close < open) return result;
  std::string argument;
  for (size_t at = open + 1; at <= close; ++at) {
    if (type[at] == ',' || at == close) {
      result.push_back(std::exchange(argument, ""));
    } else if (type[at] != ' ') {
      argument += type[at];
    }
  }
  return result;
}

bool is_linear(std::string_view canonical) {
  return canonical == "torch::nn::Linear" || canonical == "modular::nn::Linear" ||
         canonical == "modular::TransposedLinear";
}

/// The node kind of a module with that canonical type. `family_class` is its class in the family, or null.
ModuleNode::Kind get_kind(std::string_view canonical, const Class* family_class) {
  if (family_class) return ModuleNode::Kind::family;
  if (canonical.starts_with("modular::ModuleListOf<")) return ModuleNode::Kind::list;
  if (canonical.starts_with("modular::OneOf<")) return ModuleNode::Kind::one_of;
  if (is_linear(canonical)) return ModuleNode::Kind::linear;
  return canonical == "torch::nn::Embedding" ? ModuleNode::Kind::embedding : ModuleNode::Kind::module;
}

std::optional<ModuleNode::Kind> get_kind(const Field& field, const Class* family_class,
                                         Construction::Registered registered) {
  if (field.modules != Field::Modules::none) return get_kind(field.canonical, family_class);
  if (registered == Construction::Registered::parameter) return ModuleNode::Kind::parameter;
  if (registered == Construction::Registered::buffer) return ModuleNode::Kind::buffer;
  return std::nullopt;
}

/// Creates a node in `parent` for the module of type `canonical` that `field` holds.
std::unique_ptr<ModuleNode> new_node(const ModuleNode& parent, const Field& field, std::string_view canonical) {
  auto node = std::make_unique<ModuleNode>();
  node->family = parent.family;
  node->type = find_class(*parent.family, canonical);
  node->kind = get_kind(canonical, node->type);
  node->transposed = canonical == "modular::TransposedLinear";
  node->library_class = canonical;
  node->field = &field;
  node->parent = &parent;
  return node;
}

void add_children(ModuleNode& node, int depth) {
  if (!node.type || depth > 32) return;  // a class that holds itself cannot be built either
  for (const Field& field : node.type->fields) {
    const Construction construction = find_construction(*node.type, field);
    const auto kind = get_kind(field, find_class(*node.family, field.canonical), construction.registered);
    if (!kind) continue;
    auto child = new_node(node, field, field.canonical);
    child->kind = *kind;
    child->construction = construction.value;
    child->others = construction.others;
    child->path = node.path_to(construction.name.empty() ? field.name : construction.name);
    const bool is_list = child->kind == ModuleNode::Kind::list;
    if (is_list || child->kind == ModuleNode::Kind::one_of) {
      for (const std::string& element : template_arguments(field.canonical)) {
        auto each = new_node(*child, field, element);
        each->others = is_list ? find_pushed_elements(*node.type, field.name)
                               : find_alternatives(*node.type, field.name, unqualified(element));
        if (!each->others.empty()) {
          each->construction = each->others.front();
          each->others.erase(each->others.begin());
        }
        each->path = child->path + (is_list ? ".*" : "");
        add_children(*each, depth + 1);
        child->children.push_back(std::move(each));
      }
    } else {
      add_children(*child, depth + 1);
    }
    node.children.push_back(std::move(child));
  }
}

}  // namespace

bool is_same(const Expr& one, const Expr& other) {
  return one.kind == other.kind && one.name == other.name && one.variable == other.variable &&
         one.narrowed_to == other.narrowed_to && std::ranges::equal(one.operands, other.operands, is_same);
}

bool is_own_field(const Expr& expr, std::string_view name) {
  return expr.kind == Expr::Kind::field && expr.operands.empty() && expr.name == name;
}

const Annotation* find_annotation(const std::vector<Annotation>& annotations, AnnotationKind kind) {
  const auto found =
      std::find_if(annotations.begin(), annotations.end(), [&](const Annotation& a) { return a.kind == kind; });
  return found == annotations.end() ? nullptr : &*found;
}

const Function* find_method(const Class& owner, std::string_view name, size_t arguments) {
  const Function* by_name = nullptr;
  for (const Function& function : owner.functions) {
    if (function.is_constructor || function.name != name) continue;
    if (function.parameters.size() == arguments) return &function;
    if (function.parameters.size() > arguments && !by_name)
      by_name = &function;  // the remaining parameters have defaults
  }
  return by_name;
}

Construction find_construction(const Class& owner, const Field& field) {
  Construction result;
  for (const Function& function : owner.functions) {
    if (!function.is_constructor) continue;
    for (const Initializer& initializer : function.body.initializers)
      if (!initializer.is_base && initializer.name == field.name && initializer.arguments.size() == 1)
        read_value(initializer.arguments[0], result);
    std::vector<const Stmt*> statements;
    collect_statements(function.body.statements, statements);
    for (const Stmt* statement : statements) {
      for (const Expr& expr : statement->exprs) {
        if (expr.kind == Expr::Kind::op && expr.name == "=" && is_own_field(expr.operands[0], field.name))
          read_value(expr.operands[1], result);
        Construction registration;
        if (read_registration(expr, registration) && is_own_field(expr.operands[2], field.name)) {
          registration.value = result.value;
          registration.others = result.others;
          result = registration;
        }
      }
    }
    if (result.value) break;
  }
  if (result.name.empty()) result.name = field.registered_as;
  return result;
}

const ModuleNode* ModuleNode::child(std::string_view field_name) const {
  for (const auto& candidate : children)
    if (candidate->field->name == field_name) return candidate.get();
  return nullptr;
}

bool ModuleNode::holds_parameters() const {
  switch (kind) {
    case Kind::linear:
    case Kind::embedding:
    case Kind::parameter:
      return true;
    case Kind::buffer:
      return false;
    case Kind::module: {
      // These modules of libtorch have no parameters.
      const std::string_view name = unqualified(library_class);
      return name != "Dropout" && name != "Identity" && name != "GELU" && name != "SiLU" && name != "ReLU" &&
             name != "Tanh";
    }
    case Kind::family:
    case Kind::list:
    case Kind::one_of:
      break;
  }
  return std::any_of(children.begin(), children.end(), [](const auto& node) { return node->holds_parameters(); });
}

const ModuleNode* ModuleNode::unit() const {
  const ModuleNode* node = this;
  while (node->parent && !(node->type && find_annotation(node->type->annotations, AnnotationKind::fsdp_unit)))
    node = node->parent;
  return node;
}

std::string ModuleNode::path_to(std::string_view name) const {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

const Class* find_class(const FamilyModel& family, std::string_view canonical) {
  const std::string space = "modular::" + family.name + "::";
  if (!canonical.starts_with(space)) return nullptr;
  for (const Class& candidate : family.classes)
    if (!candidate.holder.empty() && canonical.substr(space.size()) == candidate.holder) return &candidate;
  return nullptr;
}

bool is_config(const FamilyModel& family, std::string_view canonical) {
  const Class* type = class_of_type(family, canonical);
  return canonical == "modular::Config" || (type && type->is_config);
}

bool is_family_type(const FamilyModel& family, std::string_view canonical) {
  return canonical.starts_with("modular::" + family.name + "::");
}

const Class* class_of_type(const FamilyModel& family, std::string_view canonical) {
  const std::string space = "modular::" + family.name + "::";
  if (!canonical.starts_with(space)) return nullptr;
  for (const auto* classes : {&family.classes, &family.inner_classes})
    if (const auto found = std::ranges::find(*classes, canonical.substr(space.size()), &Class::name);
        found != classes->end())
      return &*found;
  return nullptr;
}

std::unique_ptr<ModuleNode> build_tree(const FamilyModel& family, const Class& entry) {
  auto root = std::make_unique<ModuleNode>();
  root->family = &family;
  root->type = &entry;
  add_children(*root, 0);
  return root;
}

std::vector<size_t> expert_operands(std::string_view callee) {
  if (callee == "modular::mix_experts") return {2, 3};
  if (callee == "modular::mix_clamped_experts") return {1, 3};
  return {};
}

const ModuleNode* find_parameter(const ModuleNode& node, const Expr& expr) {
  const Expr* named = &expr;
  while (named->kind == Expr::Kind::method && !named->operands.empty()) named = &named->operands[0];
  if (named->kind != Expr::Kind::field || !named->operands.empty()) return nullptr;
  const ModuleNode* found = node.child(named->name);
  return found && found->kind == ModuleNode::Kind::parameter ? found : nullptr;
}

const ModuleNode& constructing_node(const ModuleNode& node) {
  const bool groups = node.kind == ModuleNode::Kind::list || node.kind == ModuleNode::Kind::one_of;
  return groups ? *node.parent : node;
}

}  // namespace modgen
