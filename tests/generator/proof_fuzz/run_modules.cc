// Runs every entry of this program on a single process and on grids of simulated ranks, in double precision: 2 and 4
// tensor-parallel ranks, with and without sequence parallelism; 2 data-parallel ranks; 2 context-parallel ranks; and 2
// along each axis that the entry allows. Logits, loss and the gradient of each parameter have to agree within 1e-9.
// Prints a line for each family: "same" with the axes, how it differs, or why a single process cannot run it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "checks/execute/simulated_ranks.h"
#include "tests/generator/proof_fuzz/module_entry.h"

namespace modular::testing {
namespace {

using execute::Grid, execute::GridRank, execute::index_of, execute::join_context_positions,
    execute::take_context_positions;

constexpr double kTolerance = 1e-9;

Tensor random_values(const std::string& name, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(std::hash<std::string>()(name)), at::kDouble);
}

Batch to_batch(int64_t vocabulary) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  Batch batch;
  batch.input_ids = at::randint(vocabulary, {2, 4}, generator, at::kLong);
  batch.labels = at::randint(vocabulary, {2, 4}, generator, at::kLong);
  batch.want_logits = true;
  return batch;
}

/// The split of a parameter: sizes of its parts along `dim`; empty if it is full.
struct Split {
  int64_t dim = 0;
  std::vector<int64_t> parts;
};

/// The axes whose ranks a module is run on, if its plan has them.
enum class Axes { tp, all_but_rows, all };
const std::map<std::string_view, Axes> kAxes = {
    {"tp", Axes::tp}, {"all but rows", Axes::all_but_rows}, {"all", Axes::all}};

/// An entry under test.
class Subject {
 public:
  Subject(const ModuleEntry& entry, Axes axes) : entry_(entry), axes_(axes) {}

  /// Returns "same" with the axes of the grids, or the difference.
  std::string judge() {
    const Result full = run(*build(), {}, {});
    if (!full.logits.isfinite().all().item<bool>()) return "invalid: the logits are not finite";
    for (const Grid& grid : grids()) {
      std::vector<Result> results(static_cast<size_t>(grid.ranks()));
      std::vector<std::shared_ptr<nn::Module>> models;
      for (int64_t rank = 0; rank < grid.ranks(); ++rank) models.push_back(build(rank % grid.tp, grid.tp));
      std::string text;
      try {
        execute::on_simulated_ranks(grid, [&](const GridRank& rank) {
          const size_t index = index_of(rank, grid);
          results[index] = run(*models[index], grid, rank);
        });
        text = difference(full, results, grid);
      } catch (const c10::Error& error) {
        text = "a rank fails: " + first_line(error.what_without_backtrace());
      } catch (const std::exception& error) {
        text = first_line(error.what());
      }
      if (!text.empty()) return "differs on " + name_of(grid) + ": " + text;
    }
    return "same" + std::string(divides_rows() ? " by rows" : "") + (divides_positions() ? " by positions" : "") +
           (divides_shares() ? " by shares" : "");
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

 private:
  struct Result {
    Tensor logits, loss;
    std::map<std::string, Tensor> gradients;
  };

  bool divides_rows() const { return axes_ == Axes::all; }
  bool divides_positions() const { return axes_ != Axes::tp && entry_.plan->context_error.empty(); }
  bool divides_shares() const { return axes_ != Axes::tp && !entry_.plan->sequence.empty(); }

  std::vector<Grid> grids() {
    std::vector<Grid> all;
    Grid product;
    for (const int64_t tp : {2, 4}) {
      if (!divides(tp)) continue;
      all.push_back({.tp = tp});
      if (divides_shares()) all.push_back({.tp = tp, .sequence = true});
      if (tp == 2) product = all.back();
    }
    if (divides_rows()) all.push_back({.dp = product.dp = 2});
    if (divides_positions()) {
      all.push_back({.cp = product.cp = 2});
      all.push_back({.cp = 2, .zigzag = product.zigzag = true});
    }
    if ((product.tp > 1) + (product.cp > 1) + (product.dp > 1) > 1) all.push_back(product);
    return all;
  }

  static std::string name_of(const Grid& grid) {
    std::string text;
    const auto add = [&](const char* axis, int64_t size) {
      if (size > 1) text += (text.empty() ? "" : " x ") + std::string(axis) + " " + std::to_string(size);
    };
    add(grid.sequence ? "tp (sequence)" : "tp", grid.tp);
    add(grid.zigzag ? "cp (zigzag)" : "cp", grid.cp);
    add("dp", grid.dp);
    return text;
  }

  /// Whether the runtime supports the entry on that many ranks.
  bool divides(int64_t ranks) {
    for (const Divides& divided : entry_.plan->divides)
      if (evaluate_monomial(divided.field, entry_.integers) % ranks != 0) return false;
    const std::shared_ptr<nn::Module> full = entry_.make();
    for (const auto& parameter : full->named_parameters())
      for (const int64_t part : find_split(parameter.key(), parameter.value()).parts)
        if (part % ranks != 0) return false;
    return true;
  }

  /// Whether `pattern` matches a parameter name; "*" matches every element of a list.
  static bool names(std::string_view pattern, std::string_view name) {
    while (!pattern.empty() && !name.empty()) {
      const auto first = [](std::string_view& path) {
        const size_t end = std::min(path.find('.'), path.size());
        const std::string_view part = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        return part;
      };
      const std::string_view expected = first(pattern), part = first(name);
      const bool is_number = part.find_first_not_of("0123456789") == std::string_view::npos;
      if (expected != part && !(expected == "*" && is_number)) return false;
    }
    return pattern.empty() && name.empty();
  }

  Split find_split(const std::string& name, const Tensor& parameter) const {
    for (const TensorSplit& split : entry_.plan->tensor_splits) {
      if (!names(split.parameter, name)) continue;
      Split result{split.dim, {}};
      for (const std::string_view part : split.parts) result.parts.push_back(evaluate_monomial(part, entry_.integers));
      if (result.parts.empty()) result.parts.push_back(parameter.size(split.dim));
      return result;
    }
    return {};
  }

  static Tensor slice(const Tensor& full, const Split& split, int64_t rank, int64_t ranks) {
    if (split.parts.empty()) return full;
    std::vector<Tensor> slices;
    int64_t begin = 0;
    for (const int64_t part : split.parts) {
      slices.push_back(full.narrow(split.dim, begin + rank * (part / ranks), part / ranks));
      begin += part;
    }
    TORCH_CHECK(begin == full.size(split.dim), "the plan's parts do not add up to the dimension");
    return at::cat(slices, split.dim);
  }

  /// The model with the rank's slices of parameters, whose values are derived from their names.
  std::shared_ptr<nn::Module> build(int64_t rank = 0, int64_t ranks = 1) const {
    std::shared_ptr<nn::Module> model = entry_.make();
    at::NoGradGuard no_grad;
    for (const auto& parameter : model->named_parameters()) {
      const Tensor values = random_values(parameter.key(), parameter.value().sizes()) * 0.4;
      Tensor held = parameter.value();
      held.set_data(slice(values, find_split(parameter.key(), held), rank, ranks).clone(at::MemoryFormat::Contiguous));
    }
    for (const auto& buffer : model->named_buffers()) {
      const Tensor values = random_values(buffer.key(), buffer.value().sizes());
      Tensor held = buffer.value();
      held.set_data(slice(values, find_split(buffer.key(), held), rank, ranks).clone(at::MemoryFormat::Contiguous));
    }
    return model;
  }

  /// The part of a tensor [batch, positions, ...] that a rank has.
  static Tensor part_of(const Tensor& all, const Grid& grid, const GridRank& rank) {
    const Tensor rows = all.chunk(grid.dp)[static_cast<size_t>(rank.dp)];
    return grid.cp > 1 ? take_context_positions(rows, 1, grid, rank.cp) : rows;
  }

  Result run(nn::Module& model, const Grid& grid, const GridRank& rank) const {
    const int64_t vocabulary = evaluate_monomial("vocab_size", entry_.integers);
    Batch batch = to_batch(vocabulary);
    const Tensor weights = random_values("logits", {batch.labels.size(0), batch.labels.size(1), vocabulary});
    batch.tensors([&](Tensor& tensor) {
      if (tensor.defined()) tensor = part_of(tensor, grid, rank);
    });
    const Outputs outputs = entry_.forward(model, batch);
    const Tensor total = outputs.loss_sum + (outputs.logits * part_of(weights, grid, rank)).sum();
    torch::autograd::backward({total}, {});
    Result result{outputs.logits.detach(), outputs.loss_sum.detach(), {}};
    for (const auto& parameter : model.named_parameters()) {
      const Tensor& gradient = parameter.value().grad();
      result.gradients[parameter.key()] = gradient.defined() ? gradient : at::zeros_like(parameter.value());
    }
    return result;
  }

  static std::string apart(const std::string& what, const Tensor& expected, const Tensor& found) {
    if (expected.sizes() != found.sizes()) return what + " has another shape";
    if (expected.numel() == 0) return "";
    const double scale = 1.0 + expected.abs().max().item<double>();
    const double most = (expected - found).abs().max().item<double>();
    return most <= kTolerance * scale ? "" : what + " is off by " + std::to_string(most / scale);
  }

  bool is_partial_in_sequence(const std::string& parameter) const {
    return std::ranges::any_of(entry_.plan->partial_in_sequence,
                               [&](std::string_view pattern) { return names(pattern, parameter); });
  }

  std::string difference(const Result& full, const std::vector<Result>& results, const Grid& grid) const {
    for (int64_t tp = 0; tp < grid.tp; ++tp) {
      std::vector<Tensor> rows, losses;
      std::vector<const Result*> own;  // of this tp rank
      for (int64_t dp = 0; dp < grid.dp; ++dp) {
        std::vector<Tensor> positions;
        for (int64_t cp = 0; cp < grid.cp; ++cp) {
          own.push_back(&results[index_of({tp, cp, dp}, grid)]);
          positions.push_back(own.back()->logits);
          losses.push_back(own.back()->loss);
        }
        rows.push_back(grid.cp > 1 ? join_context_positions(positions, 1, grid) : positions.front());
      }
      if (std::string text = apart("logits", full.logits, at::cat(rows)); !text.empty()) return text;
      if (std::string text = apart("the loss", full.loss, at::stack(losses).sum(0)); !text.empty()) return text;
      for (const auto& [name, gradient] : full.gradients) {
        const Tensor expected = slice(gradient, find_split(name, gradient), tp, grid.tp);
        std::vector<Tensor> summands;
        if (grid.sequence && is_partial_in_sequence(name))
          for (const Result& result : results) summands.push_back(result.gradients.at(name));
        else
          for (const Result* result : own) summands.push_back(result->gradients.at(name));
        if (std::string text = apart("the gradient of " + name, expected, at::stack(summands).sum(0)); !text.empty())
          return text;
      }
    }
    return "";
  }

  const ModuleEntry& entry_;
  Axes axes_;
};

std::string judge(const ModuleEntry& entry, Axes axes) {
  try {
    return Subject(entry, axes).judge();
  } catch (const c10::Error& error) {
    return "invalid: " + Subject::first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return "invalid: " + Subject::first_line(error.what());
  }
}

}  // namespace
}  // namespace modular::testing

/// Runs the families on the command line, each with its axes: "m1_000001:all".
int main(int count, char** arguments) {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  at::set_num_threads(1);
  std::map<std::string_view, modular::testing::Axes> chosen;
  for (const std::string_view argument : std::vector<std::string_view>(arguments + 1, arguments + count)) {
    const size_t colon = argument.find(':');
    chosen[argument.substr(0, colon)] = modular::testing::kAxes.at(argument.substr(colon + 1));
  }
  for (const modular::testing::ModuleEntry& entry : modular::testing::module_entries())
    if (const auto found = chosen.find(entry.family); found != chosen.end())
      std::cout << entry.family << '\t' << modular::testing::judge(entry, found->second) << std::endl;
}
