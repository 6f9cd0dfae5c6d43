// Context parallelism: each cp rank has some of the positions of every sequence. All cp ranks read the same rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/cp.h"
#include "runtime/model/registry.h"
#include "runtime/parallel/step/feature.h"
#include "runtime/parallel/tensor/dealt_runs.h"

namespace modular {

struct ContextOptions {
  /// The positions of rank r of n. Contiguous: the r-th of n runs. Zigzag: the r-th and the r-th last of 2n runs, so
  /// that with a causal mask all ranks have as much work. Balanced: up to 16 runs per rank, chosen for each micro-batch
  /// so that all ranks have about as much work with the documents of its rows.
  enum class Layout { automatic, contiguous, zigzag, balanced } layout = Layout::automatic;
  /// How attention reaches the keys of other ranks: cp::Context::exchanges_heads.
  enum class Attention { automatic, all_gather, all_to_all } attention = Attention::automatic;
};

/// What cutting has to know of batches.
struct ContextData {
  bool token_labels = true;  // whether labels have positions
  int64_t padding_id = 0;    // of tokens
  bool causal = true;        // whether a query sees no later keys
};

/// Cuts batches, and moves data between the ranks of a context group. Sums are in rank order where the collectives'
/// are.
///
/// In the balanced layout each micro-batch has its own division. It is that of the forward that runs: before_forward()
/// selects it, and a recomputed unit restores it. A backward uses the division of its forward.
class ContextRanks final : public cp::Context, public Feature {
 public:
  /// `group`: the cp ranks. `layout`: not automatic.
  ContextRanks(ProcessGroup group, ContextOptions::Attention attention, ContextOptions::Layout layout,
               const ContextData& data);

  /// The number of positions of each rank for sequences of `length` tokens, some of which may be padding.
  int64_t count(int64_t length) const;
  /// The division of a batch, which depends on its values in the balanced layout only. The same on all ranks.
  DealtRuns deal(const Batch& batch) const;
  /// This rank's positions of the batch. Sequences whose lengths the ranks do not divide get padding at their ends.
  Batch cut(Batch batch, const DealtRuns& runs) const;
  /// Makes `runs` the division of forwards of `batch`, which is cut and is recognized by its tensor of tokens, until
  /// forget_batches(). Nothing in the other layouts, where all batches have the same division.
  void remember(const Batch& batch, const DealtRuns& runs);
  void forget_batches() { of_batches_.clear(); }
  void before_forward(const Batch& micro_batch, int64_t stage) override;
  std::function<void()> save_position() override;
  /// The logits of all positions of `batch`, which is not cut and whose forward was the last one.
  Tensor join_logits(const Tensor& logits, const Batch& batch);

  int64_t size() const override { return group_->getSize(); }
  int64_t rank() const override { return group_->getRank(); }
  std::vector<cp::Run> runs(int64_t count) const override { return runs_of(rank(), count); }
  Tensor gather(const Tensor& x, int64_t dim) override;
  Tensor sum(const Tensor& partial) override;
  bool exchanges_heads(int64_t heads, int64_t key_value_heads) const override;
  Tensor to_heads(const Tensor& x) override;
  Tensor to_positions(const Tensor& x) override;

  const ProcessGroup& group() const { return group_; }
  /// The positions of a rank, if each rank has `count`.
  std::vector<cp::Run> runs_of(int64_t rank, int64_t count) const { return dealt_.of(rank, count); }
  /// The division of the forward that runs.
  const DealtRuns& dealt() const { return dealt_; }

 private:
  ProcessGroup group_;
  ContextOptions::Attention attention_;
  ContextOptions::Layout layout_;
  ContextData data_;
  DealtRuns dealt_;
  std::vector<std::pair<Tensor, DealtRuns>> of_batches_;  // by the batch's leading tensor
};

/// The options with these names: auto, contiguous, zigzag or balanced; auto, all-gather or all-to-all.
ContextOptions::Layout to_context_layout(std::string_view name);
ContextOptions::Attention to_context_attention(std::string_view name);

/// The layout of the entry's positions: never automatic, which is zigzag for language models.
ContextOptions::Layout find_layout(const Entry& entry, ContextOptions::Layout layout);

/// Returns why the entry cannot run on `ranks` context-parallel ranks; empty if it can.
std::string context_error(const Entry& entry, int64_t ranks);

}  // namespace modular
