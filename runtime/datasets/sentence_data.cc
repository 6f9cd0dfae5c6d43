#include "runtime/datasets/sentence_data.h"

#include <fmt/format.h>

#include <limits>

#include "runtime/datasets/samples.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

bool embeds_sentences(const RunConfig& config) { return find_task(config.network.entry->task)->texts == kAnyTexts; }

}  // namespace

void choose_sentence_loss(RunConfig& config, std::vector<DataSet>& sets) {
  if (!embeds_sentences(config) || !config.sentences.loss.empty()) return;
  for (DataSet& set : sets) {
    const auto& files = set.files.training.empty() ? set.files.held_out : set.files.training;
    if (!set.has_examples() || files.empty()) continue;
    if (set.loss.empty()) {
      const ExampleSamples samples(files, config.network);
      const Examples& examples = samples.examples();
      set.loss = find_sentence_loss({}, examples.texts(), examples.labels_are_numbers()).name;
    }
    // What is written as the run's settings.
    if (set.name.empty()) config.sentences.loss = set.loss;
    for (SetOptions& settings : config.data.sets)
      if (settings.name == set.name) settings.loss = set.loss;
  }
}

SentenceOptions to_sentence_options(const RunConfig& config, const DataSet& set) {
  SentenceOptions options = config.sentences;
  if (!set.loss.empty()) options.loss = set.loss;
  return options;
}

void check_sentence_data(const RunConfig& config, const DataSet& set, const Examples& examples) {
  if (!embeds_sentences(config)) return;
  const int64_t texts = examples.texts();
  const std::string key =
      set.loss.empty() || set.name.empty() ? "sentences.loss" : fmt::format("data.sets.{}.loss", set.name);
  const std::string error = sentence_error(to_sentence_options(config, set), texts, examples.has_labels(),
                                           examples.labels_are_numbers(), key);
  if (!error.empty()) throw ConfigError(error);
  for (const Metric& metric : config.eval_metrics())
    if (metric.kind->of == MetricKind::Of::numbers && (texts != 2 || !examples.has_labels()))
      throw ConfigError(
          fmt::format("eval.metrics has {}, which compares the cosine of two texts with their label, and the examples "
                      "have {}: leave "
                      "it out",
                      metric.name, texts != 2 ? fmt::format("{} texts", texts) : "no labels"));
}

void check_label_values(const RunConfig& config, const DataSet& set, const Examples& examples) {
  const SentenceLoss::Labels labels =
      embeds_sentences(config)
          ? find_sentence_loss(to_sentence_options(config, set), examples.texts(), examples.labels_are_numbers()).labels
          : SentenceLoss::Labels::none;
  if (labels == SentenceLoss::Labels::alike || find_problem(config.network) == "multi_label_classification")
    examples.check_labels(0.0, 1.0, /*whole=*/true);
  else if (labels == SentenceLoss::Labels::scores)
    examples.check_labels(-1.0, 1.0, /*whole=*/false);
  else if (examples.labels_are_numbers())
    examples.check_labels(std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max(), /*whole=*/false);
}

}  // namespace modular
