#include "runtime/data/examples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

/// Expected shape and type of a batch's tensor. Dimensions of the same name must have the same size.
struct Form {
  std::string_view name;
  std::vector<std::string_view> dimensions;
  std::string_view may_have = {};  // a dimension after the first that may be left out if its size is 1
  enum class Values { integers, numbers, either } values = Values::integers;
  bool as_numbers = false;      // whether a batch has float32, whatever type the file has
  std::string_view below = {};  // config field that bounds the ids from above
  bool may_ignore = false;      // whether kIgnoredTarget is allowed in addition to ids
  bool required = false;
};

constexpr int64_t kCheckedIds = int64_t{1} << 20;  // number of ids at a time

/// Cardinalities of an item's categorical features; empty if the model reads none.
std::vector<int64_t> get_cardinalities(const nlohmann::json& fields) {
  return fields.value("feature_cardinalities", std::vector<int64_t>());
}

std::vector<Form> find_forms(const Task& task, const ModelConfig& model, bool real_labels) {
  const bool images = task.reads != Task::Reads::tokens, tokens = task.reads != Task::Reads::images;
  // Language models with image inputs have any number of images per row.
  const bool image_each_row = task.labels == Task::Labels::each_row;
  std::vector<Form> forms;
  if (tokens) {
    const std::string_view texts = task.texts == 1 ? "" : "texts";
    const std::vector<std::string_view> token_shape = {"batch", "seq"};
    forms.push_back(
        {.name = "input_ids", .dimensions = token_shape, .may_have = texts, .below = "vocab_size", .required = true});
    forms.push_back({.name = "attention_mask", .dimensions = token_shape, .may_have = texts});
    forms.push_back({.name = "position_ids", .dimensions = token_shape, .may_have = texts});
    forms.push_back(
        {.name = "token_type_ids", .dimensions = token_shape, .may_have = texts, .below = "type_vocab_size"});
  }
  if (images)
    forms.push_back({.name = "pixel_values",
                     .dimensions = {image_each_row ? "batch" : "images", "channels", "height", "width"},
                     .values = Form::Values::numbers,
                     .as_numbers = true,
                     .required = image_each_row});
  Form labels = {.name = "labels", .dimensions = {"batch"}, .below = task.label_count, .may_ignore = true};
  if (task.labels == Task::Labels::each_token) labels.dimensions.push_back("seq");
  if (task.texts == kAnyTexts) labels.values = Form::Values::either;
  if (!find_problem(model, real_labels).empty()) {
    labels.may_have = "labels";
    labels.values = Form::Values::either;
    labels.as_numbers = true;
  }
  if (task.labels == Task::Labels::each_target_token) {
    labels.dimensions.push_back("target_seq");
    forms.push_back({.name = "decoder_input_ids", .dimensions = labels.dimensions, .below = "vocab_size"});
    forms.push_back({.name = "decoder_attention_mask", .dimensions = labels.dimensions});
  }
  forms.push_back(labels);
  if (is_of_sessions(task)) {
    const nlohmann::json fields = fields_as_json(*model.config);
    if (!get_cardinalities(fields).empty())
      forms.push_back(
          {.name = "feature_ids", .dimensions = {"batch", "seq", "categorical features"}, .required = true});
    if (fields.value("feature_numbers", int64_t{0}) > 0)
      forms.push_back({.name = "feature_values",
                       .dimensions = {"batch", "seq", "numeric features"},
                       .values = Form::Values::numbers,
                       .as_numbers = true,
                       .required = true});
  }
  return forms;
}

std::string get_text(const Form& form) {
  const std::string_view values = form.values == Form::Values::numbers    ? "numbers"
                                  : form.values == Form::Values::integers ? "integers"
                                                                          : "integers or numbers";
  std::vector<std::string_view> dimensions = form.dimensions;
  const std::string shape = fmt::format("[{}]", fmt::join(dimensions, ", "));
  if (form.may_have.empty()) return fmt::format("{} of {}", shape, values);
  dimensions.insert(dimensions.begin() + 1, form.may_have);
  return fmt::format("{} or [{}] of {}", shape, fmt::join(dimensions, ", "), values);
}

/// Integer field of a config, or of its nested text config.
int64_t config_integer(const nlohmann::json& fields, std::string_view path) {
  nlohmann::json::json_pointer pointer;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    pointer /= std::string(path.substr(start, dot - start));
    start = dot + 1;
  }
  for (const auto& location : {pointer, nlohmann::json::json_pointer("/text_config") / pointer})
    if (fields.contains(location) && fields.at(location).is_number_integer()) return fields.at(location).get<int64_t>();
  return INT64_MAX;
}

/// `key` names the config field that gives the number of ids.
void check_below(const std::string& path, const Form& form, const at::Tensor& ids, std::string_view key,
                 int64_t count) {
  if (ids.numel() == 0) return;
  at::Tensor wrong = ids.lt(0).logical_or(ids.ge(count));
  if (form.may_ignore) wrong = wrong.logical_and(ids.ne(kIgnoredTarget));
  if (!wrong.any().item<bool>()) return;
  throw std::runtime_error(
      fmt::format("{}: \"{}\" holds {}: write ids from 0 to {} ({} of the model's config is {}){}", path, form.name,
                  ids.masked_select(wrong)[0].item<int64_t>(), count - 1, key, count,
                  form.may_ignore ? fmt::format(", or {} where there is no target", kIgnoredTarget) : ""));
}

std::string what_is_read(const ModelConfig& model, const std::vector<Form>& forms) {
  std::vector<std::string_view> known;
  for (const Form& form : forms) known.push_back(form.name);
  return fmt::format("{}, for {}, reads {}", model.entry->architecture, model.entry->task, fmt::join(known, ", "));
}

/// Throws if the file's features differ from the config's.
void check_features(const SafetensorsFile& file, const ModelConfig& model) {
  const nlohmann::json fields = fields_as_json(*model.config);
  const auto categorical = static_cast<int64_t>(get_cardinalities(fields).size());
  for (const auto& [name, key, count] :
       {std::tuple("feature_ids", "feature_cardinalities", categorical),
        std::tuple("feature_values", "feature_numbers", fields.value("feature_numbers", int64_t{0}))})
    if (const auto found = file.tensors().find(name); found != file.tensors().end())
      if (const auto& shape = found->second.shape; shape.empty() || shape.back() != count)
        throw std::runtime_error(
            fmt::format("{}: \"{}\" is {}: its last dimension must be the {} that {} of the "
                        "model's config gives",
                        file.path().string(), name, shape_text(shape), count, key));
}

void check_texts(const std::string& path, const ModelConfig& model, int64_t texts) {
  const Task& task = get_task(model);
  if (texts < 1 || (task.texts != kAnyTexts && task.texts != texts))
    throw std::runtime_error(fmt::format(
        "{}: its samples have {} texts, and {}, for {}, reads {}: write \"input_ids\" as [batch, texts, seq]", path,
        texts, model.entry->architecture, model.entry->task,
        task.texts == kAnyTexts ? "at least 1" : std::to_string(task.texts)));
}

/// For labels that are numbers: one per label of the config, or per label of the file's own table.
void check_label_count(const std::string& path, const ModelConfig& model, const std::optional<LabelMap>& map,
                       int64_t labels) {
  const int64_t wanted = config_integer(fields_as_json(*model.config), "num_labels");
  if (labels != (map ? map->size() : wanted))
    throw std::runtime_error(fmt::format(
        "{}: \"labels\" has {} numbers per row, and num_labels of the model's config is {}: make them equal", path,
        labels, wanted));
}

bool has_real_labels(const SafetensorsFile& file) {
  const auto labels = file.tensors().find("labels");
  return labels != file.tensors().end() && at::isFloatingType(labels->second.dtype);
}

/// The forms whose tensors the file holds, checked by the file's header only.
std::vector<Form> forms_in(const SafetensorsFile& file, const ModelConfig& model, const std::optional<LabelMap>& map,
                           const std::vector<Form>& forms) {
  const std::string path = file.path().string(), reads = what_is_read(model, forms);
  std::map<std::string_view, std::pair<int64_t, std::string_view>>
      sizes;  // by dimension: its size, and the tensor that has it
  std::vector<Form> held;
  for (const Form& form : forms) {
    const auto found = file.tensors().find(form.name);
    if (found == file.tensors().end()) {
      if (form.required) throw std::runtime_error(fmt::format("{} holds no \"{}\": {}", path, form.name, reads));
      continue;
    }
    const TensorHeader& header = found->second;
    const bool is_number = at::isFloatingType(header.dtype), is_integer = at::isIntegralType(header.dtype, true);
    const bool fits = form.values == Form::Values::numbers    ? is_number
                      : form.values == Form::Values::integers ? is_integer
                                                              : is_number || is_integer;
    std::vector<std::string_view> dimensions = form.dimensions;
    std::vector<int64_t> shape = header.shape;
    if (!form.may_have.empty()) {
      dimensions.insert(dimensions.begin() + 1, form.may_have);
      if (shape.size() + 1 == dimensions.size() && !shape.empty()) shape.insert(shape.begin() + 1, 1);
    }
    if (shape.size() != dimensions.size() || !fits)
      throw std::runtime_error(fmt::format("{}: \"{}\" is {} of {}: write {}", path, form.name,
                                           shape_text(header.shape), c10::toString(header.dtype), get_text(form)));
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      const auto [other, is_first] = sizes.try_emplace(dimensions[dim], shape[dim], form.name);
      if (!is_first && other->second.first != shape[dim])
        throw std::runtime_error(fmt::format("{}: \"{}\" is {} and \"{}\" has {} for {}: write equal sizes", path,
                                             form.name, shape_text(header.shape), other->second.second,
                                             other->second.first, dimensions[dim]));
    }
    held.push_back(form);
  }
  check_features(file, model);
  check_texts(path, model, sizes.contains("texts") ? sizes.at("texts").first : 1);
  if (sizes.contains("labels")) check_label_count(path, model, map, sizes.at("labels").first);
  for (const auto& [name, header] : file.tensors())
    if (std::ranges::find(held, name, &Form::name) == held.end())
      throw std::runtime_error(fmt::format("{} holds \"{}\": {}", path, name, reads));
  return held;
}

at::Tensor converted(const at::Tensor& tensor, const Form& form, const std::optional<LabelMap>& map) {
  const bool is_number = form.as_numbers || (form.values == Form::Values::either && tensor.is_floating_point());
  const at::Tensor values = tensor.to(is_number ? at::kFloat : at::kLong);
  return map && form.name == "labels" ? map->apply(values) : values;
}

void check_tables(const std::string& path, const std::vector<Form>& held,
                  const std::map<std::string_view, at::Tensor>& tensors, const ModelConfig& model) {
  const nlohmann::json fields = fields_as_json(*model.config);
  for (const Form& form : held) {
    const int64_t count = form.below.empty() ? INT64_MAX : config_integer(fields, form.below);
    // A model without segments, with a type_vocab_size of 0, ignores them.
    if (count != INT64_MAX && count != 0 && !tensors.at(form.name).is_floating_point())
      check_below(path, form, tensors.at(form.name), form.below, count);
    if (form.name != "feature_ids") continue;
    const std::vector<int64_t> cardinalities = get_cardinalities(fields);
    for (size_t feature = 0; feature < cardinalities.size(); ++feature)
      check_below(path, form, tensors.at(form.name).select(-1, static_cast<int64_t>(feature)), "feature_cardinalities",
                  cardinalities[feature]);
  }
}

/// Builds a batch from `tensors`; each text of a sample becomes a row.
Batch to_batch(std::map<std::string_view, at::Tensor> tensors, const std::vector<Form>& held) {
  for (const Form& form : held)
    if (at::Tensor& tensor = tensors.at(form.name);
        form.may_have == "texts" && tensor.dim() > static_cast<int64_t>(form.dimensions.size()))
      tensor = tensor.flatten(0, 1);
  Batch batch;
  batch.fields([&](std::string_view name, at::Tensor& tensor) {
    if (const auto found = tensors.find(name); found != tensors.end()) tensor = found->second;
  });
  return batch;
}

/// Number of texts per sample in a file.
int64_t count_texts(const Task& task, const SafetensorsFile& file) {
  const auto ids = file.tensors().find("input_ids");
  return task.texts != 1 && ids != file.tensors().end() && ids->second.shape.size() == 3 ? ids->second.shape[1] : 1;
}

std::vector<int64_t> without_rows(const std::vector<int64_t>& shape) { return {shape.begin() + 1, shape.end()}; }

}  // namespace

int64_t count_samples(const Batch& batch) {
  const int64_t rows = batch.leading().size(0);
  return batch.labels.defined() && batch.input_ids.defined() ? std::min(rows, batch.labels.size(0)) : rows;
}

Batch take_rows(Batch batch, const ModelConfig& model, int64_t first, int64_t count) {
  const Task& task = *find_task(model.entry->task);
  const bool images_in_texts = task.reads == Task::Reads::tokens_and_images && task.labels == Task::Labels::each_token;
  if (images_in_texts && batch.pixel_values.defined()) {
    const int64_t token = config_integer(fields_as_json(*model.config), "image_token_index");
    const at::Tensor is_image = batch.input_ids.eq(token);
    const auto features_in = [&](int64_t begin, int64_t rows) {
      return is_image.narrow(0, begin, rows).sum().item<int64_t>();
    };
    const int64_t images = batch.pixel_values.size(0), features = features_in(0, is_image.size(0));
    const int64_t per_image = images > 0 ? features / images : 0;
    if (images > 0 &&
        (per_image == 0 || features_in(0, first) % per_image != 0 || features_in(first, count) % per_image != 0))
      throw std::runtime_error(
          fmt::format("\"input_ids\" has the image token {} {} times for {} images, and row {} begins in the middle "
                      "of an image: keep "
                      "the placeholders of an image in one row",
                      token, features, images, first));
    if (images > 0)
      batch.pixel_values =
          batch.pixel_values.narrow(0, features_in(0, first) / per_image, features_in(first, count) / per_image);
  }
  const int64_t samples = count_samples(batch);
  batch.tensors([&](at::Tensor& tensor) {
    const bool is_by_row = !images_in_texts || !tensor.is_same(batch.pixel_values);
    if (!tensor.defined() || !is_by_row) return;
    const int64_t rows = tensor.size(0) / samples;  // per sample
    tensor = tensor.narrow(0, first * rows, count * rows);
  });
  return batch;
}

Batch read_examples(const SafetensorsFile& file, const ModelConfig& model) {
  const std::optional<LabelMap> map = LabelMap::of(file.path(), model);
  const std::vector<Form> held = forms_in(file, model, map, find_forms(get_task(model), model, has_real_labels(file)));
  std::map<std::string_view, at::Tensor> tensors;
  for (const Form& form : held) tensors[form.name] = converted(file.tensor(form.name), form, map).clone();
  check_tables(file.path().string(), held, tensors, model);
  Batch batch = to_batch(tensors, held);
  const Task& task = get_task(model);
  add_item_mask(task, batch);
  if (const int64_t texts = count_texts(task, file); task.texts == kAnyTexts && texts > 1 && !batch.labels.defined())
    batch.labels = made_labels(task, batch, texts);
  return batch;
}

Examples::Examples(const std::vector<std::filesystem::path>& paths, const ModelConfig& model, Labels labels)
    : model_(model) {
  const Task& task = get_task(model);
  std::vector<Form> forms;
  for (const std::filesystem::path& path : paths) {
    const SafetensorsFile& file = files_.emplace_back(path, Links::followed);
    if (forms.empty()) forms = find_forms(task, model, labels_are_numbers());
    const bool same_folder =
        !label_maps_.empty() && path.parent_path() == files_[files_.size() - 2].path().parent_path();
    label_maps_.push_back(same_folder ? label_maps_.back() : LabelMap::of(path, model));
    for (Form& form : forms)
      form.required = form.required || (form.name == "labels" && labels == Labels::needed &&
                                        !makes_labels(task, count_texts(task, file)));
    forms_in(file, model, label_maps_.back(), forms);
    const int64_t rows = file.tensors().begin()->second.shape[0];
    for (const auto& [name, header] : file.tensors()) {
      if (header.shape[0] != rows)
        throw std::runtime_error(fmt::format("{}: \"{}\" has {} rows and \"{}\" has {}: write one row for each example",
                                             path.string(), name, header.shape[0], file.tensors().begin()->first,
                                             rows));
      const auto first = files_.front().tensors().find(name);
      if (first == files_.front().tensors().end() || without_rows(first->second.shape) != without_rows(header.shape))
        throw std::runtime_error(
            fmt::format("{}: \"{}\" is {}, and {} {}: pad the rows of all files to the same length", path.string(),
                        name, shape_text(header.shape), paths.front().string(),
                        first == files_.front().tensors().end() ? std::string("has none")
                                                                : "has " + shape_text(first->second.shape)));
    }
    if (file.tensors().size() != files_.front().tensors().size())
      throw std::runtime_error(fmt::format("{} holds {} tensors, and {} holds {}: write files with the same tensors",
                                           path.string(), file.tensors().size(), paths.front().string(),
                                           files_.front().tensors().size()));
    if (const auto labels = file.tensors().find("labels"); labels != file.tensors().end())
      if (at::isFloatingType(labels->second.dtype) != labels_are_numbers())
        throw std::runtime_error(fmt::format(
            "{}: \"labels\" are {}, and those of {} are not: use one kind of labels in all files", path.string(),
            labels_are_numbers() ? "integers" : "floating-point numbers", paths.front().string()));
    begin_.push_back(begin_.back() + rows);
  }
}

std::vector<int64_t> Examples::row_shape(std::string_view name) const {
  if (files_.empty()) return {};
  const auto found = files_.front().tensors().find(name);
  return found == files_.front().tensors().end() ? std::vector<int64_t>() : without_rows(found->second.shape);
}

int64_t Examples::texts() const { return files_.empty() ? 1 : count_texts(get_task(model_), files_.front()); }

bool Examples::labels_are_numbers() const {
  return has_labels() && at::isFloatingType(files_.front().tensors().at("labels").dtype);
}

size_t Examples::get_file(int64_t row) const {
  return static_cast<size_t>(std::ranges::upper_bound(begin_, row) - begin_.begin()) - 1;
}

Batch Examples::read(std::span<const int64_t> rows) const {
  const Task& task = get_task(model_);
  for (const int64_t row : rows) files_[get_file(row)].check_size();
  const std::vector<Form> held =
      forms_in(files_.front(), model_, label_maps_.front(), find_forms(task, model_, labels_are_numbers()));
  std::map<std::string_view, at::Tensor> tensors;
  for (const Form& form : held) {
    std::vector<at::Tensor> values;
    for (const int64_t row : rows) {
      const size_t file = get_file(row);
      values.push_back(converted(files_[file].tensor(form.name)[row - begin_[file]], form,
                                 label_maps_[file]));  // label maps may differ between files
    }
    tensors[form.name] = at::stack(values);
  }
  check_tables(files_.front().path().parent_path().string(), held, tensors, model_);
  Batch batch = to_batch(tensors, held);
  add_item_mask(task, batch);
  if (!batch.labels.defined()) batch.labels = made_labels(task, batch, texts());
  return batch;
}

void Examples::check_labels(double low, double high, bool whole) const {
  for (const SafetensorsFile& file : files_) {
    if (!file.tensors().contains("labels")) continue;
    const at::Tensor labels = file.tensor("labels").to(at::kDouble).flatten();
    const at::Tensor right =
        labels.ge(low).logical_and(labels.le(high)).logical_and(whole ? labels.eq(labels.round()) : labels.isfinite());
    const at::Tensor wrong = labels.masked_select(right.logical_or(labels.eq(kIgnoredTarget)).logical_not());
    if (wrong.numel() == 0) continue;
    throw std::runtime_error(fmt::format("{}: \"labels\" holds {}: write {}, or {} where there is no target",
                                         file.path().string(), wrong[0].item<double>(),
                                         high > 1.0 ? "finite numbers"
                                         : whole    ? "0 or 1"
                                                    : fmt::format("numbers from {} to {}", low, high),
                                         kIgnoredTarget));
  }
}

void Examples::check_ids() const {
  const std::vector<Form> forms = find_forms(get_task(model_), model_, labels_are_numbers());
  bool has_labels = false, has_targets = false;
  for (size_t number = 0; number < files_.size(); ++number) {
    const SafetensorsFile& file = files_[number];
    for (const Form& form : forms_in(file, model_, label_maps_[number], forms)) {
      if (form.values == Form::Values::numbers) continue;
      const at::Tensor stored = file.tensor(form.name);
      if (stored.numel() == 0) continue;
      const bool labels = std::string_view(form.name) == "labels";
      has_labels = has_labels || labels;
      // In chunks, because ids are widened: a narrow type cannot be compared with a number out of its range.
      const int64_t rows = std::max<int64_t>(1, kCheckedIds * stored.size(0) / stored.numel());
      for (const at::Tensor& some : stored.split(rows)) {
        const at::Tensor ids = converted(some, form, label_maps_[number]);
        check_tables(file.path().string(), {form}, {{form.name, ids}}, model_);
        has_targets = has_targets || (labels && ids.ne(kIgnoredTarget).any().item<bool>());
      }
    }
  }
  if (has_labels && !has_targets)
    throw std::runtime_error(
        fmt::format("{}: all labels are {}, which is no target: write the labels to train on",
                    files_.size() == 1 ? files_.front().path().string() : files_.front().path().parent_path().string(),
                    kIgnoredTarget));
}

}  // namespace modular
