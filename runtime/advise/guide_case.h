// Cases of Hugging Face's guide "Efficient Training on Multiple GPUs" (transformers' documentation, "Scalability
// strategy"): one node or many, a fast or slow interconnect, and whether the model, or at least its largest layer, fits
// on a device.
#pragma once

#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/model_profile.h"

namespace modular {

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

}  // namespace modular
