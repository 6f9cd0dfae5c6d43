#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// What a model predicts for the token after a growing text: from a cache where that gives what the whole text
/// would, else from the whole text. Collective; the logits of rank 0 alone need be right.
class Continuation {
 public:
  /// Looks back at most `context` tokens, of a text that grows to `longest`.
  Continuation(ParallelModel& model, int64_t context, int64_t longest)
      : model_(model), context_(context), expected_(std::min(context, longest)), may_cache_(model.can_cache()) {}

  /// Logits [vocab] after `tokens`: those of the previous call, and more.
  at::Tensor logits(at::IntArrayRef tokens) {
    const auto size = static_cast<int64_t>(tokens.size());
    // Once the context slides, every token of it has another position than before.
    if (!may_cache_ || size > context_) return whole(tokens);
    if (!cache_) cache_.emplace(expected_);
    const int64_t seen = cache_->seen();
    const at::Tensor logits = run(tokens.slice(static_cast<size_t>(seen)), &*cache_);
    if (any_rank(cache_->spoiled())) {
      cache_.reset();
      if (seen > 0) return this->logits(tokens);  // as where rotary tables change with the length: begin with the new
      may_cache_ = false;
    } else if (seen > 0 && !std::exchange(is_compared_, true)) {
      // A spec may look along the sequence by functions that know nothing of caches.
      const at::Tensor expected = whole(tokens);
      may_cache_ = !any_rank(model_.mesh().rank() == 0 && differ(logits, expected));
      return expected;
    }
    return logits;
  }

 private:
  at::Tensor whole(at::IntArrayRef tokens) {
    return run(tokens.slice(tokens.size() - std::min(tokens.size(), static_cast<size_t>(context_))), nullptr);
  }

  at::Tensor run(at::IntArrayRef tokens, cache::Cache* cache) {
    Batch batch;
    batch.input_ids = at::tensor(tokens, at::kLong).unsqueeze(0).to(model_.mesh().device());
    return model_.logits(batch, cache)[0][-1].to(at::kCPU, at::kFloat);
  }

  /// Whether they are further apart than rounding, bfloat16's too, has them.
  static bool differ(const at::Tensor& logits, const at::Tensor& expected) {
    return !((logits - expected).norm() <= 0.1 * (expected - expected.mean()).norm()).item<bool>();
  }

  bool any_rank(bool value) { return modular::any_rank(model_.mesh().control(), value, "whether a cache is of use"); }

  ParallelModel& model_;
  int64_t context_;
  int64_t expected_;
  bool may_cache_;
  std::optional<cache::Cache> cache_;
  bool is_compared_ = false;
};

}  // namespace

std::vector<int64_t> sample(ParallelModel& model, std::vector<int64_t> prompt, const SampleSection& options,
                            int64_t context, uint64_t seed, const std::vector<int64_t>& ends,
                            const std::function<void(int64_t)>& written) {
  TORCH_INTERNAL_ASSERT(!prompt.empty());
  auto& mesh = model.mesh();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<int64_t> tokens = std::move(prompt);
  const auto prompt_size = static_cast<std::ptrdiff_t>(tokens.size());
  Continuation continuation(model, context, static_cast<int64_t>(tokens.size()) + options.tokens);
  for (int64_t i = 0; i < options.tokens; ++i) {
    const at::Tensor logits = continuation.logits(tokens);
    // Rank 0 decides, and all ranks continue with the same token.
    at::Tensor next = at::zeros({1}, at::kLong);
    if (mesh.rank() == 0) next.fill_(choose_token(logits, options, generator));
    broadcast(mesh.control(), next, 0, "the sampled token").wait();
    const auto token = next.item<int64_t>();
    if (std::ranges::find(ends, token) != ends.end()) break;
    tokens.push_back(token);
    if (written) written(tokens.back());
  }
  return {tokens.begin() + prompt_size, tokens.end()};
}

int64_t choose_token(const at::Tensor& logits, const SampleSection& options, at::Generator& generator) {
  if (options.temperature == 0.0) return logits.argmax().item<int64_t>();
  if (options.top_k <= 0 || options.top_k >= logits.size(0))
    return at::multinomial(at::softmax(logits / options.temperature, 0), 1, false, generator).item<int64_t>();
  const auto [values, indices] = logits.topk(options.top_k);
  const auto chosen = at::multinomial(at::softmax(values / options.temperature, 0), 1, false, generator);
  return indices[chosen.item<int64_t>()].item<int64_t>();
}

std::vector<int64_t> tokens_of(const std::string& text) {
  std::vector<int64_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string text_of(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

}  // namespace modular
