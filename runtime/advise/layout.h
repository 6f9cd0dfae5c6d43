// Parallel layouts of a run, the candidates of the search, and the model properties that the search needs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/parallel/pipeline/known_schedules.h"

namespace modular {

// Model properties that the layout search needs, from a few plans (profile_model.h) or closed forms.

/// A quantity that is partly replicated and partly split over tensor-parallel ranks.
struct TpSplit {
  double replicated = 0.0, split = 0.0;
  /// Amount per rank.
  double on(int64_t tp) const { return replicated + split / static_cast<double>(tp); }
  double all() const { return replicated + split; }
};

/// Memory that a forward saves for its backward with one value of parallel.recompute, in bytes per row.
struct Keeping {
  std::string setting = "\"none\"";  // value of parallel.recompute, as TOML
  double recomputed = 0.0;           // recomputation time in the backward, as a fraction of the forward
  bool one_piece = false;            // whether a layer's backward cannot be split into input and weight parts
  TpSplit activations = {};          // all layers
  TpSplit head = {};                 // activations of the last stage only
  TpSplit working = {};              // temporary memory of a running forward or backward
  double summed_over_tp = 0.0;       // size of the tensors all-reduced over tp, forward and backward
  int64_t sums_over_tp = 0;          // all-reduces per micro-batch, regardless of its rows
};

/// Imbalance of a pipeline's stages.
struct StageShares {
  double fullest_rank = 1.0;     // fraction of all layers on the rank with the most layers
  double costliest_stage = 1.0;  // FLOPs of the costliest stage relative to the mean
};

struct ModelProfile {
  TpSplit root;          // parameter elements outside of units
  TpSplit units;         // parameter elements of all units
  TpSplit largest_unit;  // parameter elements of the largest unit
  TpSplit last_unit;     // parameter elements of the unit that runs last
  int64_t unit_count = 0, layers = 0;
  double flops_of_row = 0.0;  // FLOPs per row, forward and backward, without recomputation
  int64_t tokens_of_row = 1;
  TpSplit values = {};           // activation bytes per row without recomputation
  double width = 0.0;            // mean smaller dimension of the layers' matrices, which tp splits
  double boundary = 0.0;         // bytes per row that cross a stage boundary, one way
  double optimizer_bytes = 8.0;  // optimizer state per element
  double gathered_bytes = 4.0;   // bytes per element of the compute dtype: 2 for bfloat16
  int64_t prefetch = 1;
  std::vector<Keeping> keepings = {Keeping{}};
  /// Keyed by pipeline ranks, stages per rank, and whether the schedule is a V. Missing entries count as balanced.
  std::map<std::tuple<int64_t, int64_t, bool>, StageShares> stages = {};

  double elements() const { return root.all() + units.all(); }
  StageShares stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const;
};

// A parallel layout of a run: one candidate of the search.

/// State kept in host memory, as in parallel.offload.
enum class Offloaded { nothing, optimizer, parameters };

struct Layout {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, tp = 1;
  int64_t zero_stage = 3;  // for dp_shard
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // for pp: a name of known_schedules()
  int64_t stages_of_rank = 0;     // 0: the schedule's default
  size_t keeping = 0;             // index into ModelProfile::keepings
  Offloaded offload = Offloaded::nothing;

  int64_t data_parallel() const { return dp_replicate * dp_shard; }
  int64_t devices() const { return pp * data_parallel() * tp; }
  bool same_mesh(const Layout& other) const {
    return pp == other.pp && dp_replicate == other.dp_replicate && dp_shard == other.dp_shard && tp == other.tp;
  }
  /// "pp 2 x dp_shard 4 (ZeRO 3) x tp 8"; "1 device" if all axes have size 1.
  std::string describe() const;

  bool operator==(const Layout&) const = default;
};

// Enumerates the layouts of a run on a cluster.

struct LayoutSearch {
  int64_t rows = 1;       // global batch size
  size_t keepings = 1;    // number of parallel.recompute values to try
  bool offloads = false;  // whether to also try the optimizer or the parameters in host memory
  std::vector<std::string> schedules = {"1f1b", "interleaved", "zbv"};
  /// Whether the model can be split over tp ranks, and whether it has enough layers for the number of stages.
  std::function<bool(int64_t tp)> divides = [](int64_t) { return true; };
  std::function<bool(int64_t stages)> makes = [](int64_t) { return true; };
};

/// Layouts that use all devices of the cluster, keep tp within a node, and divide the rows evenly. Layouts with
/// dp_shard 1 only have the default ZeRO stage, layouts with pp 1 only the default schedule.
std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search);

/// Returns the divisors of `number` in ascending order.
std::vector<int64_t> find_divisors(int64_t number);

// Pipeline stages of a layout, and the parameters of its fullest rank.

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
