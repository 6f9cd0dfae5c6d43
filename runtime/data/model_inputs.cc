#include "runtime/data/model_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <variant>

#include "runtime/checkpoint/config_json.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {
namespace {

/// Whether positions are computed, for any sequence length, instead of looked up.
bool has_rotary_positions(AnyConfig& config) {
  bool has = false;
  config.fields(FieldVisitor([&](std::string_view, const ConfigValue& field) {
    has = has || std::holds_alternative<RopeParameters*>(field) || std::holds_alternative<LayerRopeParameters*>(field);
  }));
  return has;
}

}  // namespace

std::optional<int64_t> model_count(const ModelConfig& model, std::string_view name) {
  std::optional<int64_t> count;
  model.config->fields(FieldVisitor([&](std::string_view field, const ConfigValue& value) {
    if (const auto* const* integer = std::get_if<int64_t*>(&value); integer && field == name && !count)
      count = **integer;
  }));
  return count;
}

int64_t vocab_size(const ModelConfig& model) {
  return model_count(model, "vocab_size").value_or(std::numeric_limits<int64_t>::max());
}

int64_t first_position(const ModelConfig& model) {
  const Model built = build_on_meta(*model.entry, *model.config);
  for (const auto& item : built.module->named_modules("", /*include_self=*/false))
    if (const auto* table = item.value()->as<torch::nn::Embedding>();
        table && item.key().ends_with("position_embeddings") && table->options.padding_idx())
      return *table->options.padding_idx() + 1;
  return 0;
}

std::optional<int64_t> longest_sequence(const ModelConfig& model) {
  auto positions = model_count(model, "max_position_embeddings");
  if (!positions) positions = model_count(model, "n_positions");
  if (!positions || has_rotary_positions(*model.config)) return {};
  const Model built = build_on_meta(*model.entry, *model.config);
  const auto is_table = [&](const auto& parameter) {
    if (parameter.key().ends_with("embed_positions.weight")) return true;  // BART's, which has two more rows
    return parameter.value().dim() > 1 && parameter.value().size(0) == *positions &&
           !parameter.key().ends_with("rel_embeddings.weight");  // DeBERTa's distances, which may be longer
  };
  if (std::ranges::none_of(built.module->named_parameters(), is_table)) return {};
  return *positions - first_position(model);
}

std::string advice_on_positions(const ModelConfig& model, bool has_checkpoint) {
  const char* const key = model_count(model, "n_positions") ? "n_positions" : "max_position_embeddings";
  return fmt::format("write shorter ones{}",
                     has_checkpoint ? ", as the checkpoint has no more positions"
                                    : fmt::format(", or raise model.config.{}, which defines another model", key));
}

const Task& get_task(const ModelConfig& model) {
  const Task* const task = find_task(model.entry->task);
  if (!task) throw std::runtime_error(task_error(model.entry->architecture, model.entry->task));
  return *task;
}

bool makes_labels(const Task& task, int64_t texts) {
  return task.targets == next_tokens || task.name == "masked-item" || task.name == "contrastive-pairs" ||
         (task.texts == kAnyTexts && texts > 1);
}

bool is_of_sessions(const Task& task) { return task.name == "next-item" || task.name == "masked-item"; }

void add_item_mask(const Task& task, Batch& batch) {
  if (task.name == "masked-item" && !batch.attention_mask.defined())
    batch.attention_mask = batch.input_ids.ne(0).to(at::kLong);
}

at::Tensor made_labels(const Task& task, const Batch& batch, int64_t texts) {
  if (task.targets != next_tokens && task.name != "masked-item")
    return at::zeros({batch.leading().size(0) / texts}, at::kLong);
  at::Tensor labels = batch.input_ids.clone();
  if (batch.attention_mask.defined()) labels.masked_fill_(batch.attention_mask.eq(0), kIgnoredTarget);
  if (is_of_sessions(task)) labels.masked_fill_(batch.input_ids.eq(0), kIgnoredTarget);  // id 0 is padding
  return labels;
}

std::string find_problem(const ModelConfig& model, bool real_labels) {
  const Task& task = get_task(model);
  if (task.labels != Task::Labels::each_row || task.label_count != "num_labels") return {};
  const nlohmann::json fields = fields_as_json(*model.config);
  const auto given = fields.find("problem_type");
  const std::string problem = given != fields.end() && given->is_string()   ? given->get<std::string>()
                              : fields.value("num_labels", int64_t{2}) == 1 ? "regression"
                              : real_labels                                 ? "multi_label_classification"
                                                                            : "";
  return problem == "single_label_classification" ? "" : problem;
}

}  // namespace modular
