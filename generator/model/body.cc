#include "generator/model/body.h"

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

std::string text_of(const Expr& expr) {
  constexpr std::array kinds = {"local", "global",  "field", "call", "method", "op",   "construct",
                                "cast",  "literal", "list",  "self", "lambda", "other"};
  std::string text = kinds[static_cast<size_t>(expr.kind)];
  if (!expr.name.empty()) text += " " + expr.name;
  if (expr.operands.empty()) return text;
  text += "(";
  for (size_t i = 0; i < expr.operands.size(); ++i) text += (i ? ", " : "") + text_of(expr.operands[i]);
  return text + ")";
}

void print(const std::vector<Stmt>& statements, size_t indent, std::string& out) {
  constexpr std::array kinds = {"declare", "expression", "return", "branch", "range_for", "loop", "block", "other"};
  for (const Stmt& statement : statements) {
    out += std::string(indent, ' ') + kinds[static_cast<size_t>(statement.kind)];
    for (const std::string& name : statement.names) out += " " + name;
    for (const Expr& expr : statement.exprs) out += " " + text_of(expr);
    out += "\n";
    print(statement.then_body, indent + 2, out);
    if (!statement.else_body.empty()) out += std::string(indent, ' ') + "else\n";
    print(statement.else_body, indent + 2, out);
  }
}

}  // namespace

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

std::string to_text(const Body& body) {
  std::string out;
  for (const Initializer& initializer : body.initializers) {
    out += "initialize " + initializer.name;
    for (const Expr& argument : initializer.arguments) out += " " + text_of(argument);
    out += "\n";
  }
  print(body.statements, 0, out);
  return out;
}

}  // namespace modgen
