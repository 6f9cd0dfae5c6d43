// A layout's schedule on the virtual clock: how long a step of the pipeline is, and what its ranks store.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "runtime/advise/layout.h"
#include "runtime/parallel/schedule_simulator.h"

namespace modular {

/// Plays schedules, and remembers: of most layouts another one has the same pipeline.
class PipelineClock {
 public:
  /// The step's length in forwards of a stage, where its backward takes `backward` of them, of which I takes `input`.
  struct Step {
    double length = 0.0;
    double busy = 0.0;        // of it, on each rank
    int64_t most_stored = 1;  // micro-batches of a stage that the rank with most of them stores
  };
  Step simulate_step(const Layout& layout, double backward, double input);

 private:
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t, int64_t, int64_t>, Step> simulated_;
};

}  // namespace modular
