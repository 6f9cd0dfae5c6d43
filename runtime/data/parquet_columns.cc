#include "runtime/data/parquet_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/checkpoint/config_json.h"
#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using Of = RowColumn::Of;
using Values = RowColumn::Values;

std::vector<int64_t> table_size(const nlohmann::json& fields, std::string_view key) {
  const auto found = fields.find(key);
  if (found == fields.end() || !found->is_number_integer()) return {};
  return {found->get<int64_t>()};
}

RowColumn get_labels(const Task& task, const ModelConfig& model, const nlohmann::json& fields) {
  RowColumn labels = {.name = "labels",
                      .of = Of::input,
                      .padding = kIgnoredTarget,
                      .below = table_size(fields, task.label_count),
                      .below_key = task.label_count,
                      .may_ignore = true,
                      .required = task.targets != next_tokens && !is_of_sessions(task)};
  if (task.labels == Task::Labels::each_target_token) labels.of = Of::target;
  if (task.labels != Task::Labels::each_row) return labels;
  labels.of = Of::row;
  labels.lists = 0;
  if (find_problem(model).empty()) return labels;
  labels.values = Values::either;
  labels.as_numbers = true;
  labels.zero_or_one = find_problem(model) == "multi_label_classification";
  labels.below = {};
  labels.width = fields.value("num_labels", int64_t{1});
  if (labels.width > 1) labels.lists = 1;
  return labels;
}

std::string type_text(const RowColumn& column) {
  const std::string_view values = column.values == Values::integers  ? "integers"
                                  : column.values == Values::numbers ? "floating-point numbers"
                                                                     : "integers or floating-point numbers";
  static constexpr std::string_view kForms[] = {"{}, one per row", "a list of {} in each row",
                                                "a list of lists of {} in each row"};
  return fmt::format(fmt::runtime(kForms[column.lists]), values);
}

}  // namespace

std::vector<RowColumn> row_columns(const ModelConfig& model) {
  const Task* const task = find_task(model.entry->task);
  if (!task) throw std::runtime_error(task_error(model.entry->architecture, model.entry->task));
  if (task->reads != Task::Reads::tokens || task->texts != 1)
    throw std::runtime_error(fmt::format(
        "{} is for {}, whose examples have {}, which Parquet files cannot hold: write them as safetensors (data.format "
        "= \"examples\")",
        model.entry->architecture, model.entry->task, task->reads != Task::Reads::tokens ? "images" : "several texts"));
  const nlohmann::json fields = fields_as_json(*model.config);
  const auto ids = table_size(fields, "vocab_size"), pad = table_size(fields, "pad_token_id");
  auto types = table_size(fields, "type_vocab_size");
  if (types == std::vector<int64_t>{0}) types.clear();  // a model without segments ignores them
  const bool pads = !is_of_sessions(*task) && !pad.empty() && pad[0] >= 0 && (ids.empty() || pad[0] < ids[0]);
  const int64_t padding = pads ? pad[0] : 0;
  std::vector<RowColumn> columns = {
      {.name = "input_ids", .padding = padding, .below = ids, .below_key = "vocab_size"},
      {.name = "attention_mask", .required = false},
      {.name = "position_ids", .required = false},
      {.name = "token_type_ids", .below = types, .below_key = "type_vocab_size", .required = false}};
  columns.push_back(get_labels(*task, model, fields));
  if (task->labels == Task::Labels::each_target_token) {
    columns.push_back({.name = "decoder_input_ids",
                       .of = Of::target,
                       .padding = padding,
                       .below = ids,
                       .below_key = "vocab_size",
                       .required = false});
    columns.push_back({.name = "decoder_attention_mask", .of = Of::target, .required = false});
  }
  if (!is_of_sessions(*task)) return columns;
  if (const auto cardinalities = fields.value("feature_cardinalities", std::vector<int64_t>()); !cardinalities.empty())
    columns.push_back({.name = "feature_ids",
                       .lists = 2,
                       .width = static_cast<int64_t>(cardinalities.size()),
                       .below = cardinalities,
                       .below_key = "feature_cardinalities"});
  if (const auto numbers = fields.value("feature_numbers", int64_t{0}); numbers > 0)
    columns.push_back(
        {.name = "feature_values", .lists = 2, .values = Values::numbers, .as_numbers = true, .width = numbers});
  return columns;
}

std::vector<RowColumn> columns_in(const std::vector<ParquetColumn>& held, const std::string& path,
                                  const std::vector<RowColumn>& columns, const ModelConfig& model) {
  std::vector<RowColumn> found;
  for (const RowColumn& column : columns) {
    const auto stored = std::ranges::find(held, column.name, &ParquetColumn::name);
    if (stored == held.end()) {
      if (!column.required) continue;
      std::vector<std::string_view> names;
      for (const ParquetColumn& one : held) names.push_back(one.name);
      throw std::runtime_error(fmt::format("{} has no column \"{}\", which {}, for {}, reads: it has {}", path,
                                           column.name, model.entry->architecture, model.entry->task,
                                           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    if (std::ranges::count(held, column.name, &ParquetColumn::name) > 1)
      throw std::runtime_error(fmt::format("{} has several columns \"{}\": keep one of them", path, column.name));
    const bool fits = column.values == Values::integers  ? is_integer(stored->element)
                      : column.values == Values::numbers ? is_number(stored->element)
                                                         : stored->element != ParquetType::other;
    if (stored->lists != column.lists || !fits)
      throw std::runtime_error(fmt::format("{}: column \"{}\" is {}, and {}, for {}, reads {}: convert it", path,
                                           column.name, stored->type, model.entry->architecture, model.entry->task,
                                           type_text(column)));
    found.push_back(column);
  }
  return found;
}

}  // namespace modular
