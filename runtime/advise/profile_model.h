// Computes a model profile from a few plans with one row.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/advise/layout.h"
#include "runtime/config/config.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

/// A model profile, and the options that layouts index into.
struct ProfiledModel {
  ModelProfile profile;
  std::vector<Recomputation> recomputations;  // parallel to profile.keepings
  std::vector<int64_t> tps;                   // the requested tp sizes that the model supports
};

/// Plans each of `recomputations` on one rank and, if the model supports a tp size above 1, on the smallest such size.
/// Also plans a pipeline of two ranks if the layers can be split. Throws ConfigError if the config's model or data is
/// invalid.
ProfiledModel profile_model(const RunConfig& config, const std::vector<Recomputation>& recomputations,
                            const std::vector<int64_t>& tps);

/// Adds the stage imbalance of each of `pipelines` to the profile; skips pipelines that the model cannot have.
void add_stages(ModelProfile& profile, const RunConfig& config, const std::vector<Layout>& pipelines);

/// Recomputation options to try by default: none, cheap operations, all units.
std::vector<Recomputation> default_recomputations(const ParallelSection& parallel);

/// Returns `config` for one rank, with one row per step and without recomputation or offloading.
RunConfig to_single_rank(const RunConfig& config);

/// Returns `config` with a layout applied.
RunConfig to_config(const RunConfig& config, const Layout& layout, const std::vector<Recomputation>& recomputations);

}  // namespace modular
