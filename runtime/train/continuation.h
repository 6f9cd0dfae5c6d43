// Next-token predictions for growing texts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Predicts the next token of several growing texts. Reads every token once where a KV cache gives the same result as
/// the full text, and the full text otherwise. Batches texts of different lengths by padding the shorter ones on the
/// left; where a model cannot mask padding, only texts of equal length share a batch. A text's predictions do not
/// depend on the other texts. Collective; only the logits of rank 0 are guaranteed to be right.
class Continuation {
 public:
  using Text = std::vector<int64_t>;

  /// Looks back at most `context` tokens. Texts grow to at most `longest` tokens.
  Continuation(ParallelModel& model, int64_t context, int64_t longest);

  /// Logits [rows, vocab], float32 in host memory, of the next token of `texts` at `rows`. Each text is that of the
  /// previous call plus one token. `rows` are ascending and a subset of the previous call's rows: finished texts drop
  /// out.
  at::Tensor logits(const std::vector<Text>& texts, const std::vector<int64_t>& rows);

 private:
  /// Texts that share a cache.
  struct Group {
    std::vector<int64_t> rows;
    bool may_cache = true;
    bool is_compared = false;
    at::Tensor padding;  // [rows, tokens seen by the cache] bool, if lengths differ
    std::optional<cache::Cache> cache;
  };

  /// Drops from each group the rows that are not in `rows` or whose text exceeds the context. Returns those that exceed
  /// it.
  std::vector<int64_t> leave(const std::vector<Text>& texts, const std::vector<int64_t>& rows);
  /// Logits of a group; nullopt if the group was split by length.
  std::optional<at::Tensor> get_logits(Group& group, const std::vector<Text>& texts, std::vector<Group>& divided);
  /// The same for texts of equal length, without a cache.
  at::Tensor whole(const std::vector<Text>& texts, const std::vector<int64_t>& rows);
  at::Tensor begin(Group& group, const std::vector<Text>& texts);
  at::Tensor go_on(Group& group, const std::vector<Text>& texts);
  at::Tensor run(Batch batch, cache::Cache* cache);
  bool any_rank(bool value);

  ParallelModel& model_;
  int64_t context_, expected_;
  bool began_ = false;
  std::vector<Group> groups_;
};

}  // namespace modular
