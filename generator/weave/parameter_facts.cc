// Facts about parameters that follow from the functions that read them.
#include <algorithm>

#include "generator/weave/plan.h"
#include "generator/weave/trace.h"

namespace modgen {
namespace {

/// Calls `visit(function, call)` for each call in the methods of `owner`.
template <class Visit>
void for_each_call(const Class& owner, const Visit& visit) {
  for (const Function& function : owner.functions)
    for_each_expr(function.body, [&](const Expr& expr) {
      if (expr.callee) visit(function, expr);
    });
}

/// The config field that `count`, an expression in a method of `node`'s class, has the value of; empty if it is not one
/// field.
std::string find_count_field(const ModuleNode& node, const Expr& count) {
  const Expr* expr = &count;
  if (expr->kind == Expr::Kind::field && expr->operands.empty()) {
    const auto field = std::ranges::find(node.type->fields, expr->name, &Field::name);
    if (field == node.type->fields.end()) return "";
    expr = find_construction(*node.type, *field).value;
  }
  while (expr && expr->kind == Expr::Kind::method && expr->name.starts_with("value")) expr = &expr->operands[0];
  if (!expr) return "";
  const Count size = trace_size(node, *expr).count;
  const Count::Term* product = size.product();
  return product && product->coefficient == 1 && product->fields.size() == 1 ? product->fields[0] : "";
}

/// The config field with the number of experts that a router chooses for a token; empty if it is not known.
std::string find_chosen(const ModuleNode& root) {
  std::string chosen;
  for_each_node(root, [&](const ModuleNode& node) {
    if (!node.type || !chosen.empty()) return;
    const Function* routes = nullptr;
    for_each_call(*node.type, [&](const Function& function, const Expr& call) {
      if (call.callee->name == "modular::balance_experts") routes = &function;
    });
    for_each_call(*node.type, [&](const Function& function, const Expr& call) {
      if (&function == routes && call.callee->name == "at::Tensor::topk")
        chosen = find_count_field(node, call.operands[1]);
    });
  });
  return chosen;
}

/// Whether a parameter of a layer has two dimensions.
bool has_two_dimensions(const ModuleNode& parameter) {
  const bool is_of_layer = parameter.unit()->parent != nullptr;
  const bool is_listed = parameter.construction && !parameter.construction->operands.empty() &&
                         parameter.construction->operands[0].kind == Expr::Kind::list;
  return is_of_layer && is_listed && parameter.construction->operands[0].operands.size() == 2;
}

template <class Row>
void add_once(std::vector<Row>& rows, Row row) {
  if (std::ranges::find(rows, row) == rows.end()) rows.push_back(std::move(row));
}

}  // namespace

void add_parameter_facts(const ModuleNode& root, EntryPlan& plan) {
  const std::string chosen = find_chosen(root);
  for_each_node(root, [&](const ModuleNode& node) {
    if (!node.type) return;
    for_each_call(*node.type, [&](const Function&, const Expr& call) {
      const std::string& name = call.callee->name;
      const auto parameter = [&](size_t operand) {
        return operand < call.operands.size() ? find_parameter(node, call.operands[operand]) : nullptr;
      };
      for (const size_t operand : expert_operands(name))
        if (const ModuleNode* weights = parameter(operand)) add_once(plan.experts, {weights->path, chosen});
      const ModuleNode* first = parameter(0);
      if (!first) return;
      if (name == "modular::init::log_rates_") add_once(plan.rates, first->path);
      // The biases of experts, a row for each, begin as zeros.
      const bool is_bias = name == "modular::init::zeros_" && has_two_dimensions(*first);
      if (is_bias || name == "at::embedding" || name == "torch::embedding") add_once(plan.tables, first->path);
    });
  });
}

}  // namespace modgen
