// Choice of the next token, and the logits that it is chosen from.
#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "generated/llama.h"
#include "tests/parallel/training_runs.h"

namespace modular {
namespace {

SampleSection options(double temperature, int64_t top_k) {
  SampleSection result;
  result.temperature = temperature;
  result.top_k = top_k;
  return result;
}

TEST(ChooseToken, TemperatureZeroTakesTheLikeliest) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  EXPECT_EQ(choose_token(at::tensor({0.0f, 3.0f, 2.0f}), options(0.0, 0), generator), 1);
}

TEST(ChooseToken, TopKLeavesTheOthersOut) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const auto logits = at::tensor({1.0f, 1.1f, 1.2f, 0.9f});
  std::set<int64_t> chosen;
  for (int i = 0; i < 200; ++i) chosen.insert(choose_token(logits, options(1.0, 2), generator));
  EXPECT_EQ(chosen, (std::set<int64_t>{1, 2}));
}

TEST(ChooseToken, FrequenciesFollowTheSoftmax) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const auto logits = at::log(at::tensor({0.1f, 0.9f})) * 0.5;  // at temperature 0.5 these are the probabilities
  int second = 0;
  for (int i = 0; i < 4000; ++i) second += choose_token(logits, options(0.5, 0), generator) == 1;
  EXPECT_NEAR(second / 4000.0, 0.9, 0.03);
}

TEST(Tokens, AreBytes) {
  const std::string text("a\xff\0b", 4);
  EXPECT_EQ(to_tokens(text), (std::vector<int64_t>{'a', 255, 0, 'b'}));
  EXPECT_EQ(get_text(to_tokens(text)), text);
}

constexpr int64_t kContext = 12, kPrompt = 4, kTokens = 16;

/// Number of tokens of each forward.
using Sizes = std::vector<int64_t>;

struct Sampled {
  std::vector<int64_t> tokens, expected;
  Sizes sizes;
};

/// Samples greedily from a small Llama on `mesh`; `change` may modify its outputs. `expected` is the result with full
/// contexts.
Sampled sampled(Mesh& mesh, const std::function<void(llama::LlamaConfig&)>& configure = {},
                const std::function<void(Outputs&)>& change = {}) {
  at::set_num_threads(1);
  Sizes sizes;
  Entry entry = testing::get_entry("LlamaForCausalLM");
  entry.make = [&, make = entry.make](const AnyConfig& config) {
    Model model = make(config);
    model.forward = [&, forward = model.forward](const Batch& batch) {
      sizes.push_back(batch.input_ids.size(1));
      Outputs outputs = forward(batch);
      if (change) change(outputs);
      return outputs;
    };
    return model;
  };
  auto config = testing::tiny_config(entry, {{"initializer_range", 0.6}});
  if (configure) configure(dynamic_cast<ConfigOf<llama::LlamaConfig>&>(*config).value);
  ParallelModel model(entry, *config, mesh, {}, /*seed=*/5);

  Sampled result;
  std::vector<int64_t> text = {3, 1, 4, 1};
  SampleSection section = options(/*temperature=*/0.0, /*top_k=*/0);
  section.tokens = kTokens;
  result.tokens = sample(model, {text}, section, kContext, /*seed=*/1, /*ends=*/{}).front();
  result.sizes = sizes;
  for (int64_t i = 0; i < kTokens; ++i) {
    const size_t first = text.size() - std::min(text.size(), static_cast<size_t>(kContext));
    Batch batch;
    batch.input_ids = at::tensor(at::IntArrayRef(text).slice(first), at::kLong).unsqueeze(0);
    text.push_back(model.logits(batch)[0][-1].argmax().item<int64_t>());
  }
  result.expected = {text.begin() + kPrompt, text.end()};
  return result;
}

TEST(Sample, ReadsEachTokenOnceUntilTheContextSlides) {
  Mesh mesh(Environment{}, MeshShape{});
  const Sampled result = sampled(mesh);
  EXPECT_EQ(result.tokens, result.expected);
  EXPECT_GT(std::set(result.tokens.begin(), result.tokens.end()).size(), 4)
      << "a model that says one thing shows little";
  // The first cached token is compared with the full text. The last 8 contexts slide.
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 1, 1, 1, 1, 1, 1, 1, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, StartsANewCacheWhenRotaryTablesChange) {
  Mesh mesh(Environment{}, MeshShape{});
  const Sampled result = sampled(mesh, [](llama::LlamaConfig& config) {
    config.max_position_embeddings = 10;
    config.rope_parameters.rope_type = "dynamic";
    config.rope_parameters.factor = 4.0;
  });
  EXPECT_EQ(result.tokens, result.expected);
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 1, 1, 1, 1, 1, 1, 11, 1, 12, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, UsesNoCacheIfTheModelMixesPositionsItself) {
  Mesh mesh(Environment{}, MeshShape{});
  const Sampled result = sampled(mesh, {}, [](Outputs& outputs) { outputs.logits = outputs.logits.cumsum(1); });
  EXPECT_EQ(result.tokens, result.expected);
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, IsTheSameOnEveryMesh) {
  std::vector<double> tokens;
  {
    Mesh mesh(Environment{}, MeshShape{});
    const Sampled alone = sampled(mesh);
    tokens.assign(alone.tokens.begin(), alone.tokens.end());
  }
  std::vector<testing::Report> reports;
  for (const MeshShape shape : {MeshShape{{1, 1, 1, 1, 2}}, MeshShape{{2, 1, 1, 1, 1}}, MeshShape{{1, 1, 2, 1, 1}},
                                MeshShape{{1, 2, 1, 1, 1}}}) {
    const auto of_mesh = testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
      Mesh mesh(environment, shape);
      const Sampled result = sampled(mesh);
      EXPECT_EQ(std::count(result.sizes.begin(), result.sizes.end(), 1), 8);
      return testing::Report(result.tokens.begin(), result.tokens.end());
    });
    reports.insert(reports.end(), of_mesh.begin(), of_mesh.end());
  }
  for (const auto& report : reports) EXPECT_EQ(report, tokens);
}

/// A small Llama that records the rows and tokens of each forward.
class Batches {
 public:
  explicit Batches(Mesh& mesh, const std::function<void(llama::LlamaConfig&)>& configure = {},
                   const std::function<void(Outputs&)>& change = {}) {
    at::set_num_threads(1);
    entry_.make = [this, change, make = entry_.make](const AnyConfig& config) {
      Model model = make(config);
      model.forward = [this, change, forward = model.forward](const Batch& batch) {
        forwards.emplace_back(batch.input_ids.size(0), batch.input_ids.size(1));
        Outputs outputs = forward(batch);
        if (change) change(outputs);
        return outputs;
      };
      return model;
    };
    config_ = testing::tiny_config(entry_, {{"initializer_range", 0.6}});
    if (configure) configure(dynamic_cast<ConfigOf<llama::LlamaConfig>&>(*config_).value);
    model_.emplace(entry_, *config_, mesh, ParallelOptions(), /*seed=*/5);
  }

  std::vector<std::vector<int64_t>> continued(const std::vector<std::vector<int64_t>>& prompts, int64_t batch,
                                              double temperature = 0.0, const std::vector<int64_t>& ends = {}) {
    forwards.clear();
    SampleSection section = options(temperature, /*top_k=*/0);
    section.tokens = kTokens, section.batch = batch;
    return sample(*model_, prompts, section, kContext, /*seed=*/1, ends);
  }

  std::vector<std::pair<int64_t, int64_t>> forwards;

 private:
  Entry entry_ = testing::get_entry("LlamaForCausalLM");
  std::unique_ptr<AnyConfig> config_;
  std::optional<ParallelModel> model_;
};

// The last tokens of each text are generated while its context slides, of the longer prompts first.
const std::vector<std::vector<int64_t>> kPrompts = {{3, 1, 4, 1}, {5, 9}, {2, 6, 5, 3, 5, 8, 9}, {7, 9, 3, 2}, {3}};

/// The result of each prompt in a batch of its own.
std::vector<std::vector<int64_t>> one_by_one(Batches& model, double temperature) {
  return model.continued(kPrompts, /*batch=*/1, temperature);
}

TEST(SampleBatches, MatchEachPromptAlone) {
  Mesh mesh(Environment{}, MeshShape{});
  Batches model(mesh);
  for (const double temperature : {0.0, 1.0}) {
    const auto expected = one_by_one(model, temperature);
    for (const int64_t batch : {2, 3, 16}) EXPECT_EQ(model.continued(kPrompts, batch, temperature), expected) << batch;
  }
}

TEST(SampleBatches, SampleEachTextIndependently) {
  Mesh mesh(Environment{}, MeshShape{});
  Batches model(mesh);
  const auto texts = model.continued({{3, 1, 4, 1}, {3, 1, 4, 1}}, /*batch=*/2, /*temperature=*/1.0);
  EXPECT_NE(texts[0], texts[1]) << "the same numbers for both";
  EXPECT_EQ(model.continued({{3, 1, 4, 1}}, /*batch=*/1, /*temperature=*/1.0)[0], texts[0]);
}

TEST(SampleBatches, ReadEachTokenOnce) {
  Mesh mesh(Environment{}, MeshShape{});
  Batches model(mesh);
  model.continued({{3, 1, 4, 1}, {5, 9}}, /*batch=*/2);
  // The shortest text, padded and with its first cached token, is compared with the text alone. The first text slides
  // from its 13th token on.
  std::vector<std::pair<int64_t, int64_t>> expected = {{2, 4}, {1, 2}, {2, 1}, {1, 3}};
  for (int i = 0; i < 7; ++i) expected.emplace_back(2, 1);
  for (int i = 0; i < 2; ++i) expected.insert(expected.end(), {{1, 12}, {1, 1}});
  for (int i = 0; i < 5; ++i) expected.emplace_back(2, 12);
  EXPECT_EQ(model.forwards, expected);
}

TEST(SampleBatches, DropFinishedTexts) {
  Mesh mesh(Environment{}, MeshShape{});
  Batches model(mesh);
  const auto unending = model.continued(kPrompts, /*batch=*/16);
  const int64_t end = unending[2][3];
  const auto texts = model.continued(kPrompts, /*batch=*/16, /*temperature=*/0.0, {end});
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto until = std::ranges::find(unending[i], end);
    EXPECT_EQ(texts[i], std::vector<int64_t>(unending[i].begin(), until)) << i;
  }
  EXPECT_LT(model.forwards.back().first, 5);
}

TEST(SampleBatches, RunByLengthIfPaddingCannotBeMasked) {
  Mesh mesh(Environment{}, MeshShape{});
  Batches by_itself(mesh, {}, [](Outputs& outputs) { outputs.logits = outputs.logits.cumsum(1); });
  EXPECT_EQ(by_itself.continued(kPrompts, /*batch=*/16), one_by_one(by_itself, 0.0));
  Batches by_length(mesh, [](llama::LlamaConfig& config) {
    config.max_position_embeddings = 5;
    config.rope_parameters.rope_type = "dynamic";
    config.rope_parameters.factor = 4.0;
  });
  EXPECT_EQ(by_length.continued(kPrompts, /*batch=*/16), one_by_one(by_length, 0.0));
}

TEST(SampleBatches, AreTheSameOnEveryMesh) {
  const auto flat = [](const std::vector<std::vector<int64_t>>& texts) {
    testing::Report report;
    for (const auto& text : texts) report.insert(report.end(), text.begin(), text.end());
    return report;
  };
  testing::Report expected;
  std::vector<testing::Report> reports;
  {
    Mesh mesh(Environment{}, MeshShape{});
    Batches alone(mesh);
    expected = flat(alone.continued(kPrompts, /*batch=*/3, /*temperature=*/1.0));
  }
  for (const MeshShape shape : {MeshShape{{1, 1, 1, 1, 2}}, MeshShape{{2, 1, 1, 1, 1}}, MeshShape{{1, 1, 2, 1, 1}}}) {
    const auto of_ranks = testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
      Mesh own(environment, shape);
      Batches model(own);
      return flat(model.continued(kPrompts, /*batch=*/3, /*temperature=*/1.0));
    });
    reports.insert(reports.end(), of_ranks.begin(), of_ranks.end());
  }
  for (const auto& report : reports) EXPECT_EQ(report, expected);
}

}  // namespace
}  // namespace modular
