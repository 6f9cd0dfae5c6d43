#include "runtime/advise/pipeline_clock.h"

#include <algorithm>
#include <cmath>

#include "runtime/advise/stages_on_ranks.h"

namespace modular {

PipelineClock::Step PipelineClock::simulate_step(const Layout& layout, double backward, double input) {
  const int64_t stages = stages_per_rank(layout);
  if (layout.pp == 1)
    return {.length = static_cast<double>(layout.micro_batches) * (1.0 + backward),
            .busy = static_cast<double>(layout.micro_batches) * (1.0 + backward)};
  // Round times to a hundredth of a forward, so that nearly equal layouts share a simulation.
  const auto hundredths = [](double time) { return std::llround(time * 100.0); };
  auto& step =
      simulated_[{layout.schedule, layout.pp, stages, layout.micro_batches, hundredths(backward), hundredths(input)}];
  if (step.length > 0.0) return step;
  const auto rounded = [&](double time) { return static_cast<double>(hundredths(time)) / 100.0; };
  const ActionTimes times = {.forward = 1.0,
                             .backward_input = rounded(input),
                             .backward_weight = rounded(backward) - rounded(input),
                             .backward = rounded(backward)};
  const Simulation simulated = simulate(find_schedule(layout).make(layout.pp, stages, layout.micro_batches), times);
  step.length = simulated.time;
  step.busy = simulated.time * (1.0 - simulated.idle_fraction);
  step.most_stored = std::ranges::max(simulated.most_stored);
  return step;
}

}  // namespace modular
