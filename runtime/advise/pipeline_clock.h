// Simulates a layout's pipeline schedule: duration of a step and stored micro-batches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "runtime/advise/layout.h"
#include "runtime/parallel/pipeline/schedule_simulator.h"

namespace modular {

/// Simulates schedules and caches the results, because most layouts share their pipeline with others.
class PipelineClock {
 public:
  /// Result in units of a stage's forward time. The backward takes `backward`, of which the input gradient (I) takes
  /// `input`.
  struct Step {
    double length = 0.0;
    double busy = 0.0;        // compute time per rank
    int64_t most_stored = 1;  // maximum over ranks of stored micro-batches per stage
  };
  Step simulate_step(const Layout& layout, double backward, double input);

 private:
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, int64_t>, Step> simulated_;
};

}  // namespace modular
