// Parallel layouts of a run, the candidates of the search, and the model properties that the search needs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/parallel/pipeline/known_schedules.h"

namespace modular {

// Model properties that the layout search needs, from a few plans (profile_model.h) or closed forms.

/// A quantity that is partly replicated and partly split over tensor-parallel ranks.
struct TpSplit {
  double replicated = 0.0, split = 0.0;
  double between = 0.0;  // of values between layers: split with sequence parallelism, replicated without
  /// Amount per rank; `sequence`: with sequence parallelism.
  double on(int64_t tp, bool sequence = false) const {
    const auto ranks = static_cast<double>(tp);
    return replicated + split / ranks + (sequence ? between / ranks : between);
  }
  double all() const { return replicated + split + between; }
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
  double gathered_over_tp = 0.0;     // with sequence parallelism: size of the tensors gathered and reduce-scattered
  int64_t gathers_over_tp = 0;       // all-gathers and reduce-scatters per micro-batch
  // ContextCost::received and collectives, and ContextCost::kept, relative to those without recomputation.
  double context_traffic = 1.0, context_kept = 1.0;
};

/// Costs that context parallelism adds to a row on each rank, without recomputation.
struct ContextCost {
  double received = 0.0;    // bytes received over cp, forward and backward
  double exchanged = 0.0;   // part of `received`: by all-to-alls, the rest by all-gathers and reduce-scatters
  int64_t collectives = 0;  // per micro-batch, regardless of its rows
  double kept = 0.0;        // bytes that the forward keeps beyond 1 / cp of the row's: others' keys and values, masks
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
  double skewed_flops = 0.0;  // part of them: attention under a causal mask if cp ranks have contiguous positions
  int64_t tokens_of_row = 1;
  std::vector<int64_t> lengths = {};  // positions of a row's sequences that ranks may divide
  bool sequence = false;              // whether the run uses sequence parallelism where tp divides `lengths`
  bool zigzag = false;                // layout of positions over cp ranks
  TpSplit values = {};                // activation bytes per row without recomputation
  double width = 0.0;                 // mean smaller dimension of the layers' matrices, which tp splits
  double boundary = 0.0;              // bytes per row that cross a stage boundary, one way
  double boundary_parts = 0.0;        // part of `boundary` that tp ranks divide with sequence parallelism
  double optimizer_bytes = 8.0;       // optimizer state per element
  double gathered_bytes = 4.0;        // bytes per element of the compute dtype: 2 for bfloat16
  int64_t prefetch = 1;
  std::vector<Keeping> keepings = {Keeping{}};
  /// Keyed by pipeline ranks, stages per rank, and whether the schedule is a V. Missing entries count as balanced.
  std::map<std::tuple<int64_t, int64_t, bool>, StageShares> stages = {};
  /// Keyed by the sizes of cp and tp. Layouts with cp > 1 need their entry.
  std::map<std::pair<int64_t, int64_t>, ContextCost> contexts = {};

  double elements() const { return root.all() + units.all(); }
  StageShares stage_shares(int64_t pp, int64_t stages_per_rank, bool is_v) const;
};

// A parallel layout of a run: one candidate of the search.

/// State kept in host memory, as in parallel.offload.
enum class Offloaded { nothing, optimizer, parameters };

struct Layout {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  int64_t zero_stage = 3;  // for dp_shard and cp
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // for pp: a name of known_schedules()
  int64_t stages_of_rank = 0;     // 0: the schedule's default
  size_t keeping = 0;             // index into ModelProfile::keepings
  Offloaded offload = Offloaded::nothing;

  /// Ranks that read different rows.
  int64_t data_parallel() const { return dp_replicate * dp_shard; }
  /// Ranks that shard a parameter.
  int64_t shards() const { return dp_shard * cp; }
  int64_t devices() const { return pp * data_parallel() * cp * tp; }
  /// Sizes of all axes, in the order of the mesh.
  std::array<int64_t, 5> mesh() const { return {pp, dp_replicate, dp_shard, cp, tp}; }
  bool same_mesh(const Layout& other) const { return mesh() == other.mesh(); }
  /// "pp 2 x dp_shard 4 x cp 2 (ZeRO 3) x tp 8"; "1 device" if all axes have size 1.
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
  /// Whether to try a size of cp above 1 together with one of tp.
  std::function<bool(int64_t cp, int64_t tp)> divides_context = [](int64_t, int64_t) { return false; };
};

/// Layouts that use all devices of the cluster, keep tp within a node, and divide the rows evenly over the
/// data-parallel ranks. Layouts with one shard only have the default ZeRO stage, layouts with pp 1 only the default
/// schedule.
std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search);

/// Returns the divisors of `number` in ascending order.
std::vector<int64_t> find_divisors(int64_t number);

/// Whether the layout's tp ranks divide the positions between layers (sequence parallelism).
bool divides_positions(const ModelProfile& model, const Layout& layout);

/// The layout's entry of `model.contexts`; zeros if cp is 1. Throws std::out_of_range if it is missing.
ContextCost context_cost(const ModelProfile& model, const Layout& layout);

/// Amount per rank of a quantity of a row: each cp rank has some of its positions, of which tp ranks may have parts.
double on_rank(const TpSplit& of_row, const ModelProfile& model, const Layout& layout);

/// Bytes per row that a rank sends to the next stage.
double boundary_on_rank(const ModelProfile& model, const Layout& layout);

// Pipeline stages of a layout, and the parameters of its fullest rank.

/// Returns the layout's schedule; `layout.schedule` must be a name of known_schedules().
const KnownSchedule& find_schedule(const Layout& layout);

/// Number of pipeline stages per rank.
int64_t stages_per_rank(const Layout& layout);

/// Number of parameter elements on the fullest rank, before sharding.
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
