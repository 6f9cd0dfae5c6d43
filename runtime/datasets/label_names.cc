#include "runtime/datasets/label_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/examples.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/config/config_field.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The labels of all sets by name.
struct NamedLabels {
  std::set<std::string> names;
  std::map<std::string, int64_t> numbers;  // where all sets agree
  bool agree = true;
};

void add_labels(const fs::path& file, int64_t count, NamedLabels& found) {
  const std::map<std::string, int64_t> labels = read_labels(file);
  if (static_cast<int64_t>(labels.size()) > count)
    throw ConfigError(fmt::format("{} names {} labels, and model.config.num_labels is {}: set it to {}", file.string(),
                                  labels.size(), count, labels.size()));
  for (const auto& [name, number] : labels) {
    found.names.insert(name);
    found.agree = found.agree && number < count && found.numbers.emplace(name, number).first->second == number;
  }
}

NamedLabels get_labels(const std::vector<DataSet>& sets, int64_t count) {
  NamedLabels found;
  std::set<fs::path> seen;
  for (const DataSet& set : sets) {
    if (set.has_images()) {
      for (const std::string& name : set.image_classes()) found.names.insert(name);
      found.agree = false;
    }
    if (!set.has_examples()) continue;
    for (const auto* files : {&set.files.training, &set.files.held_out})
      for (const DataFile& file : *files)
        if (const fs::path labels = file.path.parent_path() / kLabelNames;
            seen.insert(labels).second && fs::is_regular_file(labels))
          add_labels(labels, count, found);
  }
  std::set<int64_t> numbers;
  for (const auto& [name, number] : found.numbers) found.agree = found.agree && numbers.insert(number).second;
  return found;
}

/// Whether the head of the weights is the run's, and so has been trained for labels.
bool has_trained_head(const RunConfig& config, const json& keys, int64_t count) {
  constexpr int64_t kLabelsOfTransformers = 2;  // where config.json does not say how many
  const auto names = keys.find("id2label");
  const int64_t stored = names == keys.end() ? kLabelsOfTransformers : static_cast<int64_t>(names->size());
  return !config.model.checkpoint.empty() && config.network.named.empty() && stored == count;
}

}  // namespace

std::string name_labels(RunConfig& config, const std::vector<DataSet>& sets) {
  const LabelTable model = LabelTable::of(config.network);
  if (model.count() == 0) return {};
  const NamedLabels data = get_labels(sets, model.count());
  if (data.names.empty()) return {};
  const auto is_known = [&](const std::string& name) { return model.find_in_any_case(name).has_value(); };
  const bool any_known = std::ranges::any_of(data.names, is_known);
  const bool has_images = std::ranges::any_of(sets, &DataSet::has_images);
  if (has_images && static_cast<int64_t>(data.names.size()) != model.count() &&
      !std::ranges::all_of(data.names, is_known))
    return {};  // an error of check_images()
  if (static_cast<int64_t>(data.names.size()) > model.count())
    throw ConfigError(fmt::format("the sets of data name {} labels, and model.config.num_labels is {}: set it to {}",
                                  data.names.size(), model.count(), data.names.size()));
  NumberedLabels labels = number_labels(data.names, model);
  if (!any_known && data.agree) labels.numbers = data.numbers;  // as they are in the files

  std::vector<std::string> names = model.names();
  for (const std::string& name : labels.others) names[static_cast<size_t>(labels.numbers.at(name))] = name;
  for (const auto& [name, number] : labels.numbers)
    if (!model.has_names() || names[static_cast<size_t>(number)] == fmt::format("LABEL_{}", number))
      names[static_cast<size_t>(number)] = name;
  json keys = json::parse(config.network.other_keys);
  const std::string note =
      has_trained_head(config, keys, model.count()) ? labels_note(labels, model, config.model.checkpoint) : "";
  json by_number = json::object(), by_name = json::object();
  for (size_t number = 0; number < names.size(); ++number)
    by_number[std::to_string(number)] = names[number], by_name[names[number]] = number;
  keys["id2label"] = by_number, keys["label2id"] = by_name;
  config.network.other_keys = keys.dump();
  return note;
}

std::string infer_problem(RunConfig& config, const std::vector<DataSet>& sets) {
  const auto has_real_labels = [&](const DataSet& set) {
    if (!set.has_examples()) return false;
    const auto& files = set.files.training.empty() ? set.files.held_out : set.files.training;
    const SafetensorsFile file(files.front().path, Links::followed);
    const auto labels = file.tensors().find("labels");
    return labels != file.tensors().end() && at::isFloatingType(labels->second.dtype);
  };
  const std::string problem = find_problem(config.network, /*real_labels=*/true);
  if (problem == find_problem(config.network) || std::ranges::none_of(sets, has_real_labels)) return {};
  std::shared_ptr<AnyConfig> changed = config.network.config->clone();
  for (const ConfigField& field : model_fields(*changed)) {
    if (field.path != "model.config.problem_type") continue;
    *std::get<std::optional<std::string>*>(field.value) = problem;
    config.network.config = std::move(changed);
    return fmt::format(
        "labels: they are floating-point numbers, and there are several: model.config.problem_type is {}", problem);
  }
  return {};
}

void take_label_names(RunConfig& config) {
  const fs::path checkpoint = find_checkpoint(config.model.checkpoint);
  const fs::path file = (checkpoint.empty() ? fs::path(config.model.checkpoint) : checkpoint) / "config.json";
  if (!is_there(file)) return;
  const json stored = parse_config_json(read_file(file));
  if (!stored.is_object()) return;
  json keys = json::parse(config.network.other_keys);
  for (const char* key : {"id2label", "label2id"}) {
    keys.erase(key);
    if (const auto found = stored.find(key); found != stored.end()) keys[key] = *found;
  }
  config.network.other_keys = keys.dump();
}

}  // namespace modular
