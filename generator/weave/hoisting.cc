#include "generator/weave/hoisting.h"

#include <algorithm>

namespace modgen {
namespace {

bool contains(const Stmt& statement, const Expr& expr) { return statement.span.contains(expr.span); }

bool checks_defined(const Expr& expr, uint32_t variable) {
  if (expr.kind == Expr::Kind::method && expr.name == "defined" && expr.operands[0].variable == variable) return true;
  return std::ranges::any_of(expr.operands, [&](const Expr& operand) { return checks_defined(operand, variable); });
}

/// Whether `use` is evaluated only after a check that its variable is defined.
bool is_guarded_by_defined(const Expr& expr, const Expr& use) {
  if (&expr == &use) return false;
  const bool is_conditional =
      expr.kind == Expr::Kind::op && (expr.name == "?:" || expr.name == "&&" || expr.name == "||");
  for (size_t i = 0; i < expr.operands.size(); ++i) {
    if (!expr.operands[i].span.contains(use.span)) continue;
    return (is_conditional && i > 0 && checks_defined(expr.operands[0], use.variable)) ||
           is_guarded_by_defined(expr.operands[i], use);
  }
  return false;
}

/// Whether evaluating `expr` may give the variable another value.
bool changes(const Expr& expr, uint32_t variable) {
  return sets_variable(expr, variable) ||
         std::ranges::any_of(expr.operands, [&](const Expr& operand) { return changes(operand, variable); });
}

bool is_in_lambda(const Expr& expr, const Expr& use) {
  if (!expr.span.contains(use.span)) return false;
  return (expr.kind == Expr::Kind::lambda && &expr != &use) ||
         std::ranges::any_of(expr.operands, [&](const Expr& operand) { return is_in_lambda(operand, use); });
}

}  // namespace

std::pair<const std::vector<Stmt>*, size_t> common_block(const std::vector<Stmt>& statements,
                                                         const std::vector<const Expr*>& uses) {
  for (size_t i = 0; i < statements.size(); ++i) {
    const bool holds_first = contains(statements[i], *uses.front());
    if (!holds_first) continue;
    const bool holds_all =
        std::all_of(uses.begin(), uses.end(), [&](const Expr* use) { return contains(statements[i], *use); });
    if (holds_all) {
      for (const auto* body : {&statements[i].then_body, &statements[i].else_body}) {
        const bool inside = std::all_of(uses.begin(), uses.end(), [&](const Expr* use) {
          return std::any_of(body->begin(), body->end(), [&](const Stmt& inner) { return contains(inner, *use); });
        });
        if (inside && !body->empty()) return common_block(*body, uses);
      }
    }
    return {&statements, i};
  }
  return {&statements, 0};
}

bool can_hoist_before(const std::vector<Stmt>& block, size_t index, const std::vector<const Expr*>& uses) {
  const Stmt& statement = block[index];
  if (!statement.has_room) return false;
  // Declarators of one statement each have its span.
  const bool is_declared_here = std::ranges::any_of(block, [&](const Stmt& declarator) {
    return declarator.span == statement.span && std::ranges::count(declarator.variables, uses.front()->variable) > 0;
  });
  if (is_declared_here) return false;
  const auto is_used_in = [&](const std::vector<Expr>& exprs) {
    return std::ranges::any_of(uses, [&](const Expr* use) {
      return std::ranges::any_of(exprs, [&](const Expr& expr) { return expr.span.contains(use->span); });
    });
  };
  // A loop condition may see a different value in each iteration.
  if (statement.kind == Stmt::Kind::loop && is_used_in(statement.exprs)) return false;
  const auto reads_new_value = [&](const Expr& expr) { return changes(expr, uses.front()->variable); };
  if (statement.kind != Stmt::Kind::expression && std::ranges::any_of(statement.exprs, reads_new_value)) return false;
  for (const Expr& expr : statement.exprs)
    for (const Expr* use : uses)
      if (expr.span.contains(use->span) && is_guarded_by_defined(expr, *use)) return false;
  return true;
}

bool is_in_lambda(const Stmt& statement, const Expr& use) {
  return std::ranges::any_of(statement.exprs, [&](const Expr& expr) { return is_in_lambda(expr, use); });
}

}  // namespace modgen
