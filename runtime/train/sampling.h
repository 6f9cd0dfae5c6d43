// Text that a model writes, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/parallel/parallel_model.h"
#include "runtime/train/config.h"

namespace modular {

/// Continues `prompt` (not empty) by options.tokens tokens, or until the first of `ends`, which is not part of the
/// text; looks back at most `context` tokens. Returns the tokens. Reads each token once, from a cache, until the
/// context slides, where the model lets it. Collective: all ranks get the same tokens, whatever the mesh; `written`
/// sees each as it comes.
std::vector<int64_t> sample(ParallelModel& model, std::vector<int64_t> prompt, const SampleSection& options,
                            int64_t context, uint64_t seed, const std::vector<int64_t>& ends,
                            const std::function<void(int64_t)>& written = {});

/// Takes one token from `logits` [vocab]: the likeliest at temperature 0, else at random among the top_k likeliest (Fan
/// et al., Hierarchical neural story generation).
int64_t choose_token(const at::Tensor& logits, const SampleSection& options, at::Generator& generator);

/// Text as tokens and back, a byte each.
std::vector<int64_t> tokens_of(const std::string& text);
std::string text_of(const std::vector<int64_t>& tokens);

}  // namespace modular
