#include "generator/weave/weave.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace modgen {

namespace {

/// `proj->weight = …`
bool is_parameter_of_module(const Expr& expr) {
  if (!is_assignment(expr) || expr.operands.empty()) return false;
  const Expr& target = expr.operands[0];
  return target.kind == Expr::Kind::field && target.type == "at::Tensor" && !target.operands.empty() &&
         (target.name == "weight" || target.name == "bias" || target.operands[0].type.ends_with("Impl"));
}

/// `other` in `member = register_module("name", other)`, where `other` is a different member; null otherwise.
const Expr* find_reregistered(std::string_view member, const Expr& expr) {
  const bool registers = expr.kind == Expr::Kind::method && expr.name == "register_module" &&
                         expr.operands.size() == 3 && expr.operands[0].kind == Expr::Kind::self;
  return registers && expr.operands[2].kind == Expr::Kind::field && expr.operands[2].name != member ? &expr.operands[2]
                                                                                                    : nullptr;
}

/// The name under which `expr` registers something, if that is not a string literal; null otherwise.
const Expr* find_computed_name(const Expr& expr) {
  const bool registers = expr.kind == Expr::Kind::method && expr.operands.size() > 1 &&
                         expr.operands[0].kind == Expr::Kind::self && expr.name.starts_with("register_");
  const bool is_literal =
      registers && expr.operands[1].kind == Expr::Kind::literal && expr.operands[1].name.starts_with('"');
  return registers && !is_literal ? &expr.operands[1] : nullptr;
}

/// Whether `expr` adds a hook to a tensor's gradient.
bool adds_hook(const Expr& expr) {
  return expr.kind == Expr::Kind::method && expr.name == "register_hook" && !expr.operands.empty() &&
         expr.operands[0].type == "at::Tensor";
}

bool unregisters(const Expr& expr) {
  return expr.kind == Expr::Kind::method && (expr.name == "unregister_module" || expr.name == "replace_module");
}

}  // namespace

std::vector<Finding> check_constructors(const FamilyModel& family) {
  constexpr std::array kReads = {"item",           "equal",    "allclose", "is_nonzero", "nonzero",         "data_ptr",
                                 "const_data_ptr", "accessor", "unique",   "tolist",     "mutable_data_ptr"};
  std::vector<Finding> findings;
  for (const Class& owner : family.classes) {
    if (owner.holder.empty()) continue;  // not a module class
    for (const Function& function : owner.functions) {
      const bool is_reset = function.name == "reset_parameters";
      if (!function.is_constructor && !is_reset) continue;
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
      for_each_expr(body, [&](Expr& expr) {
        if (adds_hook(expr))
          findings.push_back({true,
                              expr.span,
                              "a hook of a parameter's gradient, of which each rank and micro-batch has a part only",
                              "compute what changes the gradient in forward, or in an optimizer",
                              {}});
        if (is_reset) return;
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
        if (const Expr* name = find_computed_name(expr))
          findings.push_back({true,
                              name->span,
                              "the name of a module or tensor is not a string literal: the plan could not name it",
                              "write the name into the call, and use a ModuleListOf for numbered modules",
                              {}});
        if (unregisters(expr))
          findings.push_back({true,
                              expr.span,
                              "a constructor takes back what it has registered",
                              "register only what the class keeps: in a branch, or with remake(…) in a derived class",
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
