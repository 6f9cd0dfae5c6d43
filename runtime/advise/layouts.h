// All layouts that a run could have on a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"

namespace modular {

struct LayoutSearch {
  int64_t rows = 1;       // of a step, over all ranks
  size_t keepings = 1;    // settings of parallel.recompute to try
  bool offloads = false;  // also with the optimizer, or the parameters, in host memory
  std::vector<std::string> schedules = {"1f1b", "interleaved", "zbv"};
  /// Whether tp ranks can divide the model, and whether its layers make so many stages.
  std::function<bool(int64_t tp)> divides = [](int64_t) { return true; };
  std::function<bool(int64_t stages)> makes = [](int64_t) { return true; };
};

/// Each on all of the cluster's devices, with tp within a node, and rows that divide evenly. A dp_shard of 1 has no
/// ZeRO stage but the default, a pp of 1 no schedule but the default.
std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search);

/// The divisors of `number`, ascending.
std::vector<int64_t> find_divisors(int64_t number);

}  // namespace modular
