#include "runtime/advise/stages_on_ranks.h"

#include <algorithm>

namespace modular {

const KnownSchedule& find_schedule(const Layout& layout) {
  return *std::ranges::find(known_schedules(), layout.schedule, &KnownSchedule::name);
}

int64_t stages_per_rank(const Layout& layout) {
  if (layout.pp == 1) return 1;
  return layout.stages_of_rank > 0 ? layout.stages_of_rank : find_schedule(layout).usual_stages;
}

RankElements split_rank_elements(const ModelProfile& model, const Layout& layout) {
  const bool is_v = layout.pp > 1 && find_schedule(layout).is_v;
  const StageShares shares = model.stage_shares(layout.pp, stages_per_rank(layout), is_v);
  // The token embedding is on the first stage and the head on the last; they usually have the same size.
  const double ends = layout.pp > 1 && !is_v ? 0.5 : 1.0;
  return {shares.fullest_rank * model.units.on(layout.tp), ends * model.root.on(layout.tp)};
}

double rank_elements(const ModelProfile& model, const Layout& layout) {
  const RankElements elements = split_rank_elements(model, layout);
  return elements.units + elements.root;
}

bool splits_backwards(const ModelProfile& model, const Layout& layout) {
  return layout.data_parallel() == 1 && !model.keepings[layout.keeping].one_piece &&
         layout.offload != Offloaded::parameters;
}

}  // namespace modular
