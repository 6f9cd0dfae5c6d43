#include "runtime/advise/model_profile.h"

#include <algorithm>

namespace modular {

StageShares ModelProfile::stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const {
  if (pp == 1) return {};
  const auto known = stages.find({pp, stages_per_rank, is_v});
  if (known != stages.end()) return known->second;
  const int64_t all = pp * stages_per_rank, held = std::max<int64_t>(layers, 1);
  const int64_t most = (held + all - 1) / all;  // layers of the largest stage
  return {std::min(1.0, static_cast<double>(most * stages_per_rank) / static_cast<double>(held)),
          static_cast<double>(most * all) / static_cast<double>(held)};
}

}  // namespace modular
