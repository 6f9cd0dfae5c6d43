#include "runtime/parallel/parameters/parameter_table.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/lora.h"

namespace modular {
namespace {

std::string_view first_component(std::string_view& path) {
  const size_t dot = path.find('.');
  const std::string_view component = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return component;
}

bool starts_with_path(std::string_view name, std::string_view path) {
  return path.empty() || (name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.'));
}

bool any_holds(const std::vector<std::string>& patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) { return lies_in(pattern, name); });
}

bool in_list(std::string_view name, std::string_view list) { return !list.empty() && starts_with_path(name, list); }

/// Returns the stacks that are cut into stages, in the order in which they run.
std::vector<Stack> find_stacks(const Plan& plan) {
  std::vector<Stack> stacks;
  if (plan.first_stack) stacks.push_back(*plan.first_stack);
  stacks.push_back({plan.split_list, plan.first, plan.last});
  return stacks;
}

/// Returns the layer, counted over the lists of both stacks, to whose stage `name` belongs; nullopt if every stage has
/// it. `sizes` are the sizes of the lists.
std::optional<int64_t> find_layer(std::string_view name, const Plan& plan, const std::vector<int64_t>& sizes) {
  if (sizes.empty() || any_holds(plan.everywhere, name)) return {};
  const std::vector<Stack> stacks = find_stacks(plan);
  int64_t begin = 0;
  for (size_t number = 0; number < stacks.size(); ++number) {
    const Stack& stack = stacks[number];
    const int64_t end = begin + sizes[number];
    if (any_holds(stack.first, name)) return begin;
    if (any_holds(stack.last, name)) return end - 1;
    if (in_list(name, stack.split_list)) {
      const std::string_view rest = name.substr(stack.split_list.size() + 1);
      int64_t index = 0;
      std::from_chars(rest.data(), rest.data() + rest.size(), index);
      return begin + index;
    }
    begin = end;
  }
  return {};
}

std::string canonical_name(const std::vector<std::string>& names, const Plan& plan) {
  if (names.size() > 1)
    for (const Tie& tie : plan.ties)
      for (const std::string& name : names)
        if (matches(tie.source, name)) return name;
  return names.front();
}

// Units are in module-tree order, so an inner unit comes after the unit that contains it.
size_t smallest_common_unit(const std::vector<std::string>& names, const std::vector<ModelUnit>& units) {
  for (size_t unit = units.size(); unit-- > 0;)
    if (std::ranges::all_of(names, [&](const std::string& name) { return starts_with_path(name, units[unit].name); }))
      return unit;
  TORCH_INTERNAL_ASSERT(false, "the root unit holds every parameter");
}

bool is_any(const std::vector<std::string>& patterns, const ModelParameter& parameter) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    return std::ranges::any_of(parameter.names, [&](const std::string& name) { return matches(pattern, name); });
  });
}

/// Whether the parameter is a matrix in a GEMM of a layer. Excludes lookup tables, convolution filters and the rates of
/// a state space. A parameter tied to one outside its layer is in the root unit.
bool is_layer_matrix(const ModelParameter& parameter, const Plan& plan, const std::vector<ModelUnit>& planned,
                     const std::unordered_set<std::string>& tables) {
  return smallest_common_unit(parameter.names, planned) > 0 &&
         (parameter.global_shape.size() == 2 || parameter.is_expert) && !parameter.is_rate &&
         !is_any(plan.tables, parameter) &&
         std::ranges::none_of(parameter.names, [&](const std::string& one) { return tables.contains(one); });
}

/// Returns ModelParameter::multiplied. `chosen`: experts per token; 0 if that is not known.
std::vector<int64_t> multiplied_by_name(const ModelParameter& parameter, int64_t chosen,
                                        const std::unordered_set<std::string>& tables) {
  int64_t elements = c10::multiply_integers(parameter.global_shape);
  if (parameter.is_expert && chosen > 0) elements = elements / parameter.global_shape[0] * chosen;
  std::vector<int64_t> multiplied;
  for (const std::string& name : parameter.names) multiplied.push_back(tables.contains(name) ? 0 : elements);
  return multiplied;
}

/// Returns each distinct tensor with all its names.
std::vector<ModelParameter> distinct(const torch::OrderedDict<std::string, at::Tensor>& tensors, bool trainable) {
  std::vector<ModelParameter> found;
  std::unordered_map<const at::TensorImpl*, size_t> seen;
  for (const auto& item : tensors) {
    const auto [entry, is_new] = seen.try_emplace(item.value().unsafeGetTensorImpl(), found.size());
    if (is_new) {
      ModelParameter& parameter = found.emplace_back();
      parameter.tensor = item.value();
      parameter.global_shape = item.value().sizes().vec();
      parameter.trainable = trainable;
    }
    found[entry->second].names.push_back(item.key());
  }
  return found;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  while (!pattern.empty() && !name.empty()) {
    const std::string_view wanted = first_component(pattern);
    const std::string_view found = first_component(name);
    if (wanted != "*" && wanted != found) return false;
  }
  return pattern.empty() && name.empty();
}

int64_t expert_count(const std::vector<ModelParameter>& parameters) {
  const auto found = std::ranges::find_if(parameters, &ModelParameter::is_expert);
  return found == parameters.end() ? 0 : found->global_shape[0];
}

std::string class_name(const nn::Module& module) {
  const std::string full_name = c10::demangle(typeid(module).name());  // "modular::llama::LlamaDecoderLayerImpl"
  const size_t scope = full_name.rfind("::");
  std::string name = scope == std::string::npos ? full_name : full_name.substr(scope + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

bool lies_in(std::string_view pattern, std::string_view name) {
  for (size_t end = name.find('.'); end != std::string_view::npos; end = name.find('.', end + 1))
    if (matches(pattern, name.substr(0, end))) return true;
  return matches(pattern, name);
}

std::vector<int64_t> layer_costs(const ParameterTable& table, const Plan& plan, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> costs(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  for (const ModelParameter& parameter : table.parameters)
    for (size_t name = 0; name < parameter.names.size(); ++name)
      if (const auto layer = find_layer(parameter.names[name], plan, sizes))
        costs[static_cast<size_t>(*layer)] += parameter.multiplied[name];
  return costs;
}

ParameterTable parameter_table(nn::Module& root, const Plan& plan, const AnyConfig& config,
                               const std::vector<const StageOnRank*>& stages,
                               const std::vector<std::string>& unit_classes) {
  ParameterTable table;
  std::vector<ModelUnit> planned = {{"", &root}};
  table.units = planned;
  const auto is_unit = [&](const nn::Module& module) {
    return std::ranges::any_of(unit_classes,
                               [&](const std::string& name) { return name == "*" || name == class_name(module); });
  };
  const std::vector<int64_t> sizes = stack_sizes(root, plan);
  std::unordered_set<std::string> tables;  // names
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (std::ranges::any_of(plan.units, [&](std::string_view pattern) { return matches(pattern, item.key()); })) {
      planned.push_back({item.key(), item.value().get()});
      if (is_unit(*item.value())) table.units.push_back(planned.back());
    }
    if (item.value()->as<torch::nn::Embedding>()) tables.insert(item.key() + ".weight");
  }

  table.parameters = distinct(root.named_parameters(), /*trainable=*/true);
  table.buffers = distinct(root.named_buffers(), /*trainable=*/false);

  const auto integers = config_integers(config);
  const auto describe = [&](ModelParameter& parameter) {
    parameter.name = canonical_name(parameter.names, plan);
    parameter.unit = smallest_common_unit(parameter.names, table.units);
    for (const TensorSplit& split : plan.tensor_splits)
      for (const std::string& name : parameter.names)
        if (matches(split.parameter, name)) {
          parameter.tensor_split = split.dim;
          parameter.parts.clear();
          for (const std::string_view part : split.parts)
            parameter.parts.push_back({.size = evaluate_monomial(part, integers)});
        }
    if (parameter.tensor_split && parameter.parts.empty())
      parameter.parts = {{.size = parameter.global_shape[static_cast<size_t>(*parameter.tensor_split)]}};
    if (!stages.empty()) {
      parameter.held = std::ranges::any_of(stages, [&](const StageOnRank* stage) {
        return std::ranges::any_of(parameter.names, [&](const std::string& name) {
          const auto layer = find_layer(name, plan, sizes);
          return !layer || stage->holds(*layer);
        });
      });
      const auto used_by = [&](const std::vector<std::string>& patterns) {
        return std::ranges::any_of(parameter.names, [&](const std::string& name) { return any_holds(patterns, name); });
      };
      parameter.in_every_stage =
          std::ranges::any_of(parameter.names, [&](const std::string& name) { return !find_layer(name, plan, sizes); });
      parameter.shared_between_stages =
          !parameter.in_every_stage && used_by(find_stacks(plan).front().first) && used_by(plan.last);
    }
  };
  std::ranges::for_each(table.parameters, describe);
  std::ranges::for_each(table.buffers, describe);
  for (ModelParameter& parameter : table.parameters) {
    int64_t chosen = 0;
    for (const ExpertWeights& weights : plan.experts) {
      if (!is_any({weights.parameter}, parameter)) continue;
      parameter.is_expert = true;
      if (const auto found = integers.find(weights.chosen); found != integers.end()) chosen = found->second;
    }
    parameter.is_rate = is_any(plan.rates, parameter);
    parameter.partial_in_sequence = is_any(plan.partial_in_sequence, parameter);
    parameter.layer_matrix = is_layer_matrix(parameter, plan, planned, tables);
    parameter.multiplied = multiplied_by_name(parameter, chosen, tables);
  }
  return table;
}

std::vector<at::Tensor> held_tensors(const ParameterTable& table) {
  std::vector<at::Tensor> held;
  for (const auto* tensors : {&table.parameters, &table.buffers})
    for (const ModelParameter& tensor : *tensors)
      if (tensor.held) held.push_back(tensor.tensor);
  return held;
}

std::vector<int64_t> local_shape(const ModelParameter& parameter, int64_t tp, int64_t tp_rank) {
  std::vector<int64_t> shape = parameter.global_shape;
  if (!parameter.tensor_split) return shape;
  int64_t& size = shape[static_cast<size_t>(*parameter.tensor_split)] = 0;
  for (const SplitPart& part : parameter.parts) size += to_part_slice(part, tp, tp_rank).size;
  return shape;
}

bool lies_in_any(const std::vector<std::string>& patterns, const ModelParameter& parameter) {
  return std::ranges::any_of(parameter.names, [&](const std::string& name) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return lies_in(pattern, name); });
  });
}

void freeze(std::vector<ModelParameter>& parameters, const std::vector<std::string>& frozen,
            const std::optional<std::vector<std::string>>& trained) {
  for (ModelParameter& parameter : parameters) {
    const bool is_trained = !trained || is_adapter(parameter.name) || lies_in_any(*trained, parameter);
    if (is_trained && !lies_in_any(frozen, parameter)) continue;
    parameter.trainable = false;
    parameter.tensor.set_requires_grad(false);
  }
}

std::vector<ParameterSlice> get_slices_on_rank(const ModelParameter& parameter, int64_t tp, int64_t tp_rank,
                                               const Slice& slice) {
  ParameterSlice all;
  all.offset.assign(parameter.global_shape.size(), 0);
  all.start = all.offset;
  all.shape = parameter.global_shape;
  all.owner = parameter.tensor_split || tp_rank == 0;
  if (all.shape.empty()) return slice.size > 0 ? std::vector{all} : std::vector<ParameterSlice>();
  const auto dim = static_cast<size_t>(slice.dim);
  all.offset[dim] = slice.begin;
  all.shape[dim] = slice.size;
  if (tp == 1 || !parameter.tensor_split) return {all};

  const auto split = static_cast<size_t>(*parameter.tensor_split);
  std::vector<ParameterSlice> slices;
  int64_t part_begin = 0, local_begin = 0;  // start of the part in the full parameter and in this tp rank's tensor
  for (const SplitPart& part : parameter.parts) {
    const PartSlice own = to_part_slice(part, tp, tp_rank);
    ParameterSlice part_slice = all;
    int64_t begin = local_begin, end = local_begin + own.size;
    if (split == dim) {
      begin = std::max(begin, slice.begin);
      end = std::min(end, slice.begin + slice.size);
    }
    part_slice.offset[split] = part_begin + own.begin + begin - local_begin;
    part_slice.start[split] = split == dim ? begin - slice.begin : begin;
    part_slice.shape[split] = end - begin;
    part_slice.kv_replicas = own.kv_replicas;
    part_slice.owner = own.owner;
    if (end > begin && slice.size > 0) slices.push_back(std::move(part_slice));
    part_begin += part.size;
    local_begin += own.size;
  }
  return slices;
}

namespace {

/// Calls `visit(path, layer)` for each selected layer.
template <class Visit>
void visit_layers(const nn::Module& root, const std::vector<std::string>& patterns, const Visit& visit) {
  for (const auto& item : root.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto offer = [&](auto* layer) {
      if (!layer || std::ranges::any_of(layer->weight.sizes(), [](int64_t size) { return size % kFloat8Multiple; }))
        return;
      const std::string weight = item.key() + ".weight";
      if (std::ranges::any_of(patterns, [&](const std::string& pattern) { return lies_in(pattern, weight); }))
        visit(item.key(), *layer);
    };
    offer(item.value()->as<nn::LinearImpl>());
    offer(item.value()->as<TransposedLinearImpl>());
  }
}

}  // namespace

std::vector<std::string> float8_layers(const nn::Module& root, const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  visit_layers(root, patterns, [&](const std::string& path, const auto&) { paths.push_back(path); });
  return paths;
}

void multiply_in_float8(nn::Module& root, const std::vector<std::string>& patterns) {
  visit_layers(root, patterns, [](const std::string&, auto& layer) { layer.in_float8 = true; });
}

}  // namespace modular
