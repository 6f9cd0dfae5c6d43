// Losses over a sample of classes: values and gradients, the sampling distribution, and equal training on every mesh.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "runtime/parallel/objectives/class_sampler.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

// Six heads can be sharded over two and over three ranks; the 61 items without padding over neither.
const Fields kSession = {{"n_embd", int64_t{36}},   {"n_head", int64_t{6}},       {"n_layer", int64_t{4}},
                         {"item_dim", int64_t{12}}, {"softmax_temperature", 0.7}, {"resid_pdrop", 0.1}};
const SampledSoftmaxOptions kOptions = {.samples = 12};

struct Example {
  at::Tensor hidden, weight, bias, targets;
  SampledClasses classes;
};

Example example() {
  at::manual_seed(3);
  const int64_t classes = 9, dim = 4;
  Example result{at::randn({2, 3, dim}),
                 at::randn({classes, dim}),
                 at::randn({classes}),
                 at::tensor(std::vector<int64_t>{1, 5, kIgnoredTarget, 8, 2, 5}, at::kLong).view({2, 3}),
                 {}};
  result.classes.ids = at::tensor(std::vector<int64_t>{1, 2, 4, 5, 7}, at::kLong);
  result.classes.log_counts = at::randn({classes});
  for (at::Tensor* tensor : {&result.hidden, &result.weight, &result.bias}) tensor->requires_grad_();
  return result;
}

/// The loss in scalar arithmetic for the example with `add` added to element `index` of tensor number `which`.
double loss_by_hand(const Example& given, double temperature, int which = 0, int64_t index = 0, double add = 0.0) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : {given.hidden, given.weight, given.bias})
    tensors.push_back(tensor.detach().to(at::kDouble).clone());
  tensors[static_cast<size_t>(which)].flatten()[index] += add;
  const int64_t dim = tensors[1].size(1);
  const auto* const states = tensors[0].const_data_ptr<double>();
  const auto* const weight = tensors[1].const_data_ptr<double>();
  const auto* const bias = tensors[2].const_data_ptr<double>();
  const auto* const targets = given.targets.const_data_ptr<int64_t>();
  const auto* const logs = given.classes.log_counts.const_data_ptr<float>();
  const auto* const ids = given.classes.ids.const_data_ptr<int64_t>();
  double sum = 0.0;
  for (int64_t position = 0; position < given.targets.numel(); ++position) {
    const auto corrected = [&](int64_t item) {
      const double logit =
          std::inner_product(states + position * dim, states + (position + 1) * dim, weight + item * dim, bias[item]);
      return logit / temperature - logs[item];
    };
    if (targets[position] == kIgnoredTarget) continue;
    const double own = corrected(targets[position]);
    double all = std::exp(own);
    for (int64_t i = 0; i < given.classes.ids.numel(); ++i)
      if (ids[i] != targets[position]) all += std::exp(corrected(ids[i]));
    sum += std::log(all) - own;
  }
  return sum;
}

TEST(SampledSoftmax, MatchesItsFormula) {
  const Example given = example();
  Parallel parallel;
  parallel.sampled = &given.classes;
  const Binding binding(parallel);
  constexpr double kTemperature = 0.6, kStep = 1e-4;
  const at::Tensor loss = sampled_cross_entropy(given.hidden, given.weight, given.bias, given.targets, kTemperature);
  EXPECT_NEAR(loss.item<double>(), loss_by_hand(given, kTemperature), 1e-5);
  loss.backward();
  int which = 0;
  for (const at::Tensor& tensor : {given.hidden, given.weight, given.bias}) {
    for (int64_t index = 0; index < tensor.numel(); ++index) {
      const double slope = (loss_by_hand(given, kTemperature, which, index, kStep) -
                            loss_by_hand(given, kTemperature, which, index, -kStep)) /
                           (2 * kStep);
      EXPECT_NEAR(tensor.grad().flatten()[index].item<double>(), slope, 1e-5) << which << ", " << index;
    }
    ++which;
  }
  // Rows of classes that are neither targets nor in the sample.
  for (const int64_t item : {0, 3, 6}) EXPECT_EQ(given.weight.grad()[item].abs().sum().item<double>(), 0.0);
}

TEST(SampledSoftmax, NeedsASample) {
  const Example given = example();
  EXPECT_FALSE(samples_classes());
  EXPECT_THROW(sampled_cross_entropy(given.hidden, given.weight, given.bias, given.targets, 1.0), c10::Error);
}

class ClassSamples : public ::testing::TestWithParam<const char*> {};

TEST_P(ClassSamples, AppearWithTheirExpectedCounts) {
  constexpr int64_t kClasses = 40, kSamples = 10, kSteps = 20'000;
  ClassSampler sampler({.samples = kSamples, .distribution = GetParam()}, kClasses, /*seed=*/5, at::kCPU);
  // Directly from the distributions, in scalar arithmetic, for the number of tries with this expected sample size.
  const auto probability = [&](int64_t item) {
    return std::string(GetParam()) == "uniform" ? 1.0 / (kClasses - 1)
                                                : std::log((item + 1.0) / item) / std::log(kClasses);
  };
  const auto chances = [&](int64_t tries) {
    std::vector<double> found(1);
    for (int64_t item = 1; item < kClasses; ++item) found.push_back(1.0 - std::pow(1.0 - probability(item), tries));
    return found;
  };
  int64_t tries = 1;
  std::vector<double> expected = chances(tries);
  while (std::reduce(expected.begin(), expected.end()) < kSamples) expected = chances(++tries);
  std::vector<double> counts(kClasses), scores(kClasses);
  for (size_t item = 0; item < scores.size(); ++item) scores[item] = std::exp(std::sin(static_cast<double>(item)));
  double estimate = 0.0, distinct = 0.0;
  for (int64_t step = 0; step < kSteps; ++step) {
    sampler.sample(step);
    const SampledClasses& sampled = sampler.sampled();
    std::set<int64_t> seen;
    for (int64_t i = 0; i < sampled.ids.numel(); ++i) {
      const auto item = sampled.ids[i].item<int64_t>();
      EXPECT_TRUE(item > 0 && item < kClasses && seen.insert(item).second) << item;
      counts[static_cast<size_t>(item)] += 1.0 / kSteps;
      estimate += scores[static_cast<size_t>(item)] / std::exp(sampled.log_counts[item].item<double>()) / kSteps;
    }
    distinct += static_cast<double>(seen.size()) / kSteps;
  }
  EXPECT_NEAR(distinct, kSamples, 0.5);
  EXPECT_GE(distinct, kSamples - 0.05);
  const at::Tensor logs = sampler.sampled().log_counts;
  for (int64_t item = 1; item < kClasses; ++item) {
    const double chance = expected[static_cast<size_t>(item)];
    EXPECT_NEAR(std::exp(logs[item].item<double>()), chance, 1e-5) << item;
    EXPECT_NEAR(counts[static_cast<size_t>(item)], chance, 5 * std::sqrt(chance * (1 - chance) / kSteps)) << item;
  }
  // Purpose of the correction: a sample's sum estimates the sum over all classes.
  const double all = std::reduce(scores.begin() + 1, scores.end());
  EXPECT_NEAR(estimate, all, 0.02 * all);
}

INSTANTIATE_TEST_SUITE_P(Distributions, ClassSamples, ::testing::Values("log-uniform", "uniform"));

TEST(SampledSoftmax, SamplesByOnlySeedAndStep) {
  const auto sample = [](uint64_t seed, int64_t step) {
    ClassSampler sampler({.samples = 20}, 5000, seed, at::kCPU);
    sampler.sample(step);
    return sampler.sampled().ids;
  };
  EXPECT_TRUE(sample(1, 3).equal(sample(1, 3)));
  EXPECT_FALSE(sample(1, 3).equal(sample(1, 4)));
  EXPECT_FALSE(sample(1, 3).equal(sample(2, 3)));
}

/// Also supports samples of nearly all classes.
TEST(SampledSoftmax, ReachesTheExpectedNumberOfSamples) {
  for (const auto distribution : {ClassDistribution::log_uniform, ClassDistribution::uniform})
    EXPECT_GE(sample_classes(distribution, 30, count_tries(distribution, 30, 28), /*key=*/1).size(), 26u);
}

Variant sampled(std::string name, int64_t micro_batches, ParallelOptions options = {}) {
  options.sampled_softmax = kOptions;
  return {.name = std::move(name), .fields = kSession, .options = std::move(options), .micro_batches = micro_batches};
}

ParallelOptions recomputed() {
  ParallelOptions options;
  options.recompute = true;
  return options;
}

ParallelOptions on_threads(int64_t threads) {
  ParallelOptions options;
  options.dp_threads = threads;
  return options;
}

struct Case {
  std::string name;
  std::string entry;
  MeshShape shape;
  std::vector<Variant> variants;
};
void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

std::vector<Case> cases() {
  return {
      {"OneProcess",
       "SessionForNextItem",
       {},
       {sampled("micro-batches, recomputed", 3, recomputed()), sampled("threads", 2, on_threads(3))}},
      {"Sharded3",
       "SessionForNextItem",
       {.size = {1, 1, 3, 1, 1}},
       {sampled("full batch", 1), sampled("micro-batches, recomputed", 4, recomputed())}},
      {"Replicated2Tensor2", "SessionForNextItem", {.size = {1, 2, 1, 1, 2}}, {sampled("micro-batches", 2)}},
  };
}

std::vector<Case> further_cases() {
  Variant untied = sampled("untied", 1);
  untied.fields["tie_word_embeddings"] = false;
  return {
      {"MaskedOnTensor3", "SessionForMaskedItem", {.size = {1, 1, 1, 1, 3}}, {sampled("uneven", 1)}},
      {"UntiedOnTensor3", "SessionForNextItem", {.size = {1, 1, 1, 1, 3}}, {untied}},
      {"Pipeline2Tensor2", "SessionForNextItem", {.size = {2, 1, 1, 1, 2}}, {sampled("micro-batches", 3)}},
  };
}

class SampledSoftmaxOnMeshes : public ::testing::TestWithParam<Case> {};

TEST_P(SampledSoftmaxOnMeshes, TrainsTheSame) {
  expect_same_training(GetParam().entry, GetParam().shape, GetParam().variants);
}

INSTANTIATE_TEST_SUITE_P(Meshes, SampledSoftmaxOnMeshes, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Release, SampledSoftmaxOnMeshes, ::testing::ValuesIn(further_cases()),
                         [](const auto& info) { return info.param.name; });

/// Evaluation of the same parameters has the same loss, whatever training samples; the training loss differs.
TEST(SampledSoftmax, AppliesOnlyToTraining) {
  const Entry& entry = get_entry("SessionForNextItem");
  Mesh alone({}, {}, {.device = at::kCPU});
  Batch batch;
  at::manual_seed(4);
  batch.input_ids = batch.labels = at::randint(1, 62, {6, 12}, at::kLong);
  std::vector<double> evaluated, trained;
  std::vector<at::Tensor> logits;
  for (const int64_t samples : {0, 12}) {
    ParallelOptions options;
    options.dropout = false;
    options.sampled_softmax.samples = samples;
    ParallelModel model(entry, *tiny_config(entry, kSession), alone, options, /*seed=*/1);
    trained.push_back(model.step({&batch, 1}, 7).loss);
    evaluated.push_back(model.evaluate({&batch, 1}).loss);
    logits.push_back(model.logits(batch));
  }
  EXPECT_EQ(evaluated[0], evaluated[1]);
  EXPECT_TRUE(logits[0].equal(logits[1]));
  EXPECT_EQ(trained[0], evaluated[0]);
  EXPECT_GT(std::abs(trained[1] - evaluated[1]), 1e-3);
}

}  // namespace
}  // namespace modular::testing
