// Reads the history of a run from its folder: numbers over its steps, and their downsampling for plots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace modular {

/// Points in ascending order of steps. Infinite values are stored as NaN.
struct Series {
  std::string name;
  std::vector<int64_t> steps;
  std::vector<double> values;  // one per step

  void add(int64_t step, double value);
  /// Removes the points of `step` and later ones.
  void forget_from(int64_t step);
};

/// The part of a series that a plot shows.
struct Thinned {
  Series points;
  Series means;  // mean of each bucket, at its last step; empty if all points are shown
};

/// Downsamples a series to at most `max_points` points (4 or more). If it has more, the points between the first and
/// the last are divided into buckets whose sizes differ by at most one. Each bucket keeps its minimum and maximum, so
/// that spikes of a single step survive, and its first value that is not finite, if any.
Thinned thinned(const Series& series, size_t max_points);

/// Text attached to a step: an event after it, or a generated sample.
struct Note {
  int64_t step = 0;
  std::string text;
};

/// Time breakdown of a run in seconds, over all of its parts, including repeated steps.
struct RunTime {
  double before_steps = 0.0;  // from the start of each part to its first step
  double computing = 0.0;     // steps, excluding `waiting`
  double waiting = 0.0;       // waiting for data during steps
  double between = 0.0;       // evaluations, checkpoints and samples, in parts that have ended
};

struct RunHistory {
  std::filesystem::path folder;
  std::map<std::string, std::string> config;  // config.toml by key, as TOML text; empty if the file is missing
  std::optional<int64_t> ranks, parameters;   // from the last part
  std::string mesh;
  std::vector<Series> steps;        // every number of the steps, in the order of metrics.jsonl
  std::vector<Series> evaluations;  // val_loss, then the metrics
  std::vector<Note> events;         // resumed parts and rollbacks
  std::vector<Note> samples;
  RunTime time;
  bool has_ended = false;  // whether the last part has an end event
  std::string stopped_by;  // signal that stopped the run; empty if none

  /// Returns the series of `steps` named `name`, or null.
  const Series* find_steps(const std::string& name) const;
};

/// Reads config.toml and metrics.jsonl. Repeated steps and evaluations, after a rollback or because the run was resumed
/// from an earlier step, replace earlier ones. An incomplete last line is ignored. Throws DataError with file:line if
/// another line is invalid, ConfigError if config.toml is not valid TOML.
RunHistory read_run_history(const std::filesystem::path& folder);

}  // namespace modular
