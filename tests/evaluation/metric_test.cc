// The metrics of each task, errors for invalid metric names, and ties between logits.
#include "runtime/evaluation/metric.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <stdexcept>

#include "runtime/model/tasks.h"

namespace modular {
namespace {

std::string error(const std::string& name, std::string_view task) {
  try {
    find_metric(name, task);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Metric, FindsMetricsOfATaskByName) {
  EXPECT_EQ(find_metric("recall@20", "next-item").cutoff, 20);
  EXPECT_EQ(find_metric("mrr", "sentence-embedding").cutoff, 0);
  EXPECT_EQ(error("accuracy", "sequence-classification"), "");
  for (const Task& task : kTasks)
    for (const std::string& name : usual_metrics(task.name)) EXPECT_EQ(error(name, task.name), "") << task.name;
}

TEST(Metric, RejectsOtherNamesAndListsTheValidOnes) {
  EXPECT_EQ(error("perplexity", "next-item"),
            "\"perplexity\" is not a metric of next-item: use one of accuracy, f1, recall@20, mrr@20, ndcg@20");
  EXPECT_EQ(error("precision", "sentence-embedding"),
            "\"precision\" is not a metric of sentence-embedding: use one of recall@20, mrr@20, ndcg@20, pearson, "
            "spearman, mse, mae");
  const auto find_error = [](const char* name, const char* problem) {
    try {
      find_metric(name, "sequence-classification", problem);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(find_error("accuracy", "regression"),
            "\"accuracy\" is not a metric of sequence-classification: use one of pearson, spearman, mse, mae");
  EXPECT_EQ(find_error("recall@3", "multi_label_classification"),
            "\"recall@3\" is not a metric of sequence-classification: use one of accuracy, f1");
  EXPECT_EQ(
      find_error("pearson", ""),
      "\"pearson\" is not a metric of sequence-classification: use one of accuracy, f1, recall@20, mrr@20, ndcg@20");
  EXPECT_EQ(error("accuracy", "contrastive-pairs"),
            "\"accuracy\" is not a metric of contrastive-pairs, which has none");
  EXPECT_EQ(error("recall", "next-item"), "\"recall\" needs a cutoff, e.g. recall@20");
  EXPECT_EQ(error("f1@3", "next-item"), "\"f1@3\" takes no cutoff: write f1");
  for (const char* name : {"mrr@0", "mrr@-1", "mrr@", "mrr@1x", "mrr@99999999999999999999"})
    EXPECT_EQ(error(name, "next-item"),
              "\"" + std::string(name) + "\" needs a cutoff of at least 1 after the \"@\", e.g. mrr@20");
}

TEST(Metric, RanksTheLowerClassFirstOfEqualLogits) {
  ClassCounts counts = ClassCounts::zeros(4);
  counts.add(at::tensor({1.0, 2.0, 2.0, 2.0}).unsqueeze(0), at::tensor({2}, at::kLong));
  counts.add(at::zeros({2, 4}), at::tensor({int64_t{0}, kIgnoredTarget}));
  EXPECT_TRUE(counts.target_ranks.equal(at::tensor({1, 1, 0, 0}, at::kLong)));
  EXPECT_TRUE(counts.predicted.equal(at::tensor({1, 1, 0, 0}, at::kLong)));
  EXPECT_TRUE(counts.actual.equal(at::tensor({1, 0, 1, 0}, at::kLong)));
  EXPECT_TRUE(counts.correct.equal(at::tensor({1, 0, 0, 0}, at::kLong)));
  EXPECT_EQ(get_value(find_metric("mrr", "next-item"), counts, 0.0), 0.75);
}

TEST(Metric, FollowsItsDefinitionForSeveralCorrectAnswers) {
  const std::array<int64_t, 3> ranks = {2, 3, 9};
  const auto value = [&](const char* name) { return gain(find_metric(name, "sentence-embedding"), ranks); };
  EXPECT_EQ(value("recall@3"), 2.0 / 3.0);
  EXPECT_EQ(value("mrr@1"), 0.0);
  EXPECT_EQ(value("mrr@2"), 0.5);
  EXPECT_NEAR(value("ndcg@3"), (1 / std::log2(3.0) + 0.5) / (1 + 1 / std::log2(3.0) + 0.5), 1e-15);
  EXPECT_NEAR(value("ndcg@2"), (1 / std::log2(3.0)) / (1 + 1 / std::log2(3.0)), 1e-15);
}

TEST(Metric, IsZeroWithoutTargets) {
  const ClassCounts counts = ClassCounts::zeros(3);
  for (const char* name : {"accuracy", "f1", "mrr", "ndcg@2"})
    EXPECT_EQ(get_value(find_metric(name, "next-item"), counts, 0.0), 0.0);
  EXPECT_EQ(get_value(find_metric("perplexity", "causal-lm"), {}, 2.0), std::exp(2.0));
}

}  // namespace
}  // namespace modular
