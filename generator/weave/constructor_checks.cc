#include "generator/weave/constructor_checks.h"

#include <algorithm>
#include <array>

namespace modgen {

std::vector<Finding> check_constructors(const FamilyModel& family) {
  constexpr std::array kReads = {"item",           "equal",    "allclose", "is_nonzero", "nonzero",         "data_ptr",
                                 "const_data_ptr", "accessor", "unique",   "tolist",     "mutable_data_ptr"};
  std::vector<Finding> findings;
  for (const Class& one : family.classes) {
    if (one.holder.empty()) continue;  // no module
    for (const Function& function : one.functions) {
      if (!function.is_constructor) continue;
      Body body = function.body;
      for_each_expr(body, [&](Expr& expr) {
        const bool reads = expr.kind == Expr::Kind::method && !expr.operands.empty() &&
                           expr.operands[0].type == "at::Tensor" &&
                           std::find(kReads.begin(), kReads.end(), expr.name) != kReads.end();
        if (reads)
          findings.push_back(
              {true,
               expr.span,
               "a constructor reads a tensor's value (" + expr.name + "), and models are built without storage",
               "compute it from the config, or fill the tensor in reset_parameters()",
               {}});
      });
    }
  }
  return findings;
}

}  // namespace modgen
