#include "runtime/advise/ranking.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace modular {

namespace {

void sort_by_time(std::vector<Choice>& choices) {
  const auto key = [](const Choice& choice) {
    const Layout& layout = choice.layout;
    const int64_t axes = (layout.pp > 1) + (layout.dp_replicate > 1) + (layout.dp_shard > 1) + (layout.tp > 1) +
                         (layout.offload != Offloaded::nothing);
    return std::tuple(std::llround(std::log(choice.time.total) * 200.0), axes, layout.keeping, -layout.zero_stage,
                      layout.pp, layout.tp, choice.time.total, layout.micro_batches, layout.schedule);
  };
  std::ranges::sort(choices, {}, key);
}

}  // namespace

Choice estimate(const ModelProfile& model, const Layout& layout, int64_t batch, const Cluster& cluster,
                PipelineClock& clock) {
  Choice choice;
  choice.layout = layout;
  choice.rows = static_cast<double>(batch) / static_cast<double>(layout.data_parallel() * layout.micro_batches);
  choice.time = step_time(model, layout, choice.rows, cluster, clock);
  choice.estimated = estimate_memory(model, layout, choice.rows, choice.time.stored);
  return choice;
}

std::vector<Choice> estimate_all(const ModelProfile& model, const Cluster& cluster, const LayoutSearch& search) {
  PipelineClock clock;
  std::vector<Choice> choices;
  for (const Layout& layout : find_layouts(cluster, search))
    choices.push_back(estimate(model, layout, search.rows, cluster, clock));
  sort_by_time(choices);
  return choices;
}

}  // namespace modular
