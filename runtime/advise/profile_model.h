// Computes a model profile from a few plans with one row.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/advise/layout.h"
#include "runtime/config/config.h"
#include "runtime/parallel/memory/memory_options.h"

namespace modular {

/// Sizes of cp and tp.
using ContextSizes = std::pair<int64_t, int64_t>;

/// A model profile, and the options that layouts index into.
struct ProfiledModel {
  ModelProfile profile;
  std::vector<Recomputation> recomputations;  // parallel to profile.keepings
  std::vector<int64_t> tps;                   // the requested tp sizes that the model supports
};

/// Plans each of `recomputations` on one rank and, if the model supports a tp size above 1, on the smallest such size,
/// without and with sequence parallelism if the run uses it. Also plans a pipeline of two ranks if the layers can be
/// split, and each of `contexts`: those that the model does not support have no entry in ModelProfile::contexts. Throws
/// ConfigError if the config's model or data is invalid.
ProfiledModel profile_model(const RunConfig& config, const std::vector<Recomputation>& recomputations,
                            const std::vector<int64_t>& tps, const std::vector<ContextSizes>& contexts = {});

/// The sizes that are worth a plan on the cluster: those that leave each cp rank long runs of positions. Empty for
/// sequences of less than kLongSequence positions, which other axes divide with less communication, and for models that
/// do not support cp.
std::vector<ContextSizes> find_contexts(const RunConfig& config, const Cluster& cluster);
inline constexpr int64_t kLongSequence = 4096;

/// Adds the stage imbalance of each of `pipelines` to the profile; skips pipelines that the model cannot have.
void add_stages(ModelProfile& profile, const RunConfig& config, const std::vector<Layout>& pipelines);

/// Recomputation options to try by default: none, cheap operations, all units.
std::vector<Recomputation> default_recomputations(const ParallelSection& parallel);

/// Returns `config` for one rank, with one row per step and without recomputation or offloading.
RunConfig to_single_rank(const RunConfig& config);

/// Returns `config` with a layout applied.
RunConfig to_config(const RunConfig& config, const Layout& layout, const std::vector<Recomputation>& recomputations);

}  // namespace modular
