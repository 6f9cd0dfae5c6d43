#include "runtime/train/label_names.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/parallel/config_integers.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The labels of prepared data by name, and which file says so; null where no data has named ones.
struct NamedLabels {
  fs::path file;
  json labels;
};

NamedLabels labels_of_data(const RunConfig& config) {
  NamedLabels found;
  for (const fs::path path : config.data.paths)
    for (const fs::path& file : {path / kLabelNames, path.parent_path() / kLabelNames}) {
      if (!fs::is_regular_file(file)) continue;
      json labels = parse_json(read_file(file, kMostTextBytes, Links::followed));
      if (!labels.is_object()) throw ConfigError(fmt::format("{} is no JSON object: prepare it again", file.string()));
      if (!found.labels.is_null() && found.labels != labels)
        throw ConfigError(fmt::format("{} and {} number labels in two ways: prepare data in which both have all labels",
                                      found.file.string(), file.string()));
      found = {file, std::move(labels)};
      break;
    }
  return found;
}

}  // namespace

void name_labels(RunConfig& config) {
  const auto [file, labels] = labels_of_data(config);
  if (labels.is_null()) return;
  const ConfigIntegers integers = config_integers(*config.network.config);
  const auto count = integers.find("num_labels");
  if (count == integers.end()) return;
  if (static_cast<int64_t>(labels.size()) > count->second)
    throw ConfigError(fmt::format("{} names {} labels, and model.config.num_labels is {}: set it to {}", file.string(),
                                  labels.size(), count->second, labels.size()));
  json names = json::object(), numbers = labels;
  for (int64_t label = 0; label < count->second; ++label) names[std::to_string(label)] = fmt::format("LABEL_{}", label);
  for (const auto& [name, number] : labels.items()) names[number.dump()] = name;
  for (const auto& [number, name] : names.items()) numbers[name.get<std::string>()] = parse_json(number);
  json others = json::parse(config.network.other_keys);
  others["id2label"] = names, others["label2id"] = numbers;
  config.network.other_keys = others.dump();
}

}  // namespace modular
