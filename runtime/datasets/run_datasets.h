// The data sets of a run: found, split into training and validation, opened once, and handed to the loop that reads
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/batches.h"
#include "runtime/data/data_formats.h"

namespace modular {

struct RunDataset {
  std::string name;  // key in data.sets; empty for the set of data.paths
  double weight = 1.0;
  std::string loss;  // loss of sentence embeddings, if the set has its own
  DataOptions options;
  DataFiles files;  // with data.validation_fraction all are training files, whose last samples are the validation set
  std::shared_ptr<const Dataset> training{}, validation{};  // once opened; null for an empty split

  const DataFormat& format() const { return *find_data_format(options.format); }
  bool has_validation() const { return options.validation_fraction > 0.0 || !files.validation.empty(); }
};

/// The sets of data.sets, or the single set of data.paths. Unless `trains`, only the validation files matter. Throws
/// DataError as find_data_files does, and if a file is in the training files of one set and the validation files of
/// another.
std::vector<RunDataset> find_data_sets(const RunConfig& config, bool trains = true);

/// The files of all sets, without duplicates.
DataFiles get_files(const std::vector<RunDataset>& sets);

/// Describes a split without its files.
DatasetRequest make_request(const RunConfig& config, Split split);

/// Opens a split of a set; null if it is empty. Throws as DataFormat::open does, and DataError if
/// data.validation_fraction cannot split the samples.
std::unique_ptr<Dataset> open_split(const RunConfig& config, const RunDataset& set, Split split);

/// Opens both splits of each set; unless `trains`, only the validation split. Throws as open_split() does.
void open_datasets(const RunConfig& config, std::vector<RunDataset>& sets, bool trains = true);

/// For commands that do not train: finds the sets, opens their training splits, and checks these as a run would.
std::vector<RunDataset> open_training_data(const RunConfig& config);

/// Throws DataError, ConfigError or std::runtime_error if a value of the opened splits is out of range for the model or
/// the loss: Dataset::validate(), and labels of sentences. Called once per job.
void validate_datasets(const RunConfig& config, const std::vector<RunDataset>& sets);

/// Steps that mix the training splits.
MixedSource mix(const std::vector<RunDataset>& sets, const BatchShape& shape, int64_t seed, bool by_length);

/// Sizes, e.g. "12.5 M tokens to train on, 0.1 M tokens for validation", preceded by the name of each set if there are
/// several.
std::string describe_sizes(const std::vector<RunDataset>& sets);

/// Unit of targets: "token", "item", or "row" if a row has one target.
std::string_view target_name(const ModelConfig& model);

/// Unit of the loss: "nats/token".
std::string loss_unit(const ModelConfig& model);

}  // namespace modular
