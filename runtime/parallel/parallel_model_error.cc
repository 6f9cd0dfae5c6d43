// Validates that a model can run on a mesh, before a rank starts.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/model/tasks.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/parameters/uneven_splits.h"
#include "runtime/parallel/pipeline/pipeline_stages.h"

namespace modular {
namespace {

std::string indivisible(const Plan& plan, const AnyConfig& config, const MeshShape& shape) {
  const auto integers = config_integers(config);
  for (const Divides& rule : plan.divides) {
    const auto axis = std::ranges::find(kAxisNames, rule.axis);
    TORCH_INTERNAL_ASSERT(axis != kAxisNames.end(), "the plan divides ", rule.field, " by ", rule.axis,
                          ", which does not exist");
    const int64_t size = evaluate_monomial(rule.field, integers);
    const int64_t ranks = shape.size[static_cast<size_t>(axis - kAxisNames.begin())];
    if (size % ranks == 0 || rule.otherwise == Divides::uneven) continue;
    const bool shared = rule.otherwise == Divides::shared;
    if (shared && size > 0 && ranks % size == 0) continue;
    return fmt::format("{} = {} cannot be split over {} = {}: choose a {} that divides it{}", rule.field, size,
                       rule.axis, ranks, rule.axis, shared ? " or is a multiple of it" : "");
  }
  return "";
}

std::string indivisible(const std::vector<ModelParameter>& parameters, int64_t tp) {
  for (const ModelParameter& parameter : parameters) {
    if (!parameter.tensor_split) continue;
    const int64_t size = parameter.global_shape[static_cast<size_t>(*parameter.tensor_split)];
    int64_t sum = 0;
    for (const SplitPart& part : parameter.parts) sum += part.size;
    if (sum != size)
      return fmt::format(
          "the parts of {} have {} elements along dimension {}, but it has {}: its TP_COLWISE_PARTS or "
          "TP_SHARD does not match the layer",
          parameter.name, sum, *parameter.tensor_split, size);
    for (const SplitPart& part : parameter.parts)
      if (part.size % (part.slices > 0 ? part.slices : tp) != 0 && !part.may_be_uneven)
        return fmt::format("{} has {} elements along dimension {}{}, which cannot be split over tp = {}",
                           parameter.name, part.size, *parameter.tensor_split,
                           part.size == size ? "" : " in one of its parts", tp);
  }
  return "";
}

}  // namespace

std::string ParallelModel::error(const Entry& entry, const AnyConfig& config, const MeshShape& shape,
                                 const PipelineOptions& pipeline) {
  if (std::string reason = task_error(entry.architecture, entry.task); !reason.empty()) return reason;
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis)
    if (shape.size[axis] < 1)
      return fmt::format("{} = {}: an axis needs at least 1 rank", kAxisNames[axis], shape.size[axis]);
  if (std::string reason = context_error(entry, shape[Axis::cp]); !reason.empty()) return reason;

  if (std::string reason = indivisible(*entry.plan, config, shape); !reason.empty()) return reason;

  const Model model = build_on_meta(entry, config);
  ParameterTable table = parameter_table(*model.module, *entry.plan, config, /*stages=*/{});
  if (std::string reason = describe_uneven_splits(table, entry, config, shape[Axis::tp]); !reason.empty())
    return reason;
  for (const auto* tensors : {&table.parameters, &table.buffers})
    if (std::string reason = indivisible(*tensors, shape[Axis::tp]); !reason.empty()) return reason;

  const int64_t ranks = shape[Axis::pp];
  if (const auto [key, sentence] = pipeline_error(pipeline, ranks, /*micro_batches=*/0); !sentence.empty())
    return sentence;
  if (ranks == 1) return "";
  const auto stages = static_cast<int64_t>(stage_placement(pipeline, ranks).size());
  const std::string pipeline_size =
      stages == ranks ? fmt::format("pp = {}", ranks) : fmt::format("pp = {} with {} stages in total", ranks, stages);
  const char* const fewer = stages == ranks ? "" : ", or fewer stages per rank (parallel.schedule, stages_per_rank)";
  const std::vector<int64_t> sizes = stack_sizes(*model.module, *entry.plan);
  if (sizes.empty()) return fmt::format("{} cannot be cut into pipeline stages: set pp to 1", entry.architecture);
  const Plan& plan = *entry.plan;
  std::string lists = plan.split_list;
  if (plan.first_stack) {
    const auto name = [](std::string_view list) {
      return list.empty() ? std::string_view("a stack that is not split") : list;
    };
    lists =
        fmt::format("{} with {} and {}", entry.architecture, name(plan.first_stack->split_list), name(plan.split_list));
  }
  const int64_t layers = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (layers < stages)
    return fmt::format("{} needs at least as many layers, but {} has {}: choose a smaller pp{}", pipeline_size, lists,
                       layers, fewer);
  if (!pipeline.cuts.empty() && pipeline.cuts.back() >= layers)
    return fmt::format("parallel.cuts starts a stage at {}, but {} has {} elements: the last cut can be at most {}",
                       pipeline.cuts.back(), lists, layers, layers - 1);
  return "";
}

}  // namespace modular
