// Enumerates the layouts of a run on a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"

namespace modular {

struct LayoutSearch {
  int64_t rows = 1;       // global batch size
  size_t keepings = 1;    // number of parallel.recompute values to try
  bool offloads = false;  // whether to also try the optimizer or the parameters in host memory
  std::vector<std::string> schedules = {"1f1b", "interleaved", "zbv"};
  /// Whether the model can be split over tp ranks, and whether it has enough layers for the number of stages.
  std::function<bool(int64_t tp)> divides = [](int64_t) { return true; };
  std::function<bool(int64_t stages)> makes = [](int64_t) { return true; };
};

/// Layouts that use all devices of the cluster, keep tp within a node, and divide the rows evenly. Layouts with
/// dp_shard 1 only have the default ZeRO stage, layouts with pp 1 only the default schedule.
std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search);

/// Returns the divisors of `number` in ascending order.
std::vector<int64_t> find_divisors(int64_t number);

}  // namespace modular
