// What a model predicts for the tokens that follow texts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/parallel/parallel_model.h"

namespace modular {

/// What a model predicts for the next token of each of several growing texts, of which it reads every token once where
/// it can: from a cache where that gives what the whole texts would, else from these. Texts of several lengths run
/// together, the shorter ones padded before their first token; where a model cannot hide that, those of one length do.
/// A text's predictions are those that it would have alone. Collective; the logits of rank 0 alone need be right.
class Continuation {
 public:
  using Text = std::vector<int64_t>;

  /// Looks back at most `context` tokens, of texts that grow to `longest`.
  Continuation(ParallelModel& model, int64_t context, int64_t longest);

  /// Logits [rows, vocab] float32 in host memory after `texts` at `rows`. Texts are those of the previous call, and one
  /// token more each; `rows` rise, and of those of the previous call some may be missing, which have ended.
  at::Tensor logits(const std::vector<Text>& texts, const std::vector<int64_t>& rows);

 private:
  /// Texts that share a cache.
  struct Group {
    std::vector<int64_t> rows;
    bool may_cache = true;
    bool is_compared = false;
    at::Tensor padding;  // [rows, seen by the cache] bool, where lengths differ
    std::optional<cache::Cache> cache;
  };

  /// Has each group keep those of `rows` whose text is within the context; returns the others.
  std::vector<int64_t> leave(const std::vector<Text>& texts, const std::vector<int64_t>& rows);
  /// Logits of a group, or nothing where it has been divided into others, by length.
  std::optional<at::Tensor> get_logits(Group& group, const std::vector<Text>& texts, std::vector<Group>& divided);
  /// The same, of texts of one length, without a cache.
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
