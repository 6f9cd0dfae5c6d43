// Pipeline stages of a layout, and the parameters of its fullest rank.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"
#include "runtime/parallel/pipeline/known_schedules.h"

namespace modular {

/// Returns the layout's schedule; `layout.schedule` must be a name of known_schedules().
const KnownSchedule& find_schedule(const Layout& layout);

/// Number of pipeline stages per rank.
int64_t stages_per_rank(const Layout& layout);

/// Number of parameter elements on the fullest rank, before sharding over dp_shard.
double rank_elements(const ModelProfile& model, const Layout& layout);

/// Parameter elements in units and outside of units.
struct RankElements {
  double units = 0.0, root = 0.0;
};
RankElements split_rank_elements(const ModelProfile& model, const Layout& layout);

/// Whether the schedule can split backwards into input and weight parts, which requires units that do not run as one
/// piece.
bool splits_backwards(const ModelProfile& model, const Layout& layout);

}  // namespace modular
