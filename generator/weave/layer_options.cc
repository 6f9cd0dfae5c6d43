// Options of libtorch's layers and functions that the rules do not know: by them a forward changes its input or its
// parameters, or a gradient depends on the whole batch.
#include <algorithm>
#include <string_view>
#include <utility>

#include "generator/weave/weave.h"

namespace modgen {
namespace {

struct Option {
  std::string_view name;
  std::string_view effect;
  std::string_view advice;
};

constexpr Option kInPlace = {"inplace", "changes its input in place", "leave it out: the result is the same"};

constexpr Option kOptions[] = {
    kInPlace,
    {"max_norm", "changes the table in forward", "leave it out, and scale the rows that are looked up"},
    {"scale_grad_by_freq", "divides gradients by counts over the whole batch, of which a rank sees a part",
     "leave it out"},
    {"sparse", "makes sparse gradients, which the runtime does not reduce", "leave it out"},
};

bool is_options(std::string_view type) {
  return type.starts_with("torch::nn::") && type.find("Options") != std::string_view::npos;
}

bool is_false(const Expr& expr) { return expr.kind == Expr::Kind::literal && expr.name == "false"; }

const Option& get_option(std::string_view name) { return *std::ranges::find(kOptions, name, &Option::name); }

/// The option that a call at::embedding(table, ids, padding_idx, scale_grad_by_freq, sparse) sets; null if there is
/// none.
const Option* find_embedding_option(const Expr& call) {
  static constexpr std::pair<size_t, std::string_view> options[] = {{3, "scale_grad_by_freq"}, {4, "sparse"}};
  for (const auto& [operand, name] : options)
    if (call.operands.size() > operand && !is_false(call.operands[operand])) return &get_option(name);
  return nullptr;
}

/// The option that `expr` sets: `nn::EmbeddingOptions(…).max_norm(1.0)`; null if there is none.
const Option* find_option(const Expr& expr) {
  const bool is_call = expr.kind == Expr::Kind::call && expr.callee;
  if (is_call && (expr.callee->name == "at::embedding" || expr.callee->name == "torch::embedding"))
    return find_embedding_option(expr);
  if (expr.kind == Expr::Kind::method && is_options(expr.operands[0].type)) {
    const auto found = std::ranges::find(kOptions, std::string_view(expr.name), &Option::name);
    const bool turns_off = expr.operands.size() == 2 && is_false(expr.operands[1]);
    return found == std::end(kOptions) || turns_off ? nullptr : found;
  }
  // torch::nn::ReLU(true), torch::nn::ReLUOptions(true)
  const bool is_flag = expr.kind == Expr::Kind::construct && expr.name.starts_with("torch::nn::ReLU") &&
                       expr.operands.size() == 1 && expr.operands[0].type == "bool";
  return is_flag && !is_false(expr.operands[0]) ? &kInPlace : nullptr;
}

}  // namespace

std::vector<Finding> check_layer_options(const FamilyModel& family) {
  std::vector<Finding> findings;
  const auto check = [&](const Function& function) {
    for_each_expr(function.body, [&](const Expr& expr) {
      if (const Option* option = find_option(expr))
        findings.push_back(
            {true,
             expr.span,
             "unproven: the option " + std::string(option->name) + ", which " + std::string(option->effect),
             std::string(option->advice),
             {}});
    });
  };
  for (const Class& owner : family.classes) std::ranges::for_each(owner.functions, check);
  std::ranges::for_each(family.functions, check);
  return findings;
}

}  // namespace modgen
