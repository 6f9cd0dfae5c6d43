// The samples of a run, whatever the format of its files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/examples.h"
#include "runtime/config/config.h"
#include "runtime/data/mixed_source.h"
#include "runtime/data/samples.h"
#include "runtime/datasets/data_sets.h"
#include "runtime/datasets/row_lengths.h"

namespace modular {

/// Rows of files of examples.
class ExampleSamples final : public Samples {
 public:
  ExampleSamples(const std::vector<DataFile>& files, const ModelConfig& model);

  /// Reads how long all rows are, which cut() and length() then go by; `trims`: cut() does so. Throws DataError where
  /// the files do not say it.
  void measure(bool trims);

  int64_t count() const override { return examples_.size(); }
  int64_t tokens() const override;
  Batch read(std::span<const SamplePosition> places, int64_t rows) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override;

  const Examples& examples() const { return examples_; }

 private:
  std::vector<std::filesystem::path> paths_;
  Examples examples_;
  bool has_decoder_, trims_ = false;
  std::vector<UnpaddedLength> lengths_;  // of all rows, where they were measured
};

enum class Split { training, held_out };

/// What the run reads of a set for training, or of what the set holds out: null where there is none. Throws DataError
/// or std::runtime_error where the set holds nothing that the run's model can learn from. `seed`
/// decides what is masked.
std::unique_ptr<Samples> open_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed);

/// Opens the samples of a set, and checks that none is longer than the model's positions. Throws as open_samples()
/// does.
std::unique_ptr<Samples> prepare_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed);

/// The same of each set.
std::vector<std::unique_ptr<Samples>> open_sets(const RunConfig& config, const std::vector<DataSet>& sets, Split split,
                                                int64_t seed);

/// Steps of the sets, which were opened.
MixedSource mix(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& samples,
                const BatchShape& shape, int64_t seed, bool by_length);

/// How much there is, e.g. "12.5 M tokens to train on, 0.1 M tokens held out", of each of several sets by its name.
std::string describe_sizes(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& training,
                           const std::vector<std::unique_ptr<Samples>>& held_out);

/// What the loss is counted by: "token", "item", or "row" where a row has one target.
std::string_view target_name(const ModelConfig& model);

/// The unit of the loss: "nats/token".
std::string loss_unit(const ModelConfig& model);

}  // namespace modular
