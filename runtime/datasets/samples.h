// The samples of a run in any data format.
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

/// Rows of example files.
class ExampleSamples final : public Samples {
 public:
  ExampleSamples(const std::vector<DataFile>& files, const ModelConfig& model);

  /// Reads the lengths of all rows for cut() and length(). `trims`: cut() trims to them. Throws DataError if the files
  /// do not have lengths.
  void measure(bool trims);

  int64_t count() const override { return examples_.size(); }
  int64_t tokens() const override;
  Batch read(std::span<const SamplePosition> positions, int64_t rows) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override;

  const Examples& examples() const { return examples_; }

 private:
  std::vector<std::filesystem::path> paths_;
  Examples examples_;
  bool has_decoder_, trims_ = false;
  std::vector<UnpaddedLength> lengths_;  // of all rows, if measured
};

enum class Split { training, validation };

/// The samples of one split of a set; null if the split is empty. Throws DataError or std::runtime_error if the run's
/// model cannot train on the samples. `seed` decides what is masked.
std::unique_ptr<Samples> open_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed);

/// Opens the samples of a set, and checks that none is longer than the model's positions. Throws as open_samples()
/// does.
std::unique_ptr<Samples> prepare_samples(const RunConfig& config, const DataSet& set, Split split, int64_t seed);

/// The same for each set.
std::vector<std::unique_ptr<Samples>> open_sets(const RunConfig& config, const std::vector<DataSet>& sets, Split split,
                                                int64_t seed);

/// Steps that mix the opened sets.
MixedSource mix(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& samples,
                const BatchShape& shape, int64_t seed, bool by_length);

/// Sizes, e.g. "12.5 M tokens to train on, 0.1 M tokens for validation", preceded by the name of each set if there are
/// several.
std::string describe_sizes(const std::vector<DataSet>& sets, const std::vector<std::unique_ptr<Samples>>& training,
                           const std::vector<std::unique_ptr<Samples>>& validation);

/// Unit of targets: "token", "item", or "row" if a row has one target.
std::string_view target_name(const ModelConfig& model);

/// Unit of the loss: "nats/token".
std::string loss_unit(const ModelConfig& model);

}  // namespace modular
