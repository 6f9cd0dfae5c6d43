#include "generator/model/body.h"

#include <algorithm>
#include <array>

namespace modgen {
namespace {

void visit_exprs(std::vector<Stmt>& statements, const std::function<void(Expr&)>& visit) {
  for (Stmt& statement : statements) {
    for (Expr& expr : statement.exprs) for_each_expr(expr, visit);
    visit_exprs(statement.then_body, visit);
    visit_exprs(statement.else_body, visit);
  }
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

void for_each_expr(Expr& expr, const std::function<void(Expr&)>& visit) {
  visit(expr);
  for (Expr& operand : expr.operands) for_each_expr(operand, visit);
}

void for_each_expr(Body& body, const std::function<void(Expr&)>& visit) {
  for (Initializer& initializer : body.initializers)
    for (Expr& argument : initializer.arguments) for_each_expr(argument, visit);
  visit_exprs(body.statements, visit);
}

void for_each_stmt(Body& body, const std::function<void(Stmt&)>& visit) { visit_stmts(body.statements, visit); }

}  // namespace modgen
