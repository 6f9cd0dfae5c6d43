// How the next token is chosen, and what it is chosen from.
#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

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
  EXPECT_EQ(tokens_of(text), (std::vector<int64_t>{'a', 255, 0, 'b'}));
  EXPECT_EQ(text_of(tokens_of(text)), text);
}

constexpr int64_t kContext = 12, kPrompt = 4, kTokens = 16;

/// The number of tokens of each forward.
using Sizes = std::vector<int64_t>;

struct Sampled {
  std::vector<int64_t> tokens, expected;
  Sizes sizes;
};

/// Samples without chance from a small Llama on `mesh`, whose outputs `change` may change; `expected` is what whole
/// contexts say.
Sampled sampled(Mesh& mesh, const std::function<void(llama::LlamaConfig&)>& configure = {},
                const std::function<void(Outputs&)>& change = {}) {
  at::set_num_threads(1);
  Sizes sizes;
  Entry entry = testing::entry_of("LlamaForCausalLM");
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
  result.tokens = sample(model, text, section, kContext, /*seed=*/1, /*ends=*/{});
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
  // The first cached token is held against the whole text. The last 8 contexts slide.
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 1, 1, 1, 1, 1, 1, 1, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, BeginsANewCacheWhereRotaryTablesChange) {
  Mesh mesh(Environment{}, MeshShape{});
  const Sampled result = sampled(mesh, [](llama::LlamaConfig& config) {
    config.max_position_embeddings = 10;
    config.rope_parameters.rope_type = "dynamic";
    config.rope_parameters.factor = 4.0;
  });
  EXPECT_EQ(result.tokens, result.expected);
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 1, 1, 1, 1, 1, 1, 11, 1, 12, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, DoesWithoutACacheWhereAModelLooksAlongTheSequenceByItself) {
  Mesh mesh(Environment{}, MeshShape{});
  const Sampled result = sampled(mesh, {}, [](Outputs& outputs) { outputs.logits = outputs.logits.cumsum(1); });
  EXPECT_EQ(result.tokens, result.expected);
  EXPECT_EQ(result.sizes, (Sizes{4, 1, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12, 12, 12, 12, 12}));
}

TEST(Sample, EveryMeshWritesTheSame) {
  std::vector<double> tokens;
  {
    Mesh mesh(Environment{}, MeshShape{});
    const Sampled alone = sampled(mesh);
    tokens.assign(alone.tokens.begin(), alone.tokens.end());
  }
  std::vector<testing::Report> reports;
  for (const MeshShape shape : {MeshShape{{1, 1, 1, 1, 1, 2}}, MeshShape{{2, 1, 1, 1, 1, 1}},
                                MeshShape{{1, 1, 2, 1, 1, 1}}, MeshShape{{1, 2, 1, 1, 1, 1}}}) {
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

}  // namespace
}  // namespace modular
