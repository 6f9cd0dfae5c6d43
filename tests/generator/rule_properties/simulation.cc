#include "tests/generator/rule_properties/simulation.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "checks/execute/contract_in_double.h"
#include "checks/execute/simulated_ranks.h"
#include "tests/generator/rule_properties/drawing.h"

namespace modgen::rule_properties {
namespace {

using Kind = ShardType::Kind;
using at::Tensor;

constexpr double kTolerance = 1e-9;

/// A claim of a rule that does not hold.
struct Mistake : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// ---- Values on a rank ----

Tensor slice(const Tensor& full, const ShardType& type, int64_t rank, int64_t ranks) {
  const int64_t dim = type.dim < 0 ? type.dim + full.dim() : type.dim;
  std::vector<int64_t> parts;
  for (const std::string& part : type.parts) parts.push_back(evaluate(part));
  if (parts.empty()) parts.push_back(full.size(dim));
  std::vector<Tensor> slices;
  int64_t begin = 0;
  for (const int64_t part : parts) {
    if (part % ranks != 0) throw Mistake("a part of size " + std::to_string(part) + " is claimed to be split");
    slices.push_back(full.narrow(dim, begin + rank * (part / ranks), part / ranks));
    begin += part;
  }
  if (begin != full.size(dim)) throw Mistake("the parts do not make up dimension " + std::to_string(dim));
  return at::cat(slices, dim);
}

/// One of `ranks` values whose sum is `full`.
Tensor summand(const Tensor& full, int64_t rank, int64_t ranks, uint64_t seed) {
  Tensor last = full.detach().clone();
  for (int64_t i = 0; i + 1 < ranks; ++i) {
    const Tensor own = values(full.sizes().vec(), Elements::any, 0, seed + static_cast<uint64_t>(i));
    if (i == rank) return own;
    last -= own;
  }
  return last;
}

Tensor value_on_rank(const Tensor& full, const ShardType& type, int64_t rank, int64_t ranks) {
  if (type.kind == Kind::sharded) return slice(full, type, rank, ranks);
  return type.kind == Kind::partial ? summand(full, rank, ranks, /*seed=*/91) : full;
}

Tensor gradient_on_rank(const Tensor& full, const ShardType& type, int64_t rank, int64_t ranks) {
  if (type.kind == Kind::sharded) return slice(full, type, rank, ranks);
  return type.kind == Kind::replicated ? summand(full, rank, ranks, /*seed=*/92) : full;
}

/// The operand on a rank; the full value with a single rank. Tensors are leaves.
Concrete on_rank(const Operand& operand, int64_t rank, int64_t ranks) {
  Concrete concrete = operand.full;
  concrete.elements.clear();
  for (const Operand& element : operand.elements) concrete.elements.push_back(on_rank(element, rank, ranks));
  if (concrete.tensor.defined()) {
    const Tensor full = operand.full.tensor.detach();
    const Tensor own = ranks == 1 ? full : value_on_rank(full, operand.type, rank, ranks);
    concrete.tensor = own.clone(at::MemoryFormat::Contiguous).requires_grad_(operand.full.tensor.requires_grad());
  }
  if (operand.value.kind == Value::Kind::number && operand.value.count.is_share)
    concrete.number /= static_cast<double>(ranks);
  return concrete;
}

// ---- Comparing ----

std::string listed(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

std::string difference(const Tensor& expected, const Tensor& found) {
  if (expected.sizes() != found.sizes())
    return "shape " + listed(found.sizes()) + " instead of " + listed(expected.sizes());
  if (expected.numel() == 0) return "";
  // NaNs on a single process have to be NaNs on the ranks.
  const Tensor numbers = expected.detach().isnan().logical_not();
  const Tensor wide = expected.detach().to(at::kDouble).nan_to_num(0.0);
  const Tensor other = found.detach().to(at::kDouble).nan_to_num(1.0).where(numbers, at::zeros({}, at::kDouble));
  if (at::equal(wide, other)) return "";
  const double scale = 1.0 + wide.abs().max().item<double>();
  const double apart = (wide - other).abs().max().item<double>();
  return apart <= kTolerance * scale ? "" : "off by " + std::to_string(apart);
}

void expect_equal(const Tensor& expected, const Tensor& found, const std::string& what) {
  if (const std::string text = difference(expected, found); !text.empty()) throw Mistake(what + " is " + text);
}

Tensor sum(const std::vector<Tensor>& tensors) {
  Tensor total = tensors[0].detach().clone();
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].sizes() != total.sizes()) throw Mistake("ranks' parts have different shapes");
    total += tensors[i].detach();
  }
  return total;
}

/// A tensor of the result, and the rule's claim about it.
struct Result {
  Value claim;
  Tensor full;
};

std::string of_type(const Value& claim) { return "a result that the rule claims is " + modgen::describe(claim); }

/// The number that a count gives on all ranks together.
double evaluate_count(const Count& count) {
  double sum = 0.0;
  for (const Count::Term& term : count.terms) {
    int64_t product = term.coefficient;
    for (const std::string& field : term.fields) product *= evaluate(field);
    sum += static_cast<double>(product);
  }
  return sum;
}

/// Checks the claim about the tensor on a single process.
void check_shape(const Value& claim, const Tensor& full) {
  if (claim.rank && *claim.rank != full.dim())
    throw Mistake(of_type(claim) + " has " + std::to_string(full.dim()) + " dimensions, not " +
                  std::to_string(*claim.rank));
  for (const int64_t one : claim.ones)
    if (one >= 0 || -one > full.dim() || full.size(one) != 1)
      throw Mistake("dimension " + std::to_string(one) + " is claimed to have size 1, in shape " +
                    listed(full.sizes()));
  for (int64_t i = 0; i < claim.sizes.rank(); ++i)
    if (claim.sizes[i].is_known() &&
        (claim.sizes.rank() != full.dim() || evaluate_count(claim.sizes[i]) != static_cast<double>(full.size(i))))
      throw Mistake("size " + std::to_string(i) + " is claimed to be " +
                    std::to_string(evaluate_count(claim.sizes[i])) + ", in shape " + listed(full.sizes()));
  if (!claim.last_size.empty() && (full.dim() == 0 || evaluate(claim.last_size) != full.size(-1)))
    throw Mistake("the last size is claimed to be " + claim.last_size + ", in shape " + listed(full.sizes()));
  if (claim.type.kind == Kind::sharded) {
    const int64_t dim = claim.type.dim < 0 ? claim.type.dim + full.dim() : claim.type.dim;
    if (dim < 0 || dim >= full.dim()) throw Mistake(of_type(claim) + " has shape " + listed(full.sizes()));
    if (!claim.split_size.empty() && evaluate(claim.split_size) != full.size(dim))
      throw Mistake("the size of the split dimension is claimed to be " + claim.split_size + ", in shape " +
                    listed(full.sizes()));
  }
  if (!claim.gradient && full.requires_grad()) throw Mistake("the rule claims that no gradient flows into the result");
}

/// Checks the claim about a number.
void check_number(const Value& claim, double full, const std::vector<Concrete>& ranks) {
  const auto count = static_cast<double>(ranks.size());
  for (const Concrete& rank : ranks)
    if (rank.number != (claim.count.is_share ? full / count : full))
      throw Mistake(std::string("a number that is claimed to be ") +
                    (claim.count.is_share ? "tp-local" : "the same on all ranks") + " is " +
                    std::to_string(rank.number) + " of " + std::to_string(full));
  if (!claim.count.is_known()) return;
  std::string text;
  for (const Count::Term& term : claim.count.terms) text += (text.empty() ? "" : " + ") + to_text(term);
  if (evaluate_count(claim.count) != full)
    throw Mistake("a number is claimed to be " + text + ", and is " + std::to_string(full));
}

/// Collects the tensors of a result in order, and checks the claims about them.
void collect(const Value& claim, const Concrete& full, std::vector<Result>& results) {
  switch (claim.kind) {
    case Value::Kind::tensor:
      if (!full.tensor.defined()) throw Mistake("the rule claims that the result is a tensor");
      check_shape(claim, full.tensor);
      results.push_back({claim, full.tensor});
      return;
    case Value::Kind::tuple:
      if (claim.elements.size() != full.elements.size())
        throw Mistake("the rule claims " + std::to_string(claim.elements.size()) + " results, but there are " +
                      std::to_string(full.elements.size()));
      for (size_t i = 0; i < claim.elements.size(); ++i) collect(claim.elements[i], full.elements[i], results);
      return;
    case Value::Kind::list:
      for (const Concrete& element : full.elements) collect(claim.elements[0], element, results);
      return;
    default:
      return;
  }
}

void tensors_in(const Concrete& concrete, std::vector<Tensor>& tensors) {
  if (concrete.tensor.defined()) tensors.push_back(concrete.tensor);
  for (const Concrete& element : concrete.elements) tensors_in(element, tensors);
}

std::vector<Tensor> tensors_in(const Arguments& arguments) {
  std::vector<Tensor> tensors;
  for (const Concrete& argument : arguments) tensors_in(argument, tensors);
  return tensors;
}

void types_in(const Operand& operand, std::vector<ShardType>& types) {
  if (operand.full.tensor.defined()) types.push_back(operand.type);
  for (const Operand& element : operand.elements) types_in(element, types);
}

Tensor get_gradient(const Tensor& leaf) { return leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf); }

/// A completed run: its result, and its arguments, whose leaves have gradients.
struct Run {
  Arguments arguments;
  Concrete result;
};

void differentiate(const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients) {
  std::vector<Tensor> roots, root_gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_gradients.push_back(gradients[i]);
  }
  if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
}

void compare(const Application& application, const Operation& op, Call call, const Value& claim, const Run& full,
             const std::vector<Result>& results, int64_t ranks) {
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < results.size(); ++i)
    gradients.push_back(values(results[i].full.sizes().vec(), Elements::any, 0, 1000 + i));

  std::vector<Run> runs(static_cast<size_t>(ranks));
  modular::execute::on_simulated_ranks(ranks, [&](int64_t rank) {
    Run& run = runs[static_cast<size_t>(rank)];
    for (const Operand& operand : application.operands) run.arguments.push_back(on_rank(operand, rank, ranks));
    Arguments arguments = run.arguments;
    for (const size_t i : op.entered) arguments[i].tensor = modular::tp::enter(arguments[i].tensor);
    run.result = application.run(arguments, call);
    std::vector<Tensor> outputs, own;
    tensors_in(run.result, outputs);
    if (results.empty()) return;
    if (outputs.size() != results.size())
      throw Mistake("a rank computes another number of values than a single process");
    for (size_t i = 0; i < outputs.size(); ++i) {
      own.push_back(gradient_on_rank(gradients[i], results[i].claim.type, rank, ranks));
      if (own[i].sizes() != outputs[i].sizes())
        throw Mistake(of_type(results[i].claim) + " has shape " + listed(outputs[i].sizes()) + " on a rank, and " +
                      listed(results[i].full.sizes()) + " on one process");
    }
    differentiate(outputs, own);
  });

  if (claim.kind == Value::Kind::number) {
    std::vector<Concrete> numbers;
    for (const Run& run : runs) numbers.push_back(run.result);
    check_number(claim, full.result.number, numbers);
  }
  std::vector<std::vector<Tensor>> outputs(runs.size()), leaves(runs.size());
  for (size_t rank = 0; rank < runs.size(); ++rank) {
    tensors_in(runs[rank].result, outputs[rank]);
    leaves[rank] = tensors_in(runs[rank].arguments);
  }
  const auto select = [](const std::vector<std::vector<Tensor>>& lists, size_t i) {
    std::vector<Tensor> tensors;
    for (const auto& list : lists) tensors.push_back(list[i]);
    return tensors;
  };
  for (size_t i = 0; !application.random && i < results.size(); ++i) {
    const auto& [result_claim, expected] = results[i];
    if (result_claim.type.kind == Kind::partial) {
      expect_equal(expected, sum(select(outputs, i)), of_type(result_claim));
      continue;
    }
    for (int64_t rank = 0; rank < ranks; ++rank)
      expect_equal(value_on_rank(expected, result_claim.type, rank, ranks), outputs[static_cast<size_t>(rank)][i],
                   of_type(result_claim));
  }
  const std::vector<Tensor> full_leaves = tensors_in(full.arguments);
  std::vector<ShardType> types;
  for (const Operand& operand : application.operands) types_in(operand, types);
  for (size_t i = 0; i < full_leaves.size(); ++i) {
    if (!full_leaves[i].requires_grad()) continue;
    const std::string what = "the gradient of operand " + std::to_string(i) + " of type " +
                             modgen::describe(Value::tensor(types[i], true, full_leaves[i].dim()));
    std::vector<Tensor> found = select(leaves, i);
    std::transform(found.begin(), found.end(), found.begin(), get_gradient);
    const Tensor expected = get_gradient(full_leaves[i]);
    if (types[i].kind == Kind::replicated) {
      expect_equal(expected, sum(found), what);
      continue;
    }
    for (int64_t rank = 0; rank < ranks; ++rank)
      expect_equal(gradient_on_rank(expected, types[i], rank, ranks), found[static_cast<size_t>(rank)], what);
  }
}

/// Runs forward and backward on a single process.
Run run_single_process(const Application& application, const Value& claim, std::vector<Result>& results) {
  Run run;
  for (const Operand& operand : application.operands) run.arguments.push_back(on_rank(operand, 0, 1));
  run.result = application.run(run.arguments, Call::none);
  collect(claim, run.result, results);
  std::vector<Tensor> outputs, gradients;
  for (size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(results[i].full);
    gradients.push_back(values(results[i].full.sizes().vec(), Elements::any, 0, 1000 + i));
  }
  differentiate(outputs, gradients);
  return run;
}

}  // namespace

Judgement judge(const std::string& name, const Application& application) {
  Expr expr;
  expr.type = application.type;
  for (const Operand& operand : application.operands) expr.operands.push_back(operand.expr);
  Operation op;
  op.name = name;
  op.expr = &expr;
  for (size_t i = 0; i < application.operands.size(); ++i) {
    op.operands.push_back(&expr.operands[i]);
    op.values.push_back(application.operands[i].value);
  }
  const std::vector<Value> given = op.values;
  Value claim = apply_rule(op, find_rule(name));
  if (!op.message.empty()) return {Verdict::rejected, false, op.message, Call::none};

  Judgement judgement;
  judgement.call = op.call;
  judgement.all_full = claim.is_invariant() && op.call == Call::none && op.entered.empty() &&
                       std::all_of(given.begin(), given.end(), [](const Value& v) { return v.is_invariant(); });
  try {
    if (claim.kind == Value::Kind::failed || claim.kind == Value::Kind::mismatch)
      throw Mistake("fails without a message");
    std::vector<Result> results;
    Run full;
    try {
      full = run_single_process(application, claim, results);
    } catch (const c10::Error& error) {
      return {Verdict::invalid, false, error.what_without_backtrace(), op.call};
    }
    for (const int64_t ranks : {2, 4}) {
      compare(application, op, op.call, claim, full, results, ranks);
      // A sum may also be deferred to the reader of the result.
      if (op.call != Call::exit && op.call != Call::sum) continue;
      Value open = claim;
      open.type = kPartial;
      std::vector<Result> open_results = results;
      for (Result& result : open_results) result.claim.type = kPartial;
      compare(application, op, op.call == Call::exit ? Call::partial : Call::none, open, full, open_results, ranks);
    }
  } catch (const c10::Error& error) {
    return {Verdict::wrong, judgement.all_full, std::string("a rank fails: ") + error.what_without_backtrace(),
            op.call};
  } catch (const std::exception& error) {
    return {Verdict::wrong, judgement.all_full, error.what(), op.call};
  }
  return judgement;
}

std::string describe(const std::string& name, const Application& application) {
  std::ostringstream text;
  text << name << '(';
  const std::function<void(const Operand&)> add = [&](const Operand& operand) {
    if (operand.full.tensor.defined()) {
      text << listed(operand.full.tensor.sizes()) << ' '
           << modgen::describe(Value::tensor(operand.type, true, operand.full.tensor.dim()))
           << (operand.value.rank ? "" : ", rank not known") << (operand.value.gradient ? "" : ", no gradient");
      if (!operand.value.ones.empty()) text << ", ones " << listed(operand.value.ones);
    } else if (operand.value.kind == Value::Kind::number) {
      text << operand.expr.name << ' ' << (operand.full.text.empty() ? std::to_string(operand.full.number) : "");
      if (operand.value.count.is_share) text << " local";
      if (operand.value.count.product()) text << " = " << product_text(operand.value.count);
    } else {
      text << operand.expr.name;
    }
    if (operand.elements.empty()) return;
    text << '{';
    for (const Operand& element : operand.elements) add(element), text << "; ";
    text << '}';
  };
  for (const Operand& operand : application.operands) add(operand), text << "; ";
  text << ')';
  return text.str();
}

}  // namespace modgen::rule_properties
