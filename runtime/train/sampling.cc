#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/parallel/random/mixed_bits.h"
#include "runtime/train/continuation.h"

namespace modular {
namespace {

/// Who draws for the text at `place`: the first one's numbers are those of `seed` itself.
at::Generator seeded_generator(uint64_t seed, size_t place) {
  return at::make_generator<at::CPUGeneratorImpl>(place == 0 ? seed : mixed(seed ^ mixed(place)));
}

/// Has the texts [first, first + count) grow by up to options.tokens tokens.
void grow(ParallelModel& model, std::vector<std::vector<int64_t>>& texts, size_t first, size_t count,
          const SampleSection& options, int64_t context, uint64_t seed, const std::vector<int64_t>& ends,
          const SampleViews& views) {
  Mesh& mesh = model.mesh();
  std::vector<at::Generator> generators;
  std::vector<int64_t> rows;  // of the texts that have not ended
  size_t longest = 0;
  for (size_t i = first; i < first + count; ++i) {
    generators.push_back(seeded_generator(seed, i));
    rows.push_back(static_cast<int64_t>(i));
    longest = std::max(longest, texts[i].size());
  }
  Continuation continuation(model, context, static_cast<int64_t>(longest) + options.tokens);
  for (int64_t i = 0; i < options.tokens && !rows.empty(); ++i) {
    const at::Tensor logits = continuation.logits(texts, rows);
    // Rank 0 decides, and all ranks continue with the same tokens.
    const at::Tensor next = at::zeros({static_cast<int64_t>(rows.size())}, at::kLong);
    auto* tokens = next.mutable_data_ptr<int64_t>();
    if (mesh.rank() == 0)
      for (size_t row = 0; row < rows.size(); ++row)
        tokens[row] = choose_token(logits[static_cast<int64_t>(row)], options,
                                   generators[static_cast<size_t>(rows[row]) - first]);
    broadcast(mesh.control(), next, 0, "the sampled tokens").wait();
    std::vector<int64_t> going;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (std::ranges::find(ends, tokens[row]) != ends.end()) continue;
      const auto text = static_cast<size_t>(rows[row]);
      going.push_back(rows[row]);
      texts[text].push_back(tokens[row]);
      if (views.token) views.token(text, tokens[row]);
    }
    rows = std::move(going);
  }
}

}  // namespace

std::vector<std::vector<int64_t>> sample(ParallelModel& model, const std::vector<std::vector<int64_t>>& prompts,
                                         const SampleSection& options, int64_t context, uint64_t seed,
                                         const std::vector<int64_t>& ends, const SampleViews& views) {
  std::vector<std::vector<int64_t>> texts = prompts;
  for (const auto& prompt : prompts) TORCH_INTERNAL_ASSERT(!prompt.empty());
  for (size_t first = 0; first < texts.size(); first += static_cast<size_t>(options.batch)) {
    const size_t end = std::min(texts.size(), first + static_cast<size_t>(options.batch));
    grow(model, texts, first, end - first, options, context, seed, ends, views);
    for (size_t i = first; i < end; ++i) {
      texts[i].erase(texts[i].begin(), texts[i].begin() + static_cast<std::ptrdiff_t>(prompts[i].size()));
      if (views.text) views.text(i, texts[i]);
    }
  }
  return texts;
}

int64_t choose_token(const at::Tensor& logits, const SampleSection& options, at::Generator& generator) {
  if (options.temperature == 0.0) return logits.argmax().item<int64_t>();
  if (options.top_k <= 0 || options.top_k >= logits.size(0))
    return at::multinomial(at::softmax(logits / options.temperature, 0), 1, false, generator).item<int64_t>();
  const auto [values, indices] = logits.topk(options.top_k);
  const auto chosen = at::multinomial(at::softmax(values / options.temperature, 0), 1, false, generator);
  return indices[chosen.item<int64_t>()].item<int64_t>();
}

std::vector<int64_t> to_tokens(const std::string& text) {
  std::vector<int64_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string get_text(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

}  // namespace modular
