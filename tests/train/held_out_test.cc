// Of several sets, a metric is told of all together only where it follows from each one's.
#include "runtime/train/held_out.h"

#include <gtest/gtest.h>

#include "generated/bert.h"
#include "runtime/checkpoint/model_config.h"

namespace modular {
namespace {

bool is_told(const char* metric, const char* architecture, const char* problem = "") {
  const std::string fields = std::string(R"({"architectures": [")") + architecture + R"("]})";
  const ModelConfig model = parse_config(fields, "config.json");
  return is_told_of_all_sets(find_metric(metric, model.entry->task, problem), model);
}

TEST(HeldOut, MeansOverTargetsAreToldOfAllSetsTogether) {
  EXPECT_TRUE(is_told("accuracy", "BertForSequenceClassification"));
  EXPECT_TRUE(is_told("perplexity", "BertForMaskedLM"));
  EXPECT_FALSE(is_told("f1", "BertForSequenceClassification"));
  EXPECT_FALSE(is_told("mrr@10", "BertModel"));
}

TEST(HeldOut, ACorrelationOverAllIsNoMeanOfThoseOverEach) {
  EXPECT_FALSE(is_told("pearson", "BertForSequenceClassification", "regression"));
  EXPECT_FALSE(is_told("spearman", "BertModel"));
}

}  // namespace
}  // namespace modular
