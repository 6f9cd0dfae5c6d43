#include "runtime/datasets/run_datasets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "runtime/data/model_inputs.h"
#include "runtime/data/sample_order.h"
#include "runtime/datasets/inferred_config.h"
#include "runtime/datasets/partitions.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

RunDataset find_set(const RunConfig& config, const SetOptions& options, bool trains) {
  RunDataset set{options.name, options.weight, options.loss, config.data, {}};
  set.options.paths = options.paths;
  set.options.format = options.format.value_or(config.data.format);
  try {
    set.files = find_data_files(set.options, {.validation = false, .training = trains, .separate_validation = false});
  } catch (const DataError& error) {
    throw DataError(fmt::format("data.sets.{}: {}", set.name, error.what()));
  }
  return set;
}

void check_training_on_validation(const std::vector<RunDataset>& sets) {
  std::map<fs::path, std::string> validation;
  for (const RunDataset& set : sets)
    for (const DataFile& file : set.files.validation) validation.emplace(file.path, set.name);
  for (const RunDataset& set : sets)
    for (const DataFile& file : set.files.training)
      if (const auto found = validation.find(file.path); found != validation.end())
        throw DataError(fmt::format(
            "{}: data.sets.{} trains on it and data.sets.{} validates on it: make it a validation file of both",
            file.path.string(), set.name, found->second));
}

/// The part of the samples that data.validation_fraction assigns to `split`.
std::unique_ptr<Dataset> find_part(std::unique_ptr<Dataset> all, double part, Split split) {
  const int64_t count = all->count(), validation = count_validation_samples(count, part);
  if (validation == 0)
    throw DataError(
        "data.validation_fraction: the data is a single sample, which cannot be split: give more data, or leave it "
        "out");
  const int64_t first = split == Split::training ? 0 : count - validation;
  return std::make_unique<SampleRange>(std::move(all), first,
                                       split == Split::training ? count - validation : validation);
}

}  // namespace

std::vector<RunDataset> find_data_sets(const RunConfig& config, bool trains) {
  if (config.data.sets.empty()) return {{{}, 1.0, {}, config.data, find_data_files(config.data, {.training = trains})}};
  std::vector<RunDataset> sets;
  for (const SetOptions& options : config.data.sets) sets.push_back(find_set(config, options, trains));
  const bool asked = config.data.validation_every > 0 || !config.data.validation.empty();
  if (asked && std::ranges::none_of(sets, &RunDataset::has_validation))
    throw DataError(
        "data.validation: no set has validation files: the patterns match none, or there are fewer than "
        "data.validation_every files");
  check_training_on_validation(sets);
  return sets;
}

DataFiles get_files(const std::vector<RunDataset>& sets) {
  DataFiles all;
  std::set<fs::path> seen;
  const auto add = [&](const std::vector<DataFile>& files, std::vector<DataFile>& to) {
    for (const DataFile& file : files)
      if (seen.insert(file.path).second) to.push_back(file);
  };
  for (const RunDataset& set : sets) add(set.files.training, all.training), add(set.files.validation, all.validation);
  return all;
}

DatasetRequest make_request(const RunConfig& config, Split split) {
  return {.model = config.network,
          .options = config.data,
          .split = split,
          .seq_len = config.train.seq_len,
          .seed = split == Split::training ? config.train.seed : 0,
          .checkpoint = config.model.checkpoint};
}

std::unique_ptr<Dataset> open_split(const RunConfig& config, const RunDataset& set, Split split) {
  const double part = set.options.validation_fraction;
  const bool of_training = split == Split::training || part > 0.0;
  DatasetRequest request = make_request(config, split);
  request.files = of_training ? set.files.training : set.files.validation;
  request.other_files = of_training ? set.files.validation : set.files.training;
  if (request.files.empty()) return nullptr;
  try {
    if (split == Split::training) request.files = partitioned_files(config, set);
    auto dataset = set.format().open(request);
    return part > 0.0 ? find_part(std::move(dataset), part, split) : std::move(dataset);
  } catch (const DataError& error) {
    if (set.name.empty()) throw;
    throw DataError(fmt::format("data.sets.{}: {}", set.name, error.what()));
  }
}

void open_datasets(const RunConfig& config, std::vector<RunDataset>& sets, bool trains) {
  for (RunDataset& set : sets) {
    if (trains) set.training = open_split(config, set, Split::training);
    set.validation = open_split(config, set, Split::validation);
  }
}

std::vector<RunDataset> open_training_data(const RunConfig& config) {
  std::vector<RunDataset> sets = find_data_sets(config);
  for (RunDataset& set : sets) {
    set.training = open_split(config, set, Split::training);
    check_sentence_data(config, set);
  }
  return sets;
}

void validate_datasets(const RunConfig& config, const std::vector<RunDataset>& sets) {
  for (const RunDataset& set : sets) {
    const bool share_files = set.training && set.options.validation_fraction > 0.0;
    for (const Dataset* dataset : {set.training.get(), share_files ? nullptr : set.validation.get()}) {
      if (!dataset) continue;
      dataset->validate();
      if (const Examples* const examples = dataset->examples()) check_label_values(config, set, *examples);
    }
  }
}

MixedSource mix(const std::vector<RunDataset>& sets, const BatchShape& shape, int64_t seed, bool by_length) {
  std::vector<MixedSource::Set> mixed;
  for (const RunDataset& set : sets) mixed.push_back({set.training.get(), set.weight});
  return {mixed, shape, static_cast<uint64_t>(seed), by_length};
}

std::string describe_sizes(const std::vector<RunDataset>& sets) {
  std::string text;
  for (const RunDataset& set : sets)
    text += fmt::format("{}{}{} to train on, {} for validation", text.empty() ? "" : "; ",
                        set.name.empty() ? "" : set.name + " with ", set.format().describe(set.training.get()),
                        set.format().describe(set.validation.get()));
  return text;
}

std::string_view target_name(const ModelConfig& model) {
  const Task& task = *find_task(model.entry->task);
  if (task.labels == Task::Labels::each_row) return "row";
  return is_of_sessions(task) ? "item" : "token";
}

std::string loss_unit(const ModelConfig& model) { return fmt::format("nats/{}", target_name(model)); }

}  // namespace modular
