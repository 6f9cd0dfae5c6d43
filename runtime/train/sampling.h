// Text that a model writes, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// Who sees what is written, by the place of a text among the prompts; empty for nobody.
struct SampleViews {
  std::function<void(size_t place, int64_t token)> token = {};                      // each, as it comes
  std::function<void(size_t place, const std::vector<int64_t>& tokens)> text = {};  // all of a text, in their order
};

/// Continues each of `prompts` (none empty) by options.tokens tokens, or until the first of `ends`, which is not part
/// of the text; looks back at most `context` tokens. Returns the tokens of each. Runs options.batch of them at a time,
/// and reads each token once, from a cache, until the context slides, where the model lets it. What becomes of a prompt
/// follows from it, `seed` and its place alone, but for rounding. Collective: all ranks get the same tokens, whatever
/// the mesh.
std::vector<std::vector<int64_t>> sample(ParallelModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                         const SampleSection& options, int64_t context, uint64_t seed,
                                         const std::vector<int64_t>& ends, const SampleViews& views = {});

/// Takes one token from `logits` [vocab]: the likeliest at temperature 0, else at random among the top_k likeliest (Fan
/// et al., Hierarchical neural story generation).
int64_t choose_token(const at::Tensor& logits, const SampleSection& options, at::Generator& generator);

/// Text as tokens and back, a byte each.
std::vector<int64_t> to_tokens(const std::string& text);
std::string get_text(const std::vector<int64_t>& tokens);

}  // namespace modular
