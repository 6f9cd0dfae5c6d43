// What a run's folder tells of the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/report/series.h"

namespace modular {

/// Text beside a step: what happened after it, or what the model wrote.
struct Note {
  int64_t step = 0;
  std::string text;
};

/// Seconds of a run by what they were for, over all of its parts, steps that came again included.
struct RunTime {
  double before_steps = 0.0;  // from the start of each part to its first step
  double computing = 0.0;     // steps, but for
  double waiting = 0.0;       // the wait for data in them
  double between = 0.0;       // evaluations, checkpoints and samples, of the parts that have ended
};

struct RunHistory {
  std::filesystem::path folder;
  std::map<std::string, std::string> settings;  // of config.toml by key, as TOML writes them; empty without the file
  std::optional<int64_t> ranks, parameters;     // of the last part
  std::string mesh;
  std::vector<Series> steps;        // each number of the steps, in the order of metrics.jsonl
  std::vector<Series> evaluations;  // val_loss, then the metrics
  std::vector<Note> events;         // resumed parts and rollbacks
  std::vector<Note> samples;
  RunTime time;
  bool has_ended = false;  // its last part has an end
  std::string stopped_by;  // the signal that did that; empty where none

  /// The series of that name, or null.
  const Series* of_steps(const std::string& name) const;
};

/// Reads config.toml and metrics.jsonl. Steps and evaluations that came again, after a rollback or because the run was
/// resumed from before them, replace those that were there. A last line that is being written is left out. Throws
/// DataError with file:line where another one is none of a run, ConfigError where config.toml is no TOML.
RunHistory read_run_history(const std::filesystem::path& folder);

}  // namespace modular
