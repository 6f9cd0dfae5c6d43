// A layout's pipeline: where its stages lie, and what its fullest rank has of the model.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"
#include "runtime/parallel/known_schedules.h"

namespace modular {

/// The layout's schedule; `layout.schedule` is a name of known_schedules().
const KnownSchedule& find_schedule(const Layout& layout);

/// Pipeline stages of a rank.
int64_t stages_per_rank(const Layout& layout);

/// Of all parameters (elements) those that the fullest rank has, before dp_shard divides them.
double elements_of_rank(const ModelProfile& model, const Layout& layout);

/// Those of them in units, and in none.
struct RankElements {
  double units = 0.0, root = 0.0;
};
RankElements split_elements_of_rank(const ModelProfile& model, const Layout& layout);

/// Whether the schedule can cut backwards in two: not where units run as one piece.
bool cuts_backwards(const ModelProfile& model, const Layout& layout);

}  // namespace modular
