// The sets of data that a run reads: their files, found and divided into what it learns from and what is held out.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/files.h"

namespace modular {

struct DataSet {
  std::string name;  // of data.sets; empty for that of data.paths
  double weight = 1.0;
  std::string loss;  // of sentence embeddings, where the set has its own
  DataOptions options;
  DataFiles files;  // with data.held_out_part all are training files, whose last samples are held out

  bool holds_out() const { return options.held_out_part > 0.0 || !files.held_out.empty(); }
  bool has_examples() const { return options.format == "examples"; }
  bool has_parquet() const { return options.format == "parquet"; }
  bool has_images() const { return options.format == "images"; }
  /// Of all of its files, held out or not.
  std::vector<std::string> image_classes() const;
};

/// The sets of data.sets, or that of data.paths; only what is held out matters where nothing `trains` on them. Throws
/// DataError as find_data_files does, and where a file that one set learns from is held out of another.
std::vector<DataSet> find_data_sets(const RunConfig& config, bool trains = true);

/// The files of all sets, each once.
DataFiles get_files(const std::vector<DataSet>& sets);

}  // namespace modular
