#include "runtime/data/image_dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <ranges>
#include <set>
#include <thread>
#include <utility>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/data/data_formats.h"
#include "runtime/data/model_inputs.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using nlohmann::json;

/// Numbers in a preprocessor's config; `otherwise` if the key is missing.
std::vector<double> to_numbers(const json& preprocessor, const std::string& file, const char* key, int64_t channels,
                               std::vector<double> otherwise) {
  if (!preprocessor.contains(key)) return otherwise;
  const json& given = preprocessor[key];
  std::vector<double> numbers;
  if (given.is_array())
    for (const json& one : given)
      if (one.is_number()) numbers.push_back(one.get<double>());
  if (given.is_number()) numbers = {given.get<double>()};
  if (numbers.size() != 1 && static_cast<int64_t>(numbers.size()) != channels)
    throw ConfigError(
        fmt::format("{}: {} is {}: write a number, or one for each of {} channels", file, key, given.dump(), channels));
  return numbers;
}

std::string get_class(const DataFile& file) { return file.path.parent_path().filename().string(); }

/// [channels, 1, 1]
at::Tensor by_channel(const std::vector<double>& values, int64_t channels) {
  return at::tensor(values, at::kFloat).expand({channels}).view({channels, 1, 1});
}

/// Size from the model's config, with mean and standard deviation from preprocessor_config.json of the weights, or 0.5
/// without that file. Throws ConfigError if the config or the file lacks a value.
ImageShape find_image_shape(const DatasetRequest& request) {
  const json all = fields_as_json(*request.model.config);
  const json fields = all.value("vision_config", all);
  const json size = fields.value("image_size", json());
  if (!size.is_number_integer())
    throw ConfigError(
        fmt::format("data.format is \"images\", and the config of {} has no image_size that is a number: "
                    "write examples instead (docs/guide/data.md)",
                    request.model.entry->architecture));
  ImageShape shape{.channels = fields.value("num_channels", int64_t{3}), .height = size, .width = size};
  if (shape.channels != 1 && shape.channels != 3)
    throw ConfigError(fmt::format("data.format is \"images\", which have 1 or 3 channels, and num_channels of {} is {}",
                                  request.model.entry->architecture, shape.channels));
  const auto file = std::filesystem::path(request.checkpoint) / "preprocessor_config.json";
  if (request.checkpoint.empty() || !is_there(file)) return shape;
  const json preprocessor = parse_json(read_file(file));
  if (!preprocessor.is_object()) throw ConfigError(file.string() + ": is not a JSON object: restore it");
  shape.mean = to_numbers(preprocessor, file.string(), "image_mean", shape.channels, shape.mean);
  shape.std = to_numbers(preprocessor, file.string(), "image_std", shape.channels, shape.std);
  return shape;
}

/// Label of each class: the model's id for the folder's name or, if the model's labels are unnamed, the folder's index
/// in sorted order. Throws ConfigError if the model names its labels and a class is not among them.
std::map<std::string, int64_t> number_classes(const ModelConfig& network, const std::vector<std::string>& classes) {
  const LabelTable model = LabelTable::of(network);
  if (!model.has_names()) return number_labels({classes.begin(), classes.end()}, model).numbers;
  std::map<std::string, int64_t> labels;
  for (const std::string& name : classes) {
    const auto number = model.find_in_any_case(name);
    if (!number)
      throw ConfigError(
          fmt::format("the images of data.paths have a folder {}, which is not a label of the model: it "
                      "has {}",
                      name, fmt::join(model.names(), ", ")));
    labels[name] = *number;
  }
  return labels;
}

/// Throws ConfigError if the entry is not a classifier with that many classes.
void check_classifier(const DatasetRequest& request, const std::vector<std::string>& names) {
  const Entry& entry = *request.model.entry;
  if (entry.task != std::string_view("image-classification"))
    throw ConfigError(
        fmt::format("data.format is \"images\", folders of classes, and {} is for {}: write examples "
                    "instead (docs/guide/data.md)",
                    entry.architecture, entry.task));
  find_image_shape(request);
  if (const std::string problem = find_problem(request.model); !problem.empty())
    throw ConfigError(
        fmt::format("the images of data.paths have one class each, and the problem of {} is {}: set "
                    "model.config.problem_type to single_label_classification, and num_labels to at least 2",
                    entry.architecture, problem));
  if (request.options.validation_fraction > 0.0)
    throw ConfigError(
        "data.validation_fraction would hold out the images of the last classes: set data.validation_every or "
        "data.validation");
  const auto classes = static_cast<int64_t>(names.size());
  const int64_t labels = fields_as_json(*request.model.config).value("num_labels", int64_t{0});
  const bool are_named = LabelTable::of(request.model).has_names() && classes <= labels;
  if (are_named) number_classes(request.model, names);
  if (labels != classes && !are_named)
    throw ConfigError(
        fmt::format("the images of data.paths are in {} folders, which are classes, and num_labels of the "
                    "model's config is {}: set model.config.num_labels to {}",
                    classes, labels, classes));
}

std::unique_ptr<Dataset> open_images(const DatasetRequest& request) {
  std::vector<DataFile> all = request.files;
  all.insert(all.end(), request.other_files.begin(), request.other_files.end());
  const std::vector<std::string> classes = image_classes(all);
  check_classifier(request, classes);
  return std::make_unique<ImageDataset>(request.files, number_classes(request.model, classes),
                                        find_image_shape(request));
}

Batch make_blank_images(const DatasetRequest& request, int64_t samples) {
  const ImageShape shape = find_image_shape(request);
  Batch batch;
  batch.pixel_values = at::zeros({samples, shape.channels, shape.height, shape.width});
  batch.labels = at::zeros({samples}, at::kLong);
  return batch;
}

std::string describe_images(const Dataset* dataset) { return fmt::format("{} images", dataset ? dataset->count() : 0); }

}  // namespace

const DataFormat kImagesFormat = {.name = "images",
                                  .holds_samples = true,
                                  .label_names = LabelNames::folders,
                                  .is_data = is_image_name,
                                  .open = open_images,
                                  .make_blank = make_blank_images,
                                  .describe = describe_images};

std::vector<std::string> image_classes(const std::vector<DataFile>& files) {
  std::set<std::string> names;
  for (const DataFile& file : files) names.insert(get_class(file));
  return {names.begin(), names.end()};
}

ImageDataset::ImageDataset(std::vector<DataFile> files, const std::map<std::string, int64_t>& classes, ImageShape shape)
    : files_(std::move(files)), shape_(std::move(shape)) {
  for (const DataFile& file : files_) {
    const auto found = classes.find(get_class(file));
    if (found == classes.end())
      throw DataError(fmt::format("{}: its folder is not one of the classes {}", file.path.string(),
                                  fmt::join(std::views::keys(classes), ", ")));
    labels_.push_back(found->second);
  }
}

at::Tensor ImageDataset::image(int64_t number) const {
  const DataFile& file = files_[static_cast<size_t>(number)];
  if (std::error_code error; static_cast<int64_t>(std::filesystem::file_size(file.path, error)) != file.bytes)
    throw DataError(fmt::format("{} has changed since the run began: restore it", file.path.string()));
  const at::Tensor pixels = resized(read_image(file.path, shape_.channels), shape_.height, shape_.width);
  return (pixels.to(at::kFloat) / 255.0 - by_channel(shape_.mean, shape_.channels)) /
         by_channel(shape_.std, shape_.channels);
}

Batch ImageDataset::read(std::span<const SamplePosition> positions, int64_t samples) const {
  Batch batch;
  batch.pixel_values = at::zeros({samples, shape_.channels, shape_.height, shape_.width});
  batch.labels = at::full({samples}, kIgnoredTarget, at::kLong);
  const size_t count =
      std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 1, std::max<size_t>(positions.size(), 1));
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < count; ++thread)
      threads.emplace_back([&, thread] {
        try {
          const at::NoGradGuard no_grad;
          for (size_t row = thread; row < positions.size(); row += count)
            batch.pixel_values[static_cast<int64_t>(row)].copy_(image(positions[row].sample));
        } catch (...) {
          errors[thread] = std::current_exception();
        }
      });
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  for (size_t row = 0; row < positions.size(); ++row)
    batch.labels[static_cast<int64_t>(row)] = labels_[static_cast<size_t>(positions[row].sample)];
  return batch;
}

}  // namespace modular
