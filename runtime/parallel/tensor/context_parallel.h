// Context parallelism: each cp rank has some of the positions of every sequence. All cp ranks read the same rows.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/cp.h"
#include "runtime/model/registry.h"

namespace modular {

struct ContextOptions {
  /// The positions of rank r of n. Contiguous: the r-th of n runs. Zigzag: the r-th and the r-th last of 2n runs, so
  /// that with a causal mask all ranks have as much work.
  enum class Layout { automatic, contiguous, zigzag } layout = Layout::automatic;
  /// How attention reaches the keys of other ranks: cp::Context::exchanges_heads.
  enum class Attention { automatic, all_gather, all_to_all } attention = Attention::automatic;
};

/// What cutting has to know of batches.
struct ContextData {
  bool token_labels = true;  // whether labels have positions
  int64_t padding_id = 0;    // of tokens
};

/// Cuts batches, and moves data between the ranks of a context group. Sums are in rank order where the collectives'
/// are.
class ContextRanks final : public cp::Context {
 public:
  /// `group`: the cp ranks. `zigzag`: the layout.
  ContextRanks(ProcessGroup group, ContextOptions::Attention attention, bool zigzag, const ContextData& data)
      : group_(std::move(group)), attention_(attention), zigzag_(zigzag), data_(data) {}

  /// The number of positions of each rank for sequences of `length` tokens, some of which may be padding.
  int64_t count(int64_t length) const;
  /// This rank's positions of the batch. Sequences whose lengths the ranks do not divide get padding at their ends.
  Batch cut(Batch batch) const;
  /// The logits of all positions of `batch`, which is not cut.
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
  std::vector<cp::Run> runs_of(int64_t rank, int64_t count) const;

 private:
  ProcessGroup group_;
  ContextOptions::Attention attention_;
  bool zigzag_;
  ContextData data_;
};

/// The options with these names: auto, contiguous or zigzag; auto, all-gather or all-to-all.
ContextOptions::Layout to_context_layout(std::string_view name);
ContextOptions::Attention to_context_attention(std::string_view name);

/// Whether the entry's ranks have positions by zigzag.
bool is_zigzag(const Entry& entry, ContextOptions::Layout layout);

/// Returns why the entry cannot run on `ranks` context-parallel ranks; empty if it can.
std::string context_error(const Entry& entry, int64_t ranks);

}  // namespace modular
