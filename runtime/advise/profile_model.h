// The profile of a run's model, found by a few plans of one row.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"
#include "runtime/parallel/memory_options.h"
#include "runtime/train/config.h"

namespace modular {

/// What a search asks of a run's model, and of which its layouts' numbers are indices.
struct ProfiledModel {
  ModelProfile profile;
  std::vector<Recomputation> recomputations;  // beside profile.keepings
  std::vector<int64_t> tps;                   // of those asked for, the sizes of tp that can divide it
};

/// Plans each of `recomputations` once on one rank and, where a tp of `tps` above 1 can divide the model, once on the
/// smallest of them; and a pipeline of two ranks, where the layers can be cut. Throws ConfigError where the config's
/// model or data cannot be.
ProfiledModel profile_model(const RunConfig& config, const std::vector<Recomputation>& recomputations,
                            const std::vector<int64_t>& tps);

/// Says how uneven the stages are of `pp` ranks with so many stages each; where they cannot be, says nothing.
void add_stages(ModelProfile& profile, const RunConfig& config, const std::vector<Layout>& pipelines);

/// The settings worth trying: none, those of cheap operations, all units.
std::vector<Recomputation> usual_recomputations(const RunConfig& config);

/// `config` on one rank, with one row a step and nothing recomputed or offloaded.
RunConfig on_one_rank(const RunConfig& config);

/// `config` as a layout has it.
RunConfig to_config(const RunConfig& config, const Layout& layout, const std::vector<Recomputation>& recomputations);

}  // namespace modular
