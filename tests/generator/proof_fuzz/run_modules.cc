// Runs every entry of this program on a single process and on 2 and 4 simulated tensor-parallel ranks, in double
// precision. Logits, loss and the gradient of each parameter have to agree within 1e-9. Prints a line for each family:
// "same", how it differs, or why a single process cannot run it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "checks/execute/simulated_ranks.h"
#include "tests/generator/proof_fuzz/module_entry.h"

namespace modular::testing {
namespace {

constexpr double kTolerance = 1e-9;

Tensor random_values(const std::string& name, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(std::hash<std::string>()(name)), at::kDouble);
}

Batch to_batch(int64_t vocabulary) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  Batch batch;
  batch.input_ids = at::randint(vocabulary, {2, 3}, generator, at::kLong);
  batch.labels = at::randint(vocabulary, {2, 3}, generator, at::kLong);
  batch.want_logits = true;
  return batch;
}

/// The split of a parameter: sizes of its parts along `dim`; empty if it is full.
struct Split {
  int64_t dim = 0;
  std::vector<int64_t> parts;
};

/// An entry under test.
class Subject {
 public:
  explicit Subject(const ModuleEntry& entry) : entry_(entry) {}

  /// Returns "same", or the difference.
  std::string judge() {
    const Result full = run(build());
    if (!full.logits.isfinite().all().item<bool>()) return "invalid: the logits are not finite";
    for (const int64_t ranks : {2, 4}) {
      if (!divides(ranks)) continue;
      std::vector<Result> results(static_cast<size_t>(ranks));
      std::vector<std::shared_ptr<nn::Module>> models;
      for (int64_t rank = 0; rank < ranks; ++rank) models.push_back(build(rank, ranks));
      try {
        execute::on_simulated_ranks(
            ranks, [&](int64_t rank) { results[static_cast<size_t>(rank)] = run(models[static_cast<size_t>(rank)]); });
      } catch (const c10::Error& error) {
        return "differs on " + std::to_string(ranks) +
               " ranks: a rank fails: " + first_line(error.what_without_backtrace());
      } catch (const std::exception& error) {
        return "differs on " + std::to_string(ranks) + " ranks: " + first_line(error.what());
      }
      for (int64_t rank = 0; rank < ranks; ++rank)
        if (const std::string text = difference(full, results[static_cast<size_t>(rank)], rank, ranks); !text.empty())
          return "differs on " + std::to_string(ranks) + " ranks: " + text;
    }
    return "same";
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

 private:
  struct Result {
    Tensor logits, loss;
    std::map<std::string, Tensor> gradients;
  };

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

  Result run(const std::shared_ptr<nn::Module>& model) const {
    const Outputs outputs = entry_.forward(*model, to_batch(evaluate_monomial("vocab_size", entry_.integers)));
    const Tensor total = outputs.loss_sum + (outputs.logits * random_values("logits", outputs.logits.sizes())).sum();
    torch::autograd::backward({total}, {});
    Result result{outputs.logits.detach(), outputs.loss_sum.detach(), {}};
    for (const auto& parameter : model->named_parameters()) {
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

  std::string difference(const Result& full, const Result& found, int64_t rank, int64_t ranks) const {
    if (std::string text = apart("logits", full.logits, found.logits); !text.empty()) return text;
    if (std::string text = apart("the loss", full.loss, found.loss); !text.empty()) return text;
    for (const auto& [name, gradient] : full.gradients) {
      const Tensor expected = slice(gradient, find_split(name, gradient), rank, ranks);
      if (std::string text = apart("the gradient of " + name, expected, found.gradients.at(name)); !text.empty())
        return text;
    }
    return "";
  }

  const ModuleEntry& entry_;
};

std::string judge(const ModuleEntry& entry) {
  try {
    return Subject(entry).judge();
  } catch (const c10::Error& error) {
    return "invalid: " + Subject::first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return "invalid: " + Subject::first_line(error.what());
  }
}

}  // namespace
}  // namespace modular::testing

/// Runs all families, or those on the command line.
int main(int count, char** arguments) {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  at::set_num_threads(1);
  const std::set<std::string_view> named(arguments + 1, arguments + count);
  for (const modular::testing::ModuleEntry& entry : modular::testing::module_entries())
    if (named.empty() || named.contains(entry.family))
      std::cout << entry.family << '\t' << modular::testing::judge(entry) << std::endl;
}
