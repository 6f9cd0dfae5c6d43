// Recommends parallel layouts for a run: estimates all layouts and plans the fastest that fit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"
#include "runtime/advise/step_time.h"
#include "runtime/config/config.h"

namespace modular {

// Cases of Hugging Face's guide "Efficient Training on Multiple GPUs" (transformers' documentation, "Scalability
// strategy"): one node or many, a fast or slow interconnect, and whether the model, or at least its largest layer, fits
// on a device.

struct GuideCase {
  enum class Fit { model, layer, not_even_a_layer };
  Fit fit = Fit::model;  // what fits on one device, including gradients and optimizer state
  bool many_nodes = false;
  bool fast_between = true;            // whether the interconnect is fast
  double model_bytes = 0.0;            // memory to train the model on one device with one row per micro-batch
  double layer_bytes = 0.0;            // memory to train its largest layer
  std::vector<std::string> sentences;  // the guide's advice with this run's numbers
};

/// The interconnect is fast if all devices of a node together send to other nodes at least half as fast as one device
/// sends within the node, so that collectives over all devices are hardly slower than within a node.
GuideCase guide_case(const ModelProfile& model, const Cluster& cluster);

// Ranks all layouts of a cluster by estimated step time.

/// A layout with its estimated memory and step time.
struct Choice {
  Layout layout;
  double rows = 1.0;  // per micro-batch
  MemoryEstimate estimated;
  std::optional<int64_t> planned;  // peak bytes of the fullest rank, as in `modrun plan`
  StepTime time;

  double memory() const { return planned ? static_cast<double>(*planned) : estimated.peak; }
};

/// Estimates a step with a global batch of `batch` rows.
Choice estimate(const ModelProfile& model, const Layout& layout, int64_t batch, const Cluster& cluster,
                PipelineClock& clock);

/// Estimates all layouts of `search`, fitting or not. Sorted by step time; within half a percent, simpler layouts come
/// first.
std::vector<Choice> estimate_all(const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search);

struct Advice {
  ModelProfile model;
  GuideCase guide;
  int64_t tried = 0, fitting = 0, planned = 0;  // numbers of layouts estimated, fitting by estimate, and planned
  std::vector<Choice> choices;                  // best layout of each mesh, fastest first
  std::vector<RunConfig> configs;               // training config of each choice
};

/// Returns the best `top` meshes of the cluster for the run. Throws ConfigError if the config or the cluster is
/// invalid, or if nothing fits, with a suggestion.
Advice advise(const RunConfig& config, const Cluster& cluster, int64_t top);

/// Estimates the config's own mesh, micro-batches, schedule and recomputation on the cluster, whether it fits or not.
Advice assess(const RunConfig& config, const Cluster& cluster);

/// Hours of train.steps steps, and their cost on all devices.
double run_hours(const TrainSection& train, const StepTime& time);
double run_cost(const TrainSection& train, const StepTime& time, const Cluster& cluster);

/// Formats the advice; `format` is "text", "markdown" or "json".
std::string format_report(const Advice& advice, const RunConfig& config, const Cluster& cluster,
                          const std::string& format);

}  // namespace modular
