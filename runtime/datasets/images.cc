#include "runtime/datasets/images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/examples.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using nlohmann::json;

/// Numbers of a preprocessor's config; `otherwise` where it has none.
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

}  // namespace

ImageShape image_shape(const RunConfig& config) {
  const json all = fields_as_json(*config.network.config);
  const json fields = all.value("vision_config", all);
  const json size = fields.value("image_size", json());
  if (!size.is_number_integer())
    throw ConfigError(
        fmt::format("data.format is \"images\", and the config of {} has no image_size that is a number: "
                    "write examples instead (docs/guide/data.md)",
                    config.network.entry->architecture));
  ImageShape shape{.channels = fields.value("num_channels", int64_t{3}), .height = size, .width = size};
  if (shape.channels != 1 && shape.channels != 3)
    throw ConfigError(fmt::format("data.format is \"images\", which have 1 or 3 channels, and num_channels of {} is {}",
                                  config.network.entry->architecture, shape.channels));
  const auto file = std::filesystem::path(config.model.checkpoint) / "preprocessor_config.json";
  if (config.model.checkpoint.empty() || !is_there(file)) return shape;
  const json preprocessor = parse_json(read_file(file));
  if (!preprocessor.is_object()) throw ConfigError(file.string() + ": is no JSON object: restore it");
  shape.mean = to_numbers(preprocessor, file.string(), "image_mean", shape.channels, shape.mean);
  shape.std = to_numbers(preprocessor, file.string(), "image_std", shape.channels, shape.std);
  return shape;
}

std::map<std::string, int64_t> image_labels(const RunConfig& config, const DataSet& set) {
  const LabelTable model = LabelTable::of(config.network);
  const std::vector<std::string> classes = set.image_classes();
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

void check_images(const RunConfig& config, const DataSet& set) {
  if (!set.has_images()) return;
  const Entry& entry = *config.network.entry;
  if (entry.task != std::string_view("image-classification"))
    throw ConfigError(
        fmt::format("data.format is \"images\", folders of classes, and {} is for {}: write examples "
                    "instead (docs/guide/data.md)",
                    entry.architecture, entry.task));
  image_shape(config);
  if (const std::string problem = find_problem(config.network); !problem.empty())
    throw ConfigError(
        fmt::format("the images of data.paths have one class each, and the problem of {} is {}: set "
                    "model.config.problem_type to single_label_classification, and num_labels to at least 2",
                    entry.architecture, problem));
  if (set.options.held_out_part > 0.0)
    throw ConfigError(
        "data.held_out_part would hold out the images of the last classes: set data.held_out_every or data.held_out");
  const auto classes = static_cast<int64_t>(set.image_classes().size());
  const int64_t labels = fields_as_json(*config.network.config).value("num_labels", int64_t{0});
  const bool are_named = LabelTable::of(config.network).has_names() && classes <= labels;
  if (are_named) image_labels(config, set);
  if (labels != classes && !are_named)
    throw ConfigError(
        fmt::format("the images of data.paths are in {} folders, which are classes, and num_labels of the "
                    "model's config is {}: set model.config.num_labels to {}",
                    classes, labels, classes));
}

}  // namespace modular
