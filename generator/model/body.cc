#include "generator/model/body.h"

#include <algorithm>
#include <array>

namespace modgen {
namespace {

template <class AnyExpr, class Visit>
void visit_expr(AnyExpr& expr, const Visit& visit) {
  visit(expr);
  for (auto& operand : expr.operands) visit_expr(operand, visit);
}

template <class Statements, class Visit>
void visit_exprs(Statements& statements, const Visit& visit) {
  for (auto& statement : statements) {
    for (auto& expr : statement.exprs) visit_expr(expr, visit);
    visit_exprs(statement.then_body, visit);
    visit_exprs(statement.else_body, visit);
  }
}

template <class AnyBody, class Visit>
void visit_body(AnyBody& body, const Visit& visit) {
  for (auto& initializer : body.initializers)
    for (auto& argument : initializer.arguments) visit_expr(argument, visit);
  visit_exprs(body.statements, visit);
}

void visit_stmts(std::vector<Stmt>& statements, const std::function<void(Stmt&)>& visit) {
  for (Stmt& statement : statements) {
    visit(statement);
    visit_stmts(statement.then_body, visit);
    visit_stmts(statement.else_body, visit);
  }
}

}  // namespace

bool is_assignment(const Expr& expr) {
  constexpr std::array names = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
  return expr.kind == Expr::Kind::op && std::ranges::find(names, expr.name) != names.end();
}

bool is_in_place_method(const Expr& expr) {
  return expr.kind == Expr::Kind::method && expr.name.size() > 1 && expr.name.ends_with("_") &&
         !expr.name.ends_with("__");
}

bool sets_variable(const Expr& expr, uint32_t variable) {
  const auto names = [&](size_t operand) {
    return operand < expr.operands.size() && expr.operands[operand].kind == Expr::Kind::local &&
           expr.operands[operand].variable == variable;
  };
  const bool counts = expr.kind == Expr::Kind::op && (expr.name == "++" || expr.name == "--");
  return ((is_assignment(expr) || counts) && names(0)) ||
         (expr.callee && std::ranges::any_of(expr.callee->changes, names));
}

void for_each_expr(Expr& expr, const std::function<void(Expr&)>& visit) { visit_expr(expr, visit); }
void for_each_expr(Body& body, const std::function<void(Expr&)>& visit) { visit_body(body, visit); }
void for_each_expr(const Body& body, const std::function<void(const Expr&)>& visit) { visit_body(body, visit); }

void for_each_stmt(Body& body, const std::function<void(Stmt&)>& visit) { visit_stmts(body.statements, visit); }

}  // namespace modgen
