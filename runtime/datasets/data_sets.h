// The data sets of a run: their files, found and split into training and validation files.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/files.h"

namespace modular {

struct DataSet {
  std::string name;  // key in data.sets; empty for the set of data.paths
  double weight = 1.0;
  std::string loss;  // loss of sentence embeddings, if the set has its own
  DataOptions options;
  DataFiles files;  // with data.validation_fraction all are training files, whose last samples are the validation set

  bool has_validation() const { return options.validation_fraction > 0.0 || !files.validation.empty(); }
  bool has_examples() const { return options.format == "examples"; }
  bool has_parquet() const { return options.format == "parquet"; }
  bool has_images() const { return options.format == "images"; }
  /// Class names over all files, training and validation.
  std::vector<std::string> image_classes() const;
};

/// The sets of data.sets, or the single set of data.paths. Unless `trains`, only the validation files matter. Throws
/// DataError as find_data_files does, and if a file is in the training files of one set and the validation files of
/// another.
std::vector<DataSet> find_data_sets(const RunConfig& config, bool trains = true);

/// The files of all sets, without duplicates.
DataFiles get_files(const std::vector<DataSet>& sets);

}  // namespace modular
