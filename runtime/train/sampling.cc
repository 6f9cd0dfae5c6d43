#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "runtime/config/run_tokenizer.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/print.h"
#include "runtime/parallel/random/mixed_bits.h"
#include "runtime/train/text_ids.h"

namespace modular {
namespace {

int64_t find_size(const Continuation::Text& text) { return static_cast<int64_t>(text.size()); }

const Continuation::Text& text_at(const std::vector<Continuation::Text>& texts, int64_t row) {
  return texts[static_cast<size_t>(row)];
}

/// The last `size` tokens of the texts [rows, size], left-padded with 0.
at::Tensor gather_last_tokens(const std::vector<Continuation::Text>& texts, const std::vector<int64_t>& rows,
                              int64_t size) {
  const at::Tensor tokens = at::zeros({static_cast<int64_t>(rows.size()), size}, at::kLong);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& text = text_at(texts, rows[i]);
    const int64_t count = std::min(find_size(text), size);
    std::copy(text.end() - count, text.end(),
              tokens.mutable_data_ptr<int64_t>() + static_cast<int64_t>(i) * size + size - count);
  }
  return tokens;
}

/// Whether they differ by more than rounding, including that of bfloat16.
bool differ(const at::Tensor& logits, const at::Tensor& expected) {
  return !((logits - expected).norm() <= 0.1 * (expected - expected.mean()).norm()).item<bool>();
}

}  // namespace

Continuation::Continuation(ParallelModel& model, int64_t context, int64_t longest)
    : model_(model), context_(context), expected_(std::min(context, longest)) {}

at::Tensor Continuation::logits(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  if (!std::exchange(began_, true)) groups_.push_back({.rows = rows, .may_cache = model_.can_cache()});
  std::map<int64_t, at::Tensor> found;
  const auto find = [&](const std::vector<int64_t>& of, const at::Tensor& logits) {
    for (size_t i = 0; i < of.size(); ++i) found[of[i]] = logits[static_cast<int64_t>(i)];
  };
  // Once the context slides, every token in it changes its position.
  if (const auto sliding = leave(texts, rows); !sliding.empty()) find(sliding, whole(texts, sliding));
  for (size_t i = 0; i < groups_.size(); ++i) {
    std::vector<Group> divided;
    if (const auto logits = get_logits(groups_[i], texts, divided)) {
      if (groups_[i].rows == rows) return *logits;
      find(groups_[i].rows, *logits);
    }
    if (divided.empty()) continue;
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i--));
    std::ranges::move(divided, std::back_inserter(groups_));
  }
  std::vector<at::Tensor> in_order;
  for (const int64_t row : rows) in_order.push_back(found.at(row));
  return at::stack(in_order);
}

std::vector<int64_t> Continuation::leave(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  std::vector<int64_t> staying, sliding;
  for (const int64_t row : rows) (find_size(text_at(texts, row)) > context_ ? sliding : staying).push_back(row);
  for (Group& group : groups_) {
    std::vector<int64_t> kept, indices;
    for (size_t i = 0; i < group.rows.size(); ++i)
      if (std::ranges::binary_search(staying, group.rows[i]))
        kept.push_back(group.rows[i]), indices.push_back(static_cast<int64_t>(i));
    if (kept.size() == group.rows.size()) continue;
    group.rows = kept;
    const at::Tensor at = at::tensor(indices, at::kLong);
    if (group.cache && !kept.empty()) group.cache->keep_rows(at);
    if (group.padding.defined()) group.padding = group.padding.index_select(0, at);
  }
  std::erase_if(groups_, [](const Group& group) { return group.rows.empty(); });
  return sliding;
}

std::optional<at::Tensor> Continuation::get_logits(Group& group, const std::vector<Text>& texts,
                                                   std::vector<Group>& divided) {
  const auto length = [&](int64_t row) { return find_size(text_at(texts, row)); };
  const auto [shortest, longest] = std::ranges::minmax_element(group.rows, {}, length);
  const bool one_length = length(*shortest) == length(*longest);
  const auto divide = [&]() -> std::optional<at::Tensor> {
    std::map<int64_t, std::vector<int64_t>> by_length;
    for (const int64_t row : group.rows) by_length[length(row)].push_back(row);
    for (const auto& [size, rows] : by_length) divided.push_back({.rows = rows, .may_cache = group.may_cache});
    return std::nullopt;
  };
  if (!group.may_cache) return one_length ? whole(texts, group.rows) : divide();
  const bool goes_on = group.cache.has_value();
  at::Tensor logits = goes_on ? go_on(group, texts) : begin(group, texts);
  if (any_rank(group.cache->spoiled())) {
    group.cache.reset(), group.padding = at::Tensor();
    if (!one_length) return divide();
    if (goes_on) return get_logits(group, texts, divided);  // e.g. if rotary tables depend on the length
    group.may_cache = false;
    return whole(texts, group.rows);
  }
  // A spec may mix positions in functions that do not support caches, which the first cached token reveals, or padding,
  // which the padded prompt reveals.
  if (goes_on ? std::exchange(group.is_compared, true) : one_length) return logits;
  const auto index = std::ranges::find(group.rows, *shortest) - group.rows.begin();
  const at::Tensor expected = whole(texts, {*shortest})[0];
  if (!any_rank(model_.mesh().rank() == 0 && differ(logits[index], expected))) return logits;
  group.cache.reset(), group.padding = at::Tensor();
  group.is_compared = false;
  if (!one_length) return divide();
  group.may_cache = false;
  return group.rows.size() == 1 ? expected.unsqueeze(0) : whole(texts, group.rows);
}

at::Tensor Continuation::begin(Group& group, const std::vector<Text>& texts) {
  const auto length = [&](int64_t row) { return find_size(text_at(texts, row)); };
  const auto [shortest, longest] = std::ranges::minmax(group.rows, {}, length);
  const int64_t size = length(longest);
  group.cache.emplace(expected_ + size - length(shortest));
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, group.rows, size);
  if (size > length(shortest)) {
    std::vector<at::Tensor> present;
    for (const int64_t row : group.rows) present.push_back(at::arange(size) >= size - length(row));
    batch.attention_mask = group.padding = at::stack(present);
  }
  return run(std::move(batch), &*group.cache);
}

at::Tensor Continuation::go_on(Group& group, const std::vector<Text>& texts) {
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, group.rows, 1);
  if (group.padding.defined()) {
    group.padding = at::constant_pad_nd(group.padding, {0, 1}, true);
    batch.attention_mask = group.padding;
  }
  return run(std::move(batch), &*group.cache);
}

at::Tensor Continuation::whole(const std::vector<Text>& texts, const std::vector<int64_t>& rows) {
  Batch batch;
  batch.input_ids = gather_last_tokens(texts, rows, std::min(find_size(text_at(texts, rows.front())), context_));
  return run(std::move(batch), nullptr);
}

at::Tensor Continuation::run(Batch batch, cache::Cache* cache) {
  for_each_tensor(batch, [&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.to(model_.mesh().device());
  });
  return model_.logits(batch, cache).select(1, -1).to(at::kCPU, at::kFloat);
}

bool Continuation::any_rank(bool value) {
  return modular::any_rank(model_.mesh().control(), value, "whether a cache is of use");
}

namespace {

/// Generator for the text at `index`. The first text uses `seed` itself.
at::Generator seeded_generator(uint64_t seed, size_t index) {
  return at::make_generator<at::CPUGeneratorImpl>(index == 0 ? seed : mixed(seed ^ mixed(index)));
}

/// Extends the texts [first, first + count) by up to options.tokens tokens.
void grow(ParallelModel& model, std::vector<std::vector<int64_t>>& texts, size_t first, size_t count,
          const SampleSection& options, int64_t context, uint64_t seed, const std::vector<int64_t>& ends,
          const SampleViews& views) {
  Mesh& mesh = model.mesh();
  std::vector<at::Generator> generators;
  std::vector<int64_t> rows;  // texts that have not ended
  size_t longest = 0;
  for (size_t i = first; i < first + count; ++i) {
    generators.push_back(seeded_generator(seed, i));
    rows.push_back(static_cast<int64_t>(i));
    longest = std::max(longest, texts[i].size());
  }
  Continuation continuation(model, context, static_cast<int64_t>(longest) + options.tokens);
  for (int64_t i = 0; i < options.tokens && !rows.empty(); ++i) {
    const at::Tensor logits = continuation.logits(texts, rows);
    // Rank 0 samples, and all ranks continue with the same tokens.
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

std::optional<std::string> sample_of_run(ParallelModel& model, const RunConfig& config) {
  Mesh& mesh = model.mesh();
  if (config.sample.prompt.empty()) return {};
  std::optional<TextIds> texts;  // on rank 0, which has the run's tokenizer
  std::vector<int64_t> prompt, ends;
  if (mesh.rank() == 0) try {
      const std::filesystem::path tokenizer = tokenizer_of_run(config);
      if (!tokenizer.empty() || has_property(config.data.format, &DataFormat::ids_are_bytes)) {
        texts.emplace(tokenizer, config.sample.python);
        prompt = texts->prompt(config.sample.prompt, config.sample.chat);
        ends = texts->ends();
      }
    } catch (const std::exception& error) {  // the model is trained and saved nevertheless
      print_to(stdout, "no text is sampled: {}\n", error.what());
    }
  const std::string shared = broadcast_text(mesh.control(), nlohmann::json({prompt, ends}).dump(), "the prompt");
  std::tie(prompt, ends) = nlohmann::json::parse(shared).get<std::pair<std::vector<int64_t>, std::vector<int64_t>>>();
  if (prompt.empty()) return {};
  if (mesh.rank() == 0) print_to(stdout, "the model continues {:?}:\n", config.sample.prompt);
  const auto tokens =
      sample(model, {prompt}, config.sample, config.train.seq_len, static_cast<uint64_t>(config.train.seed), ends)
          .front();
  if (mesh.rank() != 0) return {};
  ContinuedText text(*texts, prompt);
  std::string written = config.sample.prompt + (config.sample.chat ? "\n" : "");
  for (const int64_t token : tokens) written += text.add(token);
  return written + text.rest();
}

}  // namespace modular
