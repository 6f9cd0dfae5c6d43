// Text generation, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

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

}  // namespace modular
