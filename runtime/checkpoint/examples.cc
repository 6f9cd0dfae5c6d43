#include "runtime/checkpoint/examples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

/// How a tensor of a batch is shaped. Names of dimensions that several have must be of one size.
struct Form {
  std::string_view name;
  std::vector<std::string_view> dimensions;
  bool real = false;            // floating-point numbers rather than integers
  std::string_view below = {};  // the integer of the config that ids stay below
  bool may_ignore = false;      // kIgnoredTarget is no id and yet allowed
  bool required = false;
};

std::vector<Form> forms_of(const Task& task) {
  const bool images = task.reads != Task::Reads::tokens, tokens = task.reads != Task::Reads::images;
  // Language models that see images have any number of them in a row.
  const bool image_each_row = task.labels == Task::Labels::each_row;
  std::vector<Form> forms;
  if (tokens) {
    forms.push_back({.name = "input_ids", .dimensions = {"batch", "seq"}, .below = "vocab_size", .required = true});
    forms.push_back({.name = "attention_mask", .dimensions = {"batch", "seq"}});
    forms.push_back({.name = "position_ids", .dimensions = {"batch", "seq"}});
    forms.push_back({.name = "token_type_ids", .dimensions = {"batch", "seq"}, .below = "type_vocab_size"});
  }
  if (images)
    forms.push_back({.name = "pixel_values",
                     .dimensions = {image_each_row ? "batch" : "images", "channels", "height", "width"},
                     .real = true,
                     .required = image_each_row});
  Form labels = {.name = "labels", .dimensions = {"batch"}, .below = task.label_count, .may_ignore = true};
  if (task.labels == Task::Labels::each_token) labels.dimensions.push_back("seq");
  if (task.labels == Task::Labels::each_target_token) {
    labels.dimensions.push_back("target_seq");
    forms.push_back({.name = "decoder_input_ids", .dimensions = labels.dimensions, .below = "vocab_size"});
    forms.push_back({.name = "decoder_attention_mask", .dimensions = labels.dimensions});
  }
  forms.push_back(labels);
  if (task.name == "next-item") {
    forms.push_back({.name = "feature_ids", .dimensions = {"batch", "seq", "categorical features"}});
    forms.push_back({.name = "feature_values", .dimensions = {"batch", "seq", "numeric features"}, .real = true});
  }
  return forms;
}

std::string text_of(const Form& form) {
  return fmt::format("[{}] of {}", fmt::join(form.dimensions, ", "), form.real ? "numbers" : "integers");
}

/// An integer of a config, or of the config of the text inside of it.
int64_t config_integer(const nlohmann::json& fields, std::string_view path) {
  nlohmann::json::json_pointer pointer;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    pointer /= std::string(path.substr(start, dot - start));
    start = dot + 1;
  }
  for (const auto& place : {pointer, nlohmann::json::json_pointer("/text_config") / pointer})
    if (fields.contains(place) && fields.at(place).is_number_integer()) return fields.at(place).get<int64_t>();
  return INT64_MAX;
}

void check_ids(const std::string& path, const Form& form, const at::Tensor& ids, int64_t count) {
  if (ids.numel() == 0) return;
  at::Tensor wrong = ids.lt(0).logical_or(ids.ge(count));
  if (form.may_ignore) wrong = wrong.logical_and(ids.ne(kIgnoredTarget));
  if (!wrong.any().item<bool>()) return;
  throw std::runtime_error(fmt::format(
      "{}: \"{}\" holds {}: write ids from 0 to {}{}", path, form.name, ids.masked_select(wrong)[0].item<int64_t>(),
      count - 1, form.may_ignore ? fmt::format(", or {} where there is no target", kIgnoredTarget) : ""));
}

}  // namespace

Batch read_examples(const SafetensorsFile& file, const ModelConfig& model) {
  const std::string path = file.path().string();
  const Task* const task = find_task(model.entry->task);
  if (!task) throw std::runtime_error(task_refusal(model.entry->architecture, model.entry->task));
  const std::vector<Form> forms = forms_of(*task);
  std::vector<std::string_view> known;
  for (const Form& form : forms) known.push_back(form.name);
  const std::string reads =
      fmt::format("{}, for {}, reads {}", model.entry->architecture, task->name, fmt::join(known, ", "));

  std::map<std::string_view, std::pair<int64_t, std::string_view>> sizes;  // of a dimension, and who has it
  std::map<std::string_view, at::Tensor> tensors;
  for (const Form& form : forms) {
    const auto found = file.tensors().find(form.name);
    if (found == file.tensors().end()) {
      if (form.required) throw std::runtime_error(fmt::format("{} holds no \"{}\": {}", path, form.name, reads));
      continue;
    }
    const TensorHeader& header = found->second;
    const bool fits = form.real ? at::isFloatingType(header.dtype) : at::isIntegralType(header.dtype, true);
    if (header.shape.size() != form.dimensions.size() || !fits)
      throw std::runtime_error(fmt::format("{}: \"{}\" is {} of {}: write {}", path, form.name,
                                           shape_text(header.shape), c10::toString(header.dtype), text_of(form)));
    for (size_t place = 0; place < header.shape.size(); ++place) {
      const auto [other, is_first] = sizes.try_emplace(form.dimensions[place], header.shape[place], form.name);
      if (!is_first && other->second.first != header.shape[place])
        throw std::runtime_error(fmt::format("{}: \"{}\" is {} and \"{}\" has {} for {}: write equal sizes", path,
                                             form.name, shape_text(header.shape), other->second.second,
                                             other->second.first, form.dimensions[place]));
    }
    tensors[form.name] = file.tensor(form.name).to(form.real ? at::kFloat : at::kLong).clone();
  }
  for (const auto& [name, header] : file.tensors())
    if (!tensors.contains(name)) throw std::runtime_error(fmt::format("{} holds \"{}\": {}", path, name, reads));

  const nlohmann::json fields = fields_as_json(*model.config);
  for (const Form& form : forms) {
    const int64_t count = form.below.empty() ? INT64_MAX : config_integer(fields, form.below);
    if (tensors.contains(form.name) && count != INT64_MAX) check_ids(path, form, tensors[form.name], count);
  }
  Batch batch;
  batch.fields([&](std::string_view name, at::Tensor& tensor) {
    if (const auto found = tensors.find(name); found != tensors.end()) tensor = found->second;
  });
  return batch;
}

}  // namespace modular
