#include "runtime/train/samples.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "runtime/data/sample_range.h"
#include "runtime/data/token_samples.h"
#include "runtime/model/tasks.h"
#include "runtime/train/images.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

std::vector<std::filesystem::path> paths_of(const std::vector<DataFile>& files) {
  std::vector<std::filesystem::path> paths;
  for (const DataFile& file : files) paths.push_back(file.path);
  return paths;
}

}  // namespace

ExampleSamples::ExampleSamples(const std::vector<DataFile>& files, const ModelConfig& model)
    : examples_(paths_of(files), model) {
  if (examples_.size() == 0) throw DataError("the files of data.paths hold no example: write at least one row");
}

int64_t ExampleSamples::tokens() const {
  int64_t tokens = 0;
  for (const char* name : {"input_ids", "decoder_input_ids"})
    if (const auto shape = examples_.row_shape(name); !shape.empty())
      tokens += std::reduce(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());  // of all texts
  return std::max<int64_t>(tokens, 1);
}

Batch ExampleSamples::read(std::span<const SamplePlace> places, int64_t samples) const {
  std::vector<int64_t> numbers;
  for (const SamplePlace& place : places) numbers.push_back(place.sample);
  numbers.resize(static_cast<size_t>(samples));  // with the first row, which the model can read as well as any
  Batch batch = examples_.read(numbers);
  batch.labels.slice(0, static_cast<int64_t>(places.size())).fill_(kIgnoredTarget);
  return batch;
}

std::unique_ptr<Samples> open_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed) {
  const double part = set.options.held_out_part;
  const auto& files = split == Split::training || part > 0.0 ? set.files.training : set.files.held_out;
  if (files.empty()) return nullptr;
  std::unique_ptr<Samples> samples;
  if (set.has_examples())
    samples = std::make_unique<ExampleSamples>(files, config.network);
  else if (set.has_images())
    samples = std::make_unique<ImageSamples>(files, set.image_classes(), image_shape(config));
  else
    samples = std::make_unique<TokenSamples>(TokenStream(files), config.train.seq_len, vocab_size(config.network),
                                             config.masking(), static_cast<uint64_t>(seed));
  if (part == 0.0) return samples;
  const int64_t count = samples->count(), held_out = held_out_of(count, part);
  if (held_out == 0)
    throw DataError(
        "data.held_out_part: the data is one sample, of which no part can be held out: give more data, or leave it "
        "out");
  if (split == Split::training) return std::make_unique<SampleRange>(std::move(samples), 0, count - held_out);
  return std::make_unique<SampleRange>(std::move(samples), count - held_out, held_out);
}

std::string describe_size(const DataSet& set, const Samples* samples) {
  const int64_t count = samples ? samples->count() : 0;
  if (set.has_examples()) return fmt::format("{} examples", count);
  if (set.has_images()) return fmt::format("{} images", count);
  return fmt::format("{:.1f} M tokens", samples ? static_cast<double>(count * samples->tokens()) * 1e-6 : 0.0);
}

std::string_view target_name(const ModelConfig& model) {
  const Task& task = *find_task(model.entry->task);
  if (task.labels == Task::Labels::each_row) return "row";
  return task.name == "next-item" ? "item" : "token";
}

std::string loss_unit(const ModelConfig& model) {
  const std::string_view target = target_name(model);
  return fmt::format("nats {} {}", target == "item" ? "an" : "a", target);
}

}  // namespace modular
