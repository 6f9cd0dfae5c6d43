#include "runtime/train/samples.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "runtime/data/token_samples.h"
#include "runtime/model/tasks.h"
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

std::unique_ptr<Samples> open_samples(const RunConfig& config, const std::vector<DataFile>& files, int64_t seed) {
  if (files.empty()) return nullptr;
  if (config.data.format == "examples") return std::make_unique<ExampleSamples>(files, config.network);
  return std::make_unique<TokenSamples>(TokenStream(files), config.train.seq_len, vocab_size(config.network),
                                        config.masking(), static_cast<uint64_t>(seed));
}

std::string describe_size(const RunConfig& config, const Samples* samples) {
  const int64_t count = samples ? samples->count() : 0;
  if (config.data.format == "examples") return fmt::format("{} examples", count);
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
