// Reads the history of a run from its folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/report/series.h"

namespace modular {

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
  std::vector<Series> evaluations;  // held_out_loss, then the metrics
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
