#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "runtime/mesh/collectives.h"

namespace modular {

std::vector<int64_t> sample(ParallelModel& model, std::vector<int64_t> prompt, const SampleSection& options,
                            int64_t context, uint64_t seed, const std::function<void(int64_t)>& written) {
  TORCH_INTERNAL_ASSERT(!prompt.empty());
  auto& mesh = model.mesh();
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<int64_t> tokens = std::move(prompt);
  const auto prompt_size = static_cast<std::ptrdiff_t>(tokens.size());
  for (int64_t i = 0; i < options.tokens; ++i) {
    const auto seen = std::min(static_cast<int64_t>(tokens.size()), context);
    Batch batch;
    batch.input_ids = at::tensor(at::IntArrayRef(tokens).slice(tokens.size() - static_cast<size_t>(seen)), at::kLong)
                          .unsqueeze(0)
                          .to(mesh.device());
    batch.want_logits = true;
    const auto logits = model.logits(batch);
    // Rank 0 decides: its logits alone need be there, and all ranks go on with the same token.
    at::Tensor next = at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(mesh.device()));
    if (mesh.rank() == 0) next.fill_(choose_token(logits[0][-1].to(at::kCPU, at::kFloat), options, generator));
    broadcast(mesh.world(), next, 0, "the sampled token").wait();
    tokens.push_back(next.item<int64_t>());
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
