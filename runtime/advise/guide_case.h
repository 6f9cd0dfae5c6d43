// The case that a model and a cluster are, as Hugging Face's guide "Efficient Training on Multiple GPUs" tells them
// (transformers' documentation, "Scalability strategy"): one node or many, fast or slow between them, and whether the
// model, or at least its largest layer, fits a device.
#pragma once

#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/model_profile.h"

namespace modular {

struct GuideCase {
  enum class Fit { model, layer, not_even_a_layer };
  Fit fit = Fit::model;  // what one device holds, with gradients and the optimizer's state
  bool many_nodes = false;
  bool fast_between = true;            // the lines between nodes
  double model_bytes = 0.0;            // what training needs on one device, a row at a time
  double layer_bytes = 0.0;            // and of its largest layer
  std::vector<std::string> sentences;  // what the guide says to do, with this run's numbers
};

/// Lines between nodes are fast where all devices of a node together send at least half as fast as one of them sends
/// within the node, so that an exchange over the node's devices hardly notices where it goes.
GuideCase guide_case(const ModelProfile& model, const Cluster& cluster);

}  // namespace modular
