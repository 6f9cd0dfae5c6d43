#include "generator/weave/weave.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "generator/weave/rules/rules.h"

namespace modgen {

namespace {

/// `proj->weight = …`
bool is_parameter_of_module(const Expr& expr) {
  if (!is_assignment(expr) || expr.operands.empty()) return false;
  const Expr& target = expr.operands[0];
  return target.kind == Expr::Kind::field && target.type == "at::Tensor" && !target.operands.empty() &&
         (target.name == "weight" || target.name == "bias" || target.operands[0].type.ends_with("Impl"));
}

/// The tensor member with which the tensor `value`, in a constructor, may share its memory; null if there is none.
const Expr* find_shared_tensor(const Expr& value, Body& body) {
  if (value.type.find("at::Tensor") == std::string::npos) return nullptr;
  if (value.kind == Expr::Kind::field) return &value;
  const Expr* shared = nullptr;
  for_each_stmt(body, [&](const Stmt& statement) {
    const bool declares = value.kind == Expr::Kind::local && statement.kind == Stmt::Kind::declare &&
                          statement.variables == std::vector{value.variable} && !statement.exprs.empty();
    if (declares && !shared) shared = find_shared_tensor(statement.exprs[0], body);
  });
  if (shared) return shared;
  const bool is_method = value.kind == Expr::Kind::method;
  if (allocates((is_method ? "." : value.kind == Expr::Kind::op ? "op " : "") + std::string(unqualified(value.name))))
    return nullptr;
  for (const Expr& operand : value.operands)
    if (!shared) shared = find_shared_tensor(operand, body);
  return shared;
}

/// The value that `expr` registers as a parameter or buffer; null if it registers none.
const Expr* find_registered_tensor(const Expr& expr) {
  const bool registers = expr.kind == Expr::Kind::method && expr.operands.size() > 2 &&
                         expr.operands[0].kind == Expr::Kind::self &&
                         (expr.name == "register_parameter" || expr.name == "register_buffer");
  return registers ? &expr.operands[2] : nullptr;
}

/// `other` in `member = register_module("name", other)`, where `other` is a different member; null otherwise.
const Expr* find_reregistered(std::string_view member, const Expr& expr) {
  const bool registers = expr.kind == Expr::Kind::method && expr.name == "register_module" &&
                         expr.operands.size() == 3 && expr.operands[0].kind == Expr::Kind::self;
  return registers && expr.operands[2].kind == Expr::Kind::field && expr.operands[2].name != member ? &expr.operands[2]
                                                                                                    : nullptr;
}

}  // namespace

std::vector<Finding> check_constructors(const FamilyModel& family) {
  constexpr std::array kReads = {"item",           "equal",    "allclose", "is_nonzero", "nonzero",         "data_ptr",
                                 "const_data_ptr", "accessor", "unique",   "tolist",     "mutable_data_ptr"};
  std::vector<Finding> findings;
  for (const Class& owner : family.classes) {
    if (owner.holder.empty()) continue;  // not a module class
    for (const Function& function : owner.functions) {
      if (!function.is_constructor) continue;
      const auto find_second_registration = [&](std::string_view member, const Expr& expr) {
        if (const Expr* other = find_reregistered(member, expr))
          findings.push_back({true,
                              other->span,
                              "a module that another member holds is registered again",
                              "construct a new module, or use the other member",
                              {}});
      };
      Body body = function.body;
      for (const Initializer& initializer : body.initializers)
        for (const Expr& argument : initializer.arguments) find_second_registration(initializer.name, argument);
      std::set<const Expr*> alone;  // expressions that are statements
      for_each_stmt(body, [&](const Stmt& statement) {
        if (statement.kind == Stmt::Kind::expression) alone.insert(&statement.exprs[0]);
      });
      for_each_expr(body, [&](Expr& expr) {
        const bool reads = expr.kind == Expr::Kind::method && !expr.operands.empty() &&
                           expr.operands[0].type == "at::Tensor" &&
                           std::find(kReads.begin(), kReads.end(), expr.name) != kReads.end();
        if (reads)
          findings.push_back(
              {true,
               expr.span,
               "a constructor reads a tensor's value (" + expr.name + "), but models are built without storage",
               "compute it from the config, or fill the tensor in reset_parameters()",
               {}});
        // A member that a statement registers by its name was checked where it was set.
        const Expr* tensor = find_registered_tensor(expr);
        const bool by_name = tensor && tensor->kind == Expr::Kind::field && tensor->operands.empty();
        if (by_name && alone.contains(&expr)) tensor = nullptr;
        const bool sets = expr.kind == Expr::Kind::op && expr.name == "=" && expr.operands[0].type == "at::Tensor" &&
                          expr.operands[0].kind == Expr::Kind::field && expr.operands[0].operands.empty();
        if (sets && !find_registered_tensor(expr.operands[1])) tensor = &expr.operands[1];
        if (const Expr* shared = tensor ? find_shared_tensor(*tensor, body) : nullptr)
          findings.push_back({true,
                              shared->span,
                              "a registered tensor may share its memory with " + shared->name +
                                  ", whose split and gradient it would not have",
                              "copy it with clone(), read the other member in the method, or mark this one TIED_TO",
                              {}});
        if (is_parameter_of_module(expr))
          findings.push_back({true,
                              expr.span,
                              "a constructor replaces a parameter of a submodule",
                              "mark the module TIED_TO or TIES, or register a parameter of this class",
                              {}});
        if (is_assignment(expr) && expr.operands[0].kind == Expr::Kind::field)
          find_second_registration(expr.operands[0].name, expr.operands[1]);
      });
    }
  }
  return findings;
}

}  // namespace modgen
