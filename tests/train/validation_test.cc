// Of several sets, a metric is told of all together only where it follows from each one's.
#include "runtime/train/validation.h"

#include <gtest/gtest.h>

#include "runtime/checkpoint/model_config.h"

namespace modular {
namespace {

bool is_reported(const char* metric, const char* architecture, const char* problem = "") {
  const std::string fields = std::string(R"({"architectures": [")") + architecture + R"("]})";
  const ModelConfig model = parse_config(fields, "config.json");
  return has_value_over_all_sets(find_metric(metric, model.entry->task, problem), model);
}

TEST(HeldOut, MeansOverTargetsAreToldOfAllSetsTogether) {
  EXPECT_TRUE(is_reported("accuracy", "BertForSequenceClassification"));
  EXPECT_TRUE(is_reported("perplexity", "BertForMaskedLM"));
  EXPECT_FALSE(is_reported("f1", "BertForSequenceClassification"));
  EXPECT_FALSE(is_reported("mrr@10", "BertModel"));
}

TEST(HeldOut, ACorrelationOverAllIsNoMeanOfThoseOverEach) {
  EXPECT_FALSE(is_reported("pearson", "BertForSequenceClassification", "regression"));
  EXPECT_FALSE(is_reported("spearman", "BertModel"));
}

}  // namespace
}  // namespace modular
