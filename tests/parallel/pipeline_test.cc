// A small model split into stages, compared with the same model on one process.
#include "runtime/parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "runtime/model/functions.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

constexpr int64_t kVocabulary = 11, kWidth = 6;

/// An embedding table, layers of tanh(x W), and logits from the same table: tied, so that two stages share it.
struct TinyModel {
  Tensor table = at::randn({kVocabulary, kWidth}).requires_grad_();
  std::vector<Tensor> layers;

  explicit TinyModel(int64_t count) {
    for (int64_t i = 0; i < count; ++i) layers.push_back(at::randn({kWidth, kWidth}).div_(2).requires_grad_());
  }

  Outputs forward(const Batch& batch) const {
    Tensor x = pp::is_first() ? at::embedding(table, batch.input_ids) : pp::received();
    const auto [first, last] = bound.stage ? bound.stage->span(static_cast<int64_t>(layers.size()))
                                           : std::pair<int64_t, int64_t>(0, layers.size());
    for (int64_t i = first; i < last; ++i) x = at::tanh(at::matmul(x, layers[static_cast<size_t>(i)]));
    if (!pp::is_last()) return pp::pass_on(x);
    Outputs outputs;
    const Tensor logits = at::matmul(x, table.t());
    if (batch.labels.defined()) {
      const Tensor targets = next_tokens(batch.labels);
      outputs.loss_sum = cross_entropy(logits, targets);
      outputs.token_count = count_targets(targets);
    }
    if (batch.want_logits) outputs.logits = logits;
    return outputs;
  }

  StageFunctions functions() const {
    return {[this](const Batch& batch) { return forward(batch); },
            [](const PipelineAction&, const std::function<void()>& autograd) { autograd(); }};
  }
};

/// Micro-batches; the last has a different shape.
std::vector<Batch> micro_batches(int64_t count) {
  std::vector<Batch> result;
  for (int64_t i = 0; i < count; ++i) {
    Batch batch;
    batch.input_ids = at::randint(0, kVocabulary, {2, i + 1 == count ? 4 : 5}, at::kLong);
    batch.labels = batch.input_ids.clone();
    batch.labels[0][2] = kIgnoredTarget;
    result.push_back(batch);
  }
  return result;
}

Mesh pipeline_mesh(const Environment& environment) {
  MeshShape shape;
  shape[Axis::pp] = environment.world_size;
  return Mesh(environment, shape, {.device = at::kCPU});
}

struct Sums {
  double loss_sum = 0.0;
  int64_t token_count = 0;
};

/// Results of all stages together.
Sums over_stages(const Pipeline& pipeline, const PipelineSums& own) {
  const auto value = [](const Tensor& sum) { return sum.defined() ? sum.item<double>() : 0.0; };
  const auto sums = pipeline.sum({value(own.loss_sum), value(own.token_count)}, "the sums");
  return {sums[0], static_cast<int64_t>(sums[1])};
}

struct Case {
  int ranks;
  std::string schedule;
  int64_t micro_batches;
  int64_t stages_per_rank = 0;
  std::vector<int64_t> cuts = {};
  bool can_cut = true;
};

std::string name_for(const Case& one) { return one.schedule + std::to_string(one.ranks) + "Ranks"; }

void PrintTo(const Case& one, std::ostream* out) { *out << name_for(one); }

/// Balanced cuts of layers with equal costs.
PipelineOptions to_options(const Case& given, int64_t layers) {
  PipelineOptions options = {.schedule = given.schedule, .stages_per_rank = given.stages_per_rank, .cuts = given.cuts};
  options.cuts = stage_cuts(options, given.ranks, std::vector<int64_t>(static_cast<size_t>(layers), 1));
  return options;
}

constexpr int64_t kLayers = 9;

/// Trains two steps and compares loss and gradients with one process.
void expect_same_gradients(const Environment& environment, const Case& given) {
  at::manual_seed(3);
  const TinyModel model(kLayers);
  TinyModel full(model);
  full.table = model.table.detach().clone().requires_grad_();
  for (Tensor& layer : full.layers) layer = layer.detach().clone().requires_grad_();

  Mesh mesh = pipeline_mesh(environment);
  Pipeline pipeline(mesh, to_options(given, kLayers));
  StageFunctions functions = model.functions();
  functions.can_cut = given.can_cut;
  const std::vector<StageOnRank> stages = pipeline.own_stages();
  for (int step = 0; step < 2; ++step) {  // twice: shapes are known in the second step
    const auto batches = micro_batches(given.micro_batches);
    double expected_loss = 0.0;
    int64_t expected_count = 0;
    for (const Batch& batch : batches) {
      const Outputs outputs = full.forward(batch);
      expected_loss += outputs.loss_sum.item<double>();
      expected_count += outputs.token_count.item<int64_t>();
      (outputs.loss_sum * 0.5).backward();
    }

    Sums sums;
    {
      const Binding binding({.stage = &pipeline});
      sums = over_stages(pipeline, pipeline.train(batches, functions, 0.5));
    }
    EXPECT_NEAR(sums.loss_sum, expected_loss, 1e-5 * expected_loss);
    EXPECT_EQ(sums.token_count, expected_count);

    for (const StageOnRank& stage : stages) {
      const auto [first, last] = stage.span(kLayers);
      EXPECT_LT(first, last);
      for (int64_t i = first; i < last; ++i)
        EXPECT_TRUE(model.layers[i].grad().allclose(full.layers[i].grad(), 1e-5, 1e-6)) << "layer " << i;
    }
  }
  std::vector<Tensor> shared;
  if (std::ranges::any_of(stages, [](const StageOnRank& stage) { return stage.is_first() || stage.is_last(); }))
    shared.push_back(model.table.grad());
  pipeline.sum_between_ends(shared);
  for (const Tensor& gradient : shared)
    EXPECT_TRUE(gradient.allclose(full.table.grad(), 1e-5, 1e-5)) << "of the shared table";
  barrier(mesh.world(), "the end");
}

class PipelineTest : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineTest, TrainsLikeOneProcess) {
  const Case given = GetParam();
  run_ranks(given.ranks, [given](const Environment& environment) { expect_same_gradients(environment, given); });
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineTest,
    ::testing::Values(Case{2, "1f1b", 1}, Case{2, "1f1b", 5}, Case{3, "1f1b", 2}, Case{4, "1f1b", 9},
                      Case{3, "1f1b", 4, 0, {1, 7}}, Case{2, "gpipe", 4}, Case{3, "gpipe", 7},
                      Case{2, "interleaved", 4}, Case{3, "interleaved", 6}, Case{2, "interleaved", 2, 4},
                      Case{2, "interleaved", 4, 2, {1, 2, 8}}, Case{2, "looped-bfs", 20}, Case{3, "looped-bfs", 4},
                      Case{2, "interleaved-zero-bubble", 4}, Case{4, "interleaved-zero-bubble", 8},
                      Case{3, "interleaved-zero-bubble", 4, 1}, Case{2, "interleaved-zero-bubble", 4, 2, {}, false},
                      Case{2, "zbv", 1}, Case{2, "zbv", 6}, Case{3, "zbv", 5}, Case{4, "zbv", 8},
                      Case{2, "zbv", 4, 2, {}, false}, Case{2, "dualpipev", 5}, Case{3, "dualpipev", 6}),
    [](const auto& info) {
      std::string name = std::to_string(info.index) + name_for(info.param);
      std::erase(name, '-');
      return name;
    });

/// Two stacks in double precision: layers tanh(x W), whose mean over the sequence is an input of every layer tanh(y W +
/// mean).
struct TinyStacks {
  Tensor table = at::randn({kVocabulary, kWidth}, at::kDouble).requires_grad_();
  std::vector<Tensor> first, second;

  TinyStacks(int64_t first_layers, int64_t second_layers) {
    for (auto& [layers, count] : {std::pair(&first, first_layers), std::pair(&second, second_layers)})
      for (int64_t i = 0; i < count; ++i)
        layers->push_back(at::randn({kWidth, kWidth}, at::kDouble).div_(2).requires_grad_());
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> parameters = {table};
    parameters.insert(parameters.end(), first.begin(), first.end());
    parameters.insert(parameters.end(), second.begin(), second.end());
    return parameters;
  }

  static std::pair<int64_t, int64_t> span(const std::vector<Tensor>& layers) {
    const auto size = static_cast<int64_t>(layers.size());
    return bound.stage ? bound.stage->span(size) : std::pair<int64_t, int64_t>(0, size);
  }
  Tensor read(const Batch& batch) const {
    Tensor x = pp::is_first() ? at::embedding(table, batch.input_ids) : pp::received();
    const auto [begin, end] = span(first);
    for (int64_t i = begin; i < end; ++i) x = at::tanh(at::matmul(x, first[static_cast<size_t>(i)]));
    if (!pp::is_last()) return x;
    return x.mean(1, /*keepdim=*/true);
  }
  Outputs forward(const Batch& batch) const {
    const Tensor mean = pp::first_stack() ? read(batch) : pp::received();
    if (!pp::second_stack(mean)) return pp::pass_on(mean);
    Tensor y = pp::is_first() ? at::embedding(table, batch.input_ids.flip(1)) : pp::received();
    const auto [begin, end] = span(second);
    for (int64_t i = begin; i < end; ++i) y = at::tanh(at::matmul(y, second[static_cast<size_t>(i)]) + mean);
    if (!pp::is_last()) return pp::pass_on(y);
    Outputs outputs;
    outputs.loss_sum = (y * mean).square().sum();
    outputs.token_count = at::ones({}, at::kLong);
    return outputs;
  }
};

/// Compares a pipeline of two stacks with this many layers with one process.
void expect_same_stacks(const Environment& environment, const Case& given, int64_t first_layers,
                        int64_t second_layers) {
  at::manual_seed(5);
  const TinyStacks model(first_layers, second_layers);
  TinyStacks full(model);
  full.table = model.table.detach().clone().requires_grad_();
  for (auto* layers : {&full.first, &full.second})
    for (Tensor& layer : *layers) layer = layer.detach().clone().requires_grad_();
  Mesh mesh = pipeline_mesh(environment);
  Pipeline pipeline(mesh, to_options(given, first_layers + second_layers), {first_layers, second_layers});
  StageFunctions functions = {[&](const Batch& batch) { return model.forward(batch); },
                              [](const PipelineAction&, const std::function<void()>& autograd) { autograd(); }};
  functions.can_cut = given.can_cut;
  for (int step = 0; step < 2; ++step) {
    const auto batches = micro_batches(given.micro_batches);
    double expected_loss = 0.0;
    for (const Batch& batch : batches) {
      const Outputs outputs = full.forward(batch);
      expected_loss += outputs.loss_sum.item<double>();
      (outputs.loss_sum * 0.5).backward();
    }
    Sums sums;
    {
      const Binding binding({.stage = &pipeline});
      sums = over_stages(pipeline, pipeline.train(batches, functions, 0.5));
    }
    EXPECT_NEAR(sums.loss_sum, expected_loss, 1e-10 * expected_loss);
  }
  const auto own = model.all(), expected = full.all();
  for (size_t i = 0; i < own.size(); ++i) {  // each stage has a part of them
    Tensor sum = own[i].grad().defined() ? own[i].grad().clone() : at::zeros_like(own[i]);
    all_reduce(mesh.world(), sum, "a gradient").wait();
    EXPECT_TRUE(sum.allclose(expected[i].grad(), 1e-10, 1e-12)) << "parameter " << i;
  }
  barrier(mesh.world(), "the end");
}

class PipelineOfStacks : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineOfStacks, TrainsLikeOneProcess) {
  const Case given = GetParam();
  run_ranks(given.ranks, [given](const Environment& environment) { expect_same_stacks(environment, given, 5, 4); });
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelineOfStacks,
    ::testing::Values(Case{2, "1f1b", 3}, Case{2, "1f1b", 3, 0, {5}}, Case{3, "1f1b", 4}, Case{3, "1f1b", 4, 0, {6, 7}},
                      Case{3, "1f1b", 4, 0, {2, 5}}, Case{4, "gpipe", 5}, Case{4, "1f1b", 9}, Case{2, "interleaved", 4},
                      Case{2, "interleaved", 2, 4}, Case{3, "looped-bfs", 4}, Case{2, "interleaved-zero-bubble", 4},
                      Case{3, "interleaved-zero-bubble", 4, 1}, Case{2, "zbv", 6}, Case{4, "zbv", 8},
                      Case{2, "zbv", 4, 2, {}, false}, Case{2, "zbv", 4, 2, {1, 5, 7}}, Case{3, "dualpipev", 6}),
    [](const auto& info) {
      std::string name = std::to_string(info.index) + name_for(info.param);
      std::erase(name, '-');
      return name;
    });

TEST(Pipeline, RunsAScheduleFile) {
  // Stages in any order, with different numbers of actions.
  const std::string file = ::testing::TempDir() + "/uneven.csv";
  std::ofstream(file) << "0F0,1F0,0F1,1F1,,1I0,0B0,1B1,1W0,0B1\n2F0,2B0,2F1,2B1\n";
  run_ranks(2, [&](const Environment& environment) {
    expect_same_gradients(environment, {.ranks = 2, .schedule = file, .micro_batches = 2});
  });
}

class PipelineEvaluation : public ::testing::TestWithParam<const char*> {};

TEST_P(PipelineEvaluation, ReturnsTheLogitsOnAllRanks) {
  const std::string schedule = GetParam();
  run_ranks(3, [schedule](const Environment& environment) {
    at::manual_seed(3);
    const TinyModel model(/*count=*/7);
    auto batches = micro_batches(20);  // more than may be in flight at once
    double expected_loss = 0.0;
    Tensor expected_logits;
    {
      at::NoGradGuard no_grad;
      for (const Batch& batch : batches) expected_loss += model.forward(batch).loss_sum.item<double>();
      Batch with_logits = batches[0];
      with_logits.want_logits = true;
      expected_logits = model.forward(with_logits).logits;
    }
    Mesh mesh = pipeline_mesh(environment);
    Pipeline pipeline(mesh, to_options({.ranks = 3, .schedule = schedule, .micro_batches = 20}, /*layers=*/7));
    const Binding binding({.stage = &pipeline});
    const Sums sums = over_stages(pipeline, pipeline.evaluate(batches, model.functions()));
    EXPECT_NEAR(sums.loss_sum, expected_loss, 1e-5 * expected_loss);
    Batch unlabelled = batches[0];
    unlabelled.labels.reset();
    EXPECT_TRUE(pipeline.logits(unlabelled, model.functions()).allclose(expected_logits, 1e-5, 1e-6));
    EXPECT_FALSE(model.table.grad().defined());
    barrier(mesh.world(), "the end");
  });
}

INSTANTIATE_TEST_SUITE_P(Placements, PipelineEvaluation, ::testing::Values("1f1b", "interleaved", "zbv"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Pipeline, SendsFeaturesOfVaryingNumbersOfImages) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh = pipeline_mesh(environment);
    Pipeline pipeline(mesh, {.cuts = {1}});
    const Binding binding({.stage = &pipeline});
    std::vector<Batch> batches(3);
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i].input_ids = at::zeros({2, 3}, at::kLong);
      batches[i].pixel_values = at::ones({static_cast<int64_t>(2 + i % 2), 1, 4, 4});
    }
    const auto forward = [](const Batch& batch) {
      const Tensor images = pp::is_first() ? batch.pixel_values.flatten(1) : pp::received();
      if (!pp::is_last()) return pp::pass_on(images);
      EXPECT_EQ(images.sizes(), at::IntArrayRef({batch.pixel_values.size(0), 16}));
      Outputs outputs;
      outputs.loss_sum = images.sum();
      outputs.token_count = at::ones({}, at::kLong);
      return outputs;
    };
    EXPECT_EQ(over_stages(pipeline, pipeline.evaluate(batches, {forward, nullptr})).loss_sum, (2 + 3 + 2) * 16);
    barrier(mesh.world(), "the end");
  });
}

}  // namespace
}  // namespace modular
