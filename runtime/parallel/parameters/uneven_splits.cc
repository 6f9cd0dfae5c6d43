#include "runtime/parallel/parameters/uneven_splits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {

std::string describe_uneven_splits(ParameterTable& table, const Entry& entry, const AnyConfig& config, int64_t tp) {
  const auto integers = config_integers(config);
  for (const Divides& rule : entry.plan->divides) {
    if (rule.axis != "tp" || rule.otherwise == Divides::error) continue;
    const bool is_shared = rule.otherwise == Divides::shared;
    const int64_t count = evaluate_monomial(rule.field, integers);
    if (count % tp == 0) continue;
    // Builds the model with a different count to find the affected parts: with as many heads as ranks, so that each has
    // its own.
    const auto changed = config.clone();
    set_config_integer(*changed, rule.field, is_shared ? tp : count + tp);
    const Model other = build_on_meta(entry, *changed);
    const ParameterTable grown = parameter_table(*other.module, *entry.plan, *changed, /*stages=*/{});
    const auto describe = [&](std::vector<ModelParameter>& parameters, const std::vector<ModelParameter>& others) {
      for (size_t i = 0; i < parameters.size(); ++i) {
        ModelParameter& parameter = parameters[i];
        std::vector<int64_t> shape = parameter.global_shape;
        const bool is_replicated = !parameter.tensor_split && !is_shared;
        if (others[i].global_shape == shape || is_replicated) continue;
        if (parameter.tensor_split) {
          const auto dim = static_cast<size_t>(*parameter.tensor_split);
          shape[dim] = others[i].global_shape[dim];
        }
        // Along any other dimension than the first, a matmul sums over heads and would count a shared head several
        // times.
        const bool is_sum = is_shared && parameter.tensor_split.value_or(0) != 0;
        if (others[i].global_shape != shape || is_sum)
          return fmt::format(
              "{} = {} cannot be split over tp = {}, because {} is not split by it along only its first dimension: "
              "choose "
              "a tp that divides it",
              rule.field, count, tp, parameter.name);
        for (size_t part = 0; part < parameter.parts.size(); ++part) {
          if (others[i].parts[part].size == parameter.parts[part].size) continue;
          if (is_shared) {
            parameter.parts[part].slices = count;
          } else {
            parameter.parts[part].may_be_uneven = true;
          }
        }
      }
      return std::string();
    };
    if (std::string reason = describe(table.parameters, grown.parameters); !reason.empty()) return reason;
    if (std::string reason = describe(table.buffers, grown.buffers); !reason.empty()) return reason;
  }
  return "";
}

std::optional<std::vector<int64_t>> uneven_sizes(const ParameterTable& table, int64_t tp) {
  std::set<int64_t> sizes;  // sizes of all sharded parts
  for (const ModelParameter& parameter : table.parameters)
    for (const SplitPart& part : parameter.parts)
      if (part.slices == 0) sizes.insert(part.size);
  std::vector<int64_t> uneven;
  std::ranges::copy_if(sizes, std::back_inserter(uneven), [&](int64_t size) { return size % tp != 0; });
  for (const int64_t size : uneven)
    for (const int64_t other : sizes)
      for (int64_t rank = 0; rank < tp; ++rank)
        if (size != other &&
            to_part_slice({.size = size}, tp, rank).size == to_part_slice({.size = other}, tp, rank).size)
          return {};
  return uneven;
}

SharedSlices::SharedSlices(const ParameterTable& table, Mesh& mesh) {
  std::set<int64_t> numbers;
  for (const ModelParameter& parameter : table.parameters)
    for (const SplitPart& part : parameter.parts)
      numbers.insert(to_part_slice(part, mesh.size(Axis::tp), /*tp_rank=*/0).kv_replicas);
  for (const int64_t kv_replicas : numbers)
    if (kv_replicas > 1) groups_[kv_replicas] = mesh.subgroup(Axis::tp, kv_replicas);
}

void SharedSlices::reduce_gradients(std::vector<ShardedParameter>& parameters) {
  for (const auto& [kv_replicas, group] : groups_) {
    std::vector<at::Tensor> shared;
    for (const ShardedParameter& parameter : parameters)
      for (const ParameterSlice& slice : parameter.slices)
        if (parameter.trainable && slice.kv_replicas == kv_replicas) shared.push_back(slice.in_local(parameter.grad));
    sum_coalesced(group, shared, "the gradients of replicated KV heads");
  }
}

}  // namespace modular
