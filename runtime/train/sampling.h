// Text generation, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

// Next-token predictions for growing texts.

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

/// Callbacks during generation, with the index of the text among the prompts; may be empty.
struct SampleViews {
  std::function<void(size_t index, int64_t token)> token = {};  // after each token
  std::function<void(size_t index, const std::vector<int64_t>& tokens)> text =
      {};  // after each complete text, in order of the prompts
};

/// Continues each of `prompts` (none empty) by options.tokens tokens, or until the first of `ends`, which is not part
/// of the text. Looks back at most `context` tokens. Returns the tokens of each. Runs options.batch texts at a time. If
/// the model supports a cache, reads each token once until the context slides. A continuation depends only on its
/// prompt, `seed` and its index, up to rounding. Collective: all ranks get the same tokens, on any mesh.
std::vector<std::vector<int64_t>> sample(ParallelModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                         const SampleSection& options, int64_t context, uint64_t seed,
                                         const std::vector<int64_t>& ends, const SampleViews& views = {});

/// Samples one token from `logits` [vocab]: the argmax at temperature 0, otherwise at random among the top_k likeliest
/// (Fan et al., Hierarchical neural story generation).
int64_t choose_token(const at::Tensor& logits, const SampleSection& options, at::Generator& generator);

/// Text to tokens and back, one byte each.
std::vector<int64_t> to_tokens(const std::string& text);
std::string get_text(const std::vector<int64_t>& tokens);

// Text that the model generates at the end of a run.

/// sample.prompt and its continuation, on rank 0. Empty if there is no prompt, or if its text cannot be encoded, which
/// is reported in case of an error. Collective.
std::optional<std::string> sample_of_run(ParallelModel& model, const RunConfig& config);

}  // namespace modular
