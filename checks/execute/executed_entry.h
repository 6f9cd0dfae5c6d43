// All runs of an entry: its small configs, each on the meshes that it supports.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checks/execute/executed_model.h"
#include "checks/execute/small_configs.h"

namespace modular::execute {

class ExecutedEntry {
 public:
  /// Finds configs and runs each on one process. Throws std::runtime_error if there is none that runs.
  explicit ExecutedEntry(const Entry& entry);

  /// Runs the entry on meshes of simulated ranks, as the spec's class, and from a cache, where it supports that.
  /// Returns the first difference from one process, with the config and the mesh; empty if there is none.
  std::string find_difference();

  /// "LlamaForCausalLM (causal-lm)"
  std::string name() const;
  size_t configs() const { return runs_.size(); }
  /// The number of comparisons so far.
  size_t comparisons() const { return comparisons_; }

 private:
  struct Run {
    std::string config;
    ExecutedModel model;
    std::vector<Division> divisions;
  };

  const Entry& entry_;
  std::vector<Run> runs_;
  size_t comparisons_ = 0;
};

}  // namespace modular::execute
