// An entry with one config and batch, run on one process and on simulated meshes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checks/execute/simulated_ranks.h"
#include "checks/execute/trace.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular::execute {

/// Results of ranks may differ from those of one process by this much, relative to 1 plus the largest element.
inline constexpr double kTolerance = 1e-9;

/// A way to divide a step.
struct Division {
  Grid grid = {};
  int64_t micro_batches = 1;
  std::vector<int64_t> cuts = {};  // first layers of the pipeline stages but the first

  /// "tp 2 x 2 micro-batches", "one process"
  std::string name() const;
};

/// Whether `tp` ranks can hold the parameters of `table`, the table of `entry` built from `config`. Records in its
/// parts how they split them.
bool split_over(ParameterTable& table, const Entry& entry, const AnyConfig& config, int64_t tp);

class ExecutedModel {
 public:
  /// `config` is finished. Runs a forward and a backward of the full batch on one process. Throws if that fails, or if
  /// its results are not finite.
  ExecutedModel(const Entry& entry, const AnyConfig& config, Batch batch);

  /// The layers that the plan cuts into stages, over both stacks; 0 if it cuts none.
  int64_t layers() const;

  /// Whether the plan allows `tp` ranks.
  bool supports(int64_t tp);

  /// Compares a division with one process: logits, loss, number of targets and the gradient of each parameter. Returns
  /// the first difference, with the line of the generated file where it begins if that is known; empty if there is
  /// none.
  std::string compare(const Division& division, const std::string& file);

  /// Compares cached forwards over parts of the sequence with the forward over all of it. Returns the difference like
  /// compare(); empty if there is none, or if the model cannot continue from a cache.
  std::string compare_cached(const std::string& file);

  /// Compares the spec's class, as C++ compiles it, with the generated class. Returns the difference; empty if there is
  /// none, and nullopt if the spec is not known to mean the same in C++.
  std::optional<std::string> compare_written();

 private:
  /// Results of one rank: sums over its micro-batches and stages.
  struct Result {
    Tensor logits, loss, targets;
    std::vector<Tensor> gradients;  // parallel to the parameters; undefined for those that the rank does not hold
    std::deque<Trace> traces;       // one per micro-batch, if they are recorded
  };
  /// A stage's module on one rank.
  struct Stage;

  std::unique_ptr<Stage> build(int64_t tp, int64_t tp_rank, const Division& division, int64_t stage) const;
  void run(const Division& division, const GridRank& rank, bool is_traced, Result& result) const;
  std::string difference(const Division& division, const std::vector<Result>& ranks) const;
  std::string locate(const Division& division, std::vector<Result>& ranks, const std::string& file) const;
  const ParameterTable& table(int64_t tp) const { return tp == 1 ? table_ : tables_.at(tp); }

  const Entry& entry_;
  std::unique_ptr<AnyConfig> config_;
  Batch batch_;
  std::shared_ptr<nn::Module> module_;  // the full model, whose parameters table_ describes
  ParameterTable table_;
  std::map<int64_t, ParameterTable> tables_;  // the same with the parts of `tp` ranks
  std::vector<int64_t> sizes_;                // of the lists that stages are cut from
  Result alone_;
};

}  // namespace modular::execute
