// Why a mesh cannot carry a model, found before a rank starts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/parameter_table.h"

namespace modular {
namespace {

/// The integers of a config by name; what is not given is left out.
class IntegerFields final : public FieldVisitor {
 public:
  std::map<std::string, int64_t, std::less<>> values;
  void operator()(std::string_view name, int64_t& value) override { values.emplace(name, value); }
  void operator()(std::string_view name, std::optional<int64_t>& value) override {
    if (value) values.emplace(name, *value);
  }
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, std::optional<bool>&) override {}
  void operator()(std::string_view, std::optional<double>&) override {}
  void operator()(std::string_view, std::optional<std::string>&) override {}
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<std::string>&) override {}
  void operator()(std::string_view, std::optional<std::vector<double>>&) override {}
  void operator()(std::string_view, RopeParameters&) override {}
  void operator()(std::string_view, LayerRopeParameters&) override {}
};

std::string indivisible(const Plan& plan, AnyConfig& config, const MeshShape& shape) {
  IntegerFields fields;
  config.fields(fields);
  for (const Divides& rule : plan.divides) {
    const auto field = fields.values.find(rule.field);
    const auto axis = std::ranges::find(kAxisNames, rule.axis);
    TORCH_INTERNAL_ASSERT(field != fields.values.end() && axis != kAxisNames.end(), "the plan divides ", rule.field,
                          " by ", rule.axis, ", and one of them does not exist");
    const int64_t ranks = shape.size[static_cast<size_t>(axis - kAxisNames.begin())];
    if (field->second % ranks != 0)
      return fmt::format("{} = {} cannot be split over {} = {}: choose a {} that divides it", rule.field, field->second,
                         rule.axis, ranks, rule.axis);
  }
  return "";
}

std::string indivisible(const ParameterTable& table, int64_t tp) {
  for (const ModelParameter& parameter : table.parameters) {
    if (!parameter.tensor_split) continue;
    const int64_t size = parameter.global_shape[static_cast<size_t>(*parameter.tensor_split)];
    if (size % tp != 0)
      return fmt::format("{} has {} elements along dimension {}, which cannot be split over tp = {}", parameter.name,
                         size, *parameter.tensor_split, tp);
  }
  return "";
}

}  // namespace

std::string ParallelModel::refusal(const Entry& entry, const AnyConfig& config, const MeshShape& shape) {
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis)
    if (shape.size[axis] < 1)
      return fmt::format("{} = {}: an axis has at least 1 rank", kAxisNames[axis], shape.size[axis]);
  for (const Axis axis : {Axis::cp, Axis::ep})
    if (shape[axis] > 1)
      return fmt::format("{} = {} is not supported: set it to 1", kAxisNames[static_cast<size_t>(axis)], shape[axis]);

  const auto copy = config.clone();
  if (std::string reason = indivisible(*entry.plan, *copy, shape); !reason.empty()) return reason;

  const Model model = build_on_meta(entry, config);
  const ParameterTable table = parameter_table(*model.module, *entry.plan, /*stage=*/nullptr);
  if (std::string reason = indivisible(table, shape[Axis::tp]); !reason.empty()) return reason;

  const int64_t stages = shape[Axis::pp];
  if (stages > 1) {
    if (entry.plan->split_list.empty())
      return fmt::format("{} cannot be cut into pipeline stages: set pp to 1", entry.architecture);
    const auto list = model.module->named_modules("", false).find(std::string(entry.plan->split_list));
    TORCH_INTERNAL_ASSERT(list, "the plan cuts ", entry.plan->split_list, ", which does not exist");
    const auto layers = static_cast<int64_t>((*list)->children().size());
    if (layers < stages)
      return fmt::format("pp = {} needs at least as many layers, and {} has {}: choose a smaller pp", stages,
                         entry.plan->split_list, layers);
  }
  return "";
}

}  // namespace modular
