#include "runtime/datasets/samples.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "runtime/checkpoint/examples.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
#include "runtime/data/hidden_items.h"
#include "runtime/data/sample_range.h"
#include "runtime/data/token_samples.h"
#include "runtime/datasets/images.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/datasets/parquet_samples.h"
#include "runtime/datasets/partitions.h"
#include "runtime/datasets/sentence_data.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {
namespace {

std::vector<std::filesystem::path> get_paths(const std::vector<DataFile>& files) {
  std::vector<std::filesystem::path> paths;
  for (const DataFile& file : files) paths.push_back(file.path);
  return paths;
}

/// Hides items of sessions if the entry predicts hidden items.
std::unique_ptr<Samples> hide_items(std::unique_ptr<Samples> sessions, const RunConfig& config, Split split,
                                    int64_t seed) {
  if (config.network.entry->task != "masked-item") return sessions;
  return std::make_unique<HiddenItems>(
      std::move(sessions), split == Split::training ? std::optional(config.data.mask_probability) : std::nullopt,
      static_cast<uint64_t>(seed));
}

std::unique_ptr<Samples> all_samples(const RunConfig& config, const DataSet& set, const std::vector<DataFile>& files,
                                     Split split, int64_t seed) {
  if (set.has_examples()) {
    auto examples = std::make_unique<ExampleSamples>(files, config.network);
    if (config.data.trim || config.data.group_by_length) examples->measure(config.data.trim);
    const bool has_labels = examples->examples().has_labels();
    return has_labels ? std::move(examples) : hide_items(std::move(examples), config, split, seed);
  }
  if (set.has_parquet()) {
    auto rows = std::make_unique<ParquetSamples>(split == Split::training ? partitioned_files(config, set) : files,
                                                 config.network, split == Split::training ? config.data.partitions : 0);
    const bool has_labels = rows->has_labels();
    return has_labels ? std::move(rows) : hide_items(std::move(rows), config, split, seed);
  }
  if (set.has_images()) return std::make_unique<ImageSamples>(files, image_labels(config, set), image_shape(config));
  std::optional<Packing> packing = config.packing();
  if (packing) packing->first_position = first_position(config.network);
  return std::make_unique<TokenSamples>(TokenStream(files), config.train.seq_len, vocab_size(config.network),
                                        config.masking(), static_cast<uint64_t>(seed), packing);
}

/// The part of the samples that data.validation_fraction assigns to `split`.
std::unique_ptr<Samples> find_part(std::unique_ptr<Samples> all, double part, Split split) {
  const int64_t count = all->count(), validation = count_validation_samples(count, part);
  if (validation == 0)
    throw DataError(
        "data.validation_fraction: the data is a single sample, which cannot be split: give more data, or leave it "
        "out");
  const int64_t first = split == Split::training ? 0 : count - validation;
  return std::make_unique<SampleRange>(std::move(all), first,
                                       split == Split::training ? count - validation : validation);
}

/// "12.5 M tokens", "900 examples" or "900 images".
std::string describe_size(const DataSet& set, const Samples* samples) {
  const int64_t count = samples ? samples->count() : 0;
  if (set.has_examples() || set.has_parquet()) return fmt::format("{} examples", count);
  if (set.has_images()) return fmt::format("{} images", count);
  return fmt::format("{:.1f} M tokens", samples ? static_cast<double>(count * samples->tokens()) * 1e-6 : 0.0);
}

/// Rejects images of a shape that the model does not accept. Only its forward knows which, so it runs on the meta
/// device, without values.
void check_images_in(const ModelConfig& model, const ExampleSamples& examples) {
  const auto image = examples.examples().row_shape("pixel_values");
  if (image.empty()) return;
  const auto ids = examples.examples().row_shape("input_ids");
  Batch batch;
  batch.pixel_values = at::empty({1, image[0], image[1], image[2]}, at::kMeta);
  if (!ids.empty()) batch.input_ids = at::empty({1, ids[0]}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  const at::NoGradGuard no_grad;
  try {
    build_on_meta(*model.entry, *model.config).forward(batch);
  } catch (const ConfigError& error) {
    throw ConfigError(
        fmt::format("the examples of data.paths do not fit {}: {}: write images of that size, or set "
                    "image_size and num_channels of the model's config",
                    model.entry->architecture, error.what()));
  } catch (const c10::Error&) {
    // It asked for values, after the images' check or without one.
  }
}

}  // namespace

ExampleSamples::ExampleSamples(const std::vector<DataFile>& files, const ModelConfig& model)
    : paths_(get_paths(files)), examples_(paths_, model), has_decoder_(model.entry->task == "seq2seq") {
  if (examples_.size() == 0) throw DataError("the files of data.paths have no examples: write at least one row");
}

void ExampleSamples::measure(bool trims) {
  lengths_ = row_lengths(paths_, has_decoder_);
  trims_ = trims;
  if (lengths_.empty())
    throw DataError(
        "data.trim and data.group_by_length need attention_mask, which the files of data.paths do not have: write it, "
        "or leave both out");
}

Batch ExampleSamples::cut(Batch batch, std::span<const int64_t> step) const {
  if (!trims_) return batch;
  UnpaddedLength longest;
  for (const int64_t sample : step) {
    const UnpaddedLength& row = lengths_[static_cast<size_t>(sample)];
    longest = {std::max(longest.input, row.input), std::max(longest.target, row.target)};
  }
  return cut_to(std::move(batch), longest, has_decoder_);
}

int64_t ExampleSamples::length(int64_t sample) const {
  if (lengths_.empty()) return 0;
  const UnpaddedLength& row = lengths_[static_cast<size_t>(sample)];
  return row.input + row.target;
}

int64_t ExampleSamples::tokens() const {
  int64_t tokens = 0;
  for (const char* name : {"input_ids", "decoder_input_ids"})
    if (const auto shape = examples_.row_shape(name); !shape.empty())
      tokens += std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());  // of all texts
  return std::max<int64_t>(tokens, 1);
}

Batch ExampleSamples::read(std::span<const SamplePosition> positions, int64_t samples) const {
  std::vector<int64_t> numbers;
  for (const SamplePosition& position : positions) numbers.push_back(position.sample);
  numbers.resize(static_cast<size_t>(samples));  // pads with the first row, which is valid input
  Batch batch = examples_.read(numbers);
  batch.labels.slice(0, static_cast<int64_t>(positions.size())).fill_(kIgnoredTarget);
  return batch;
}

std::unique_ptr<Samples> open_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed) {
  const double part = set.options.validation_fraction;
  const auto& files = split == Split::training || part > 0.0 ? set.files.training : set.files.validation;
  if (files.empty()) return nullptr;
  try {
    auto samples = all_samples(config, set, files, split, seed);
    return part > 0.0 ? find_part(std::move(samples), part, split) : std::move(samples);
  } catch (const DataError& error) {
    if (set.name.empty()) throw;
    throw DataError(fmt::format("data.sets.{}: {}", set.name, error.what()));
  }
}

std::vector<std::unique_ptr<Samples>> open_sets(const RunConfig& config, const std::vector<DataSet>& sets, Split split,
                                                int64_t seed) {
  std::vector<std::unique_ptr<Samples>> opened;
  for (const DataSet& set : sets) opened.push_back(open_samples(config, set, split, seed));
  return opened;
}

MixedSource mix(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& samples,
                const BatchShape& shape, int64_t seed, bool by_length) {
  std::vector<MixedSource::Set> mixed;
  for (size_t set = 0; set < sets.size(); ++set) mixed.push_back({samples[set].get(), sets[set].weight});
  return {mixed, shape, static_cast<uint64_t>(seed), by_length};
}

std::string describe_sizes(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& training,
                           const std::vector<std::unique_ptr<Samples>>& validation) {
  std::string text;
  for (size_t set = 0; set < sets.size(); ++set)
    text += fmt::format("{}{}{} to train on, {} for validation", text.empty() ? "" : "; ",
                        sets[set].name.empty() ? "" : sets[set].name + " with ",
                        describe_size(sets[set], training[set].get()), describe_size(sets[set], validation[set].get()));
  return text;
}

std::string_view target_name(const ModelConfig& model) {
  const Task& task = *find_task(model.entry->task);
  if (task.labels == Task::Labels::each_row) return "row";
  return is_of_sessions(task) ? "item" : "token";
}

std::string loss_unit(const ModelConfig& model) {
  const std::string_view target = target_name(model);
  return fmt::format("nats/{}", target);
}

std::unique_ptr<Samples> prepare_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed) {
  check_images(config, set);
  auto samples = open_samples(config, set, split, seed);
  if (!samples || !set.has_examples()) return samples;
  const ExampleSamples examples(
      split == Split::validation && !set.files.validation.empty() ? set.files.validation : set.files.training,
      config.network);
  const auto shape = examples.examples().row_shape("input_ids");
  const auto longest = longest_sequence(config.network);
  if (!shape.empty() && longest && shape.back() > *longest)
    throw ConfigError(fmt::format("the examples of data.paths have {} tokens, and {} has positions for {}: {}",
                                  shape.back(), config.network.entry->architecture, *longest,
                                  advice_on_positions(config)));
  check_images_in(config.network, examples);
  check_sentence_data(config, set, examples.examples());
  return samples;
}

}  // namespace modular
