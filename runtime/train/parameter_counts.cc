#include "runtime/train/parameter_counts.h"

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/parameter_table.h"
#include "runtime/train/config_field.h"
#include "runtime/train/device_usage.h"

namespace modular {
namespace {

/// The modules of the first stage whose tables are not also a matrix of another layer: embeddings that are not tied.
std::vector<std::string> looked_up_tables(const ModelConfig& network) {
  std::vector<std::string> modules;
  for (const auto module : network.entry->plan->first) modules.emplace_back(module);
  for (const auto& tie : network.entry->plan->ties)
    for (const auto& field : model_fields(*network.config))
      if (const auto* const* flag = std::get_if<bool*>(&field.value);
          flag && **flag && field.path == "model.config." + std::string(tie.flag))
        std::erase_if(modules, [&](const std::string& module) { return tie.source.starts_with(module + "."); });
  return modules;
}

}  // namespace

ParameterCounts count_parameters(ParallelModel& model, const ModelConfig& network) {
  const auto looked_up = looked_up_tables(network);
  const int64_t chosen = experts_per_token(network);
  at::Tensor counts = at::zeros({2}, at::kLong);
  for (const auto& parameter : model.parameters()) {
    int64_t owned = 0;
    for (const ParameterBox& box : parameter.boxes) owned += box.owner ? c10::multiply_integers(box.shape) : 0;
    counts[0] += owned;
    const auto is_prefix = [&](const std::string& module) { return parameter.name.starts_with(module + "."); };
    if (std::ranges::any_of(looked_up, is_prefix)) continue;
    const bool is_mixed = chosen > 0 && is_of_experts(parameter.name, parameter.global_shape);
    counts[1] += is_mixed ? owned * chosen / parameter.global_shape[0] : owned;
  }
  all_reduce(model.mesh().control(), counts, "the number of parameters").wait();
  return {counts[0].item<int64_t>(), counts[1].item<int64_t>()};
}

}  // namespace modular
