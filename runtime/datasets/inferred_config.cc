#include "runtime/datasets/inferred_config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/label_table.h"
#include "runtime/config/config_field.h"
#include "runtime/data/examples.h"
#include "runtime/data/model_inputs.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Labels of all sets by name.
struct NamedLabels {
  std::set<std::string> names;
  std::map<std::string, int64_t> numbers;  // meaningful while all sets agree
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

NamedLabels get_labels(const std::vector<RunDataset>& sets, int64_t count) {
  NamedLabels found;
  std::set<fs::path> seen;
  for (const RunDataset& set : sets) {
    const LabelNames source = set.format().label_names;
    if (source == LabelNames::none) continue;
    found.agree = found.agree && source != LabelNames::folders;
    for (const auto* files : {&set.files.training, &set.files.validation})
      for (const DataFile& file : *files) {
        const fs::path folder = file.path.parent_path(), labels = folder / kLabelNames;
        if (source == LabelNames::folders)
          found.names.insert(folder.filename().string());
        else if (seen.insert(labels).second && fs::is_regular_file(labels))
          add_labels(labels, count, found);
      }
  }
  std::set<int64_t> numbers;
  for (const auto& [name, number] : found.numbers) found.agree = found.agree && numbers.insert(number).second;
  return found;
}

/// Whether the weights' head is used by the run, and hence trained on labels.
bool has_trained_head(const RunConfig& config, const json& keys, int64_t count) {
  constexpr int64_t kLabelsOfTransformers = 2;  // default of num_labels
  const auto names = keys.find("id2label");
  const int64_t stored = names == keys.end() ? kLabelsOfTransformers : static_cast<int64_t>(names->size());
  return !config.model.checkpoint.empty() && config.network.named.empty() && stored == count;
}

bool embeds_sentences(const RunConfig& config) { return find_task(config.network.entry->task)->texts == kAnyTexts; }

}  // namespace

std::string name_labels(RunConfig& config, const std::vector<RunDataset>& sets) {
  const LabelTable model = LabelTable::of(config.network);
  if (model.count() == 0) return {};
  const NamedLabels data = get_labels(sets, model.count());
  if (data.names.empty()) return {};
  const auto is_known = [&](const std::string& name) { return model.find_in_any_case(name).has_value(); };
  const bool any_known = std::ranges::any_of(data.names, is_known);
  const auto has_folders = [](const RunDataset& set) { return set.format().label_names == LabelNames::folders; };
  if (std::ranges::any_of(sets, has_folders) && static_cast<int64_t>(data.names.size()) != model.count() &&
      !std::ranges::all_of(data.names, is_known))
    return {};  // reported when the images are opened
  if (static_cast<int64_t>(data.names.size()) > model.count())
    throw ConfigError(fmt::format("the sets of data name {} labels, and model.config.num_labels is {}: set it to {}",
                                  data.names.size(), model.count(), data.names.size()));
  NumberedLabels labels = number_labels(data.names, model);
  if (!any_known && data.agree) labels.numbers = data.numbers;  // as in the files

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

std::string infer_problem(RunConfig& config, const std::vector<RunDataset>& sets) {
  const auto has_real_labels = [&](const RunDataset& set) {
    const auto& files = set.files.training.empty() ? set.files.validation : set.files.training;
    return set.format().has_real_labels && set.format().has_real_labels(files.front());
  };
  const std::string problem = find_problem(config.network, /*real_labels=*/true);
  if (problem == find_problem(config.network) || std::ranges::none_of(sets, has_real_labels)) return {};
  std::shared_ptr<AnyConfig> changed = config.network.config->clone();
  for (const ConfigField& field : model_fields(*changed)) {
    if (field.path != "model.config.problem_type") continue;
    *std::get<std::optional<std::string>*>(field.value) = problem;
    config.network.config = std::move(changed);
    return fmt::format("labels are several floating-point numbers: model.config.problem_type is {}", problem);
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

bool needs_sentence_loss(const RunConfig& config) { return embeds_sentences(config) && config.sentences.loss.empty(); }

void choose_sentence_loss(RunConfig& config, std::vector<RunDataset>& sets) {
  if (!needs_sentence_loss(config)) return;
  for (RunDataset& set : sets) {
    const Dataset* const dataset = set.training ? set.training.get() : set.validation.get();
    const Examples* const examples = dataset ? dataset->examples() : nullptr;
    if (!examples) continue;
    if (set.loss.empty()) set.loss = find_sentence_loss({}, examples->texts(), examples->labels_are_numbers()).name;
    // The config that is written with the run.
    if (set.name.empty()) config.sentences.loss = set.loss;
    for (SetOptions& options : config.data.sets)
      if (options.name == set.name) options.loss = set.loss;
  }
}

SentenceOptions to_sentence_options(const SentencesSection& sentences, const RunDataset& set) {
  SentenceOptions options = sentences;
  if (!set.loss.empty()) options.loss = set.loss;
  return options;
}

namespace {

/// Throws ConfigError if examples of the set do not fit its loss or a metric of the config.
void check_sentence_examples(const RunConfig& config, const RunDataset& set, const Examples& examples) {
  const int64_t texts = examples.texts();
  const std::string key =
      set.loss.empty() || set.name.empty() ? "sentences.loss" : fmt::format("data.sets.{}.loss", set.name);
  const std::string error = sentence_error(to_sentence_options(config.sentences, set), texts, examples.has_labels(),
                                           examples.labels_are_numbers(), key);
  if (!error.empty()) throw ConfigError(error);
  for (const Metric& metric : config.eval_metrics())
    if (metric.kind->of == MetricKind::Of::numbers && (texts != 2 || !examples.has_labels()))
      throw ConfigError(
          fmt::format("eval.metrics has {}, which compares the cosine of two texts with a label, and the examples have "
                      "{}: leave it out",
                      metric.name, texts != 2 ? fmt::format("{} texts", texts) : "no labels"));
}

}  // namespace

void check_sentence_data(const RunConfig& config, const RunDataset& set) {
  if (!embeds_sentences(config)) return;
  for (const auto& dataset : {set.training, set.validation})
    if (const Examples* const examples = dataset ? dataset->examples() : nullptr)
      check_sentence_examples(config, set, *examples);
}

void check_label_values(const RunConfig& config, const RunDataset& set, const Examples& examples) {
  const SentenceLoss::Labels labels = embeds_sentences(config)
                                          ? find_sentence_loss(to_sentence_options(config.sentences, set),
                                                               examples.texts(), examples.labels_are_numbers())
                                                .labels
                                          : SentenceLoss::Labels::none;
  if (labels == SentenceLoss::Labels::alike || find_problem(config.network) == "multi_label_classification")
    examples.check_labels(0.0, 1.0, /*whole=*/true);
  else if (labels == SentenceLoss::Labels::scores)
    examples.check_labels(-1.0, 1.0, /*whole=*/false);
  else if (examples.labels_are_numbers())
    examples.check_labels(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max(), /*whole=*/false);
}

}  // namespace modular
