// Every metric agrees with scikit-learn or scipy (oracle.py), however the targets are split into parts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/evaluation/metric.h"
#include "runtime/evaluation/row_metrics.h"

namespace modular {
namespace {

constexpr int64_t kPart = 17;  // rows that are added at a time

class Oracle : public testing::Test {
 protected:
  Oracle() : file_(path()), expected_(nlohmann::json::parse(file_.metadata().at("expected"))) {}

  static std::filesystem::path path() {
    const char* const file = std::getenv("MODULAR_METRICS");
    return file ? file : "set MODULAR_METRICS to the file that oracle.py wrote";
  }

  SafetensorsFile file_;
  nlohmann::json expected_;
};

TEST_F(Oracle, Classes) {
  int cases = 0;
  for (const auto& [name, metrics] : expected_.items()) {
    if (!name.starts_with("classes_")) continue;
    ++cases;
    const at::Tensor logits = file_.tensor(name + "/logits"), targets = file_.tensor(name + "/targets");
    ClassCounts counts = ClassCounts::zeros(logits.size(1));
    for (int64_t first = 0; first < logits.size(0); first += kPart) {
      const int64_t rows = std::min(kPart, logits.size(0) - first);
      counts.add(logits.narrow(0, first, rows).unsqueeze(1), targets.narrow(0, first, rows).unsqueeze(1));
    }
    for (const auto& [metric, value] : metrics.items())
      EXPECT_NEAR(get_value(find_metric(metric, "sequence-classification"), counts, /*loss=*/0.0), value.get<double>(),
                  1e-9)
          << name << " " << metric;
  }
  EXPECT_EQ(cases, 4);
}

TEST_F(Oracle, Rows) {
  const Mesh mesh({}, {});
  int cases = 0;
  for (const auto& [name, values] : expected_.items()) {
    if (!name.starts_with("rows_")) continue;
    ++cases;
    const at::Tensor embeddings = file_.tensor(name + "/embeddings"), labels = file_.tensor(name + "/labels");
    RowRanking ranking;
    for (int64_t first = 0; first < labels.size(0); first += kPart) {
      const int64_t rows = std::min(kPart, labels.size(0) - first);
      ranking.add(embeddings.narrow(0, first, rows).unsqueeze(1), labels.narrow(0, first, rows),
                  at::arange(first, first + rows));
    }
    std::vector<Metric> metrics;
    for (const auto& [metric, value] : values.items()) metrics.push_back(find_metric(metric, "sentence-embedding"));
    const std::vector<double> found = ranking.values(metrics, mesh);
    for (size_t i = 0; i < metrics.size(); ++i)
      EXPECT_NEAR(found[i], values[metrics[i].name].get<double>(), 1e-9) << name << " " << metrics[i].name;
  }
  EXPECT_EQ(cases, 3);
}

/// Calls visit(first, rows) for parts of `all` rows, last part first: positions determine the order.
void in_parts(int64_t all, const std::function<void(int64_t first, int64_t rows)>& visit) {
  for (int64_t first = (all - 1) / kPart * kPart; first >= 0; first -= kPart)
    visit(first, std::min(kPart, all - first));
}

TEST_F(Oracle, TextsOfASample) {
  const Mesh mesh({}, {});
  for (const char* const name : {"texts_2", "texts_4"}) {
    const at::Tensor embeddings = file_.tensor(std::string(name) + "/embeddings"),
                     labels = file_.tensor(std::string(name) + "/labels");
    RowRanking ranking;
    in_parts(labels.size(0), [&](int64_t first, int64_t rows) {
      ranking.add(embeddings.narrow(0, first, rows), labels.narrow(0, first, rows), at::arange(first, first + rows));
    });
    std::vector<Metric> metrics;
    for (const auto& [metric, value] : expected_.at(name).items())
      metrics.push_back(find_metric(metric, "sentence-embedding"));
    const std::vector<double> found = ranking.values(metrics, mesh);
    for (size_t i = 0; i < metrics.size(); ++i)
      EXPECT_NEAR(found[i], expected_.at(name)[metrics[i].name].get<double>(), 1e-9) << name << " " << metrics[i].name;
  }
}

TEST_F(Oracle, Numbers) {
  const Mesh mesh({}, {});
  const std::vector<Metric> metrics = {find_metric("pearson", "sentence-embedding"),
                                       find_metric("spearman", "sequence-classification", "regression")};
  for (const char* const name : {"numbers_8", "numbers_1"}) {
    const at::Tensor predicted = file_.tensor(std::string(name) + "/said"),
                     actual = file_.tensor(std::string(name) + "/right");
    NumberPairs pairs;
    in_parts(predicted.size(0), [&](int64_t first, int64_t rows) {
      pairs.add(predicted.narrow(0, first, rows), actual.narrow(0, first, rows), at::arange(first, first + rows));
    });
    const std::vector<double> found = pairs.values(metrics, mesh);
    for (size_t i = 0; i < metrics.size(); ++i)
      EXPECT_NEAR(found[i], expected_.at(name).at(metrics[i].name).get<double>(), 1e-9) << name;
  }
}

TEST_F(Oracle, SeveralLabelsPerRow) {
  const at::Tensor logits = file_.tensor("sets_6/logits"), labels = file_.tensor("sets_6/right");
  LabelSets sets(6);
  in_parts(logits.size(0), [&](int64_t first, int64_t rows) {
    sets.add(logits.narrow(0, first, rows), labels.narrow(0, first, rows));
  });
  for (const char* const metric : {"accuracy", "f1"})
    EXPECT_NEAR(sets.value(find_metric(metric, "sequence-classification", "multi_label_classification")),
                expected_.at("sets_6").at(metric).get<double>(), 1e-9)
        << metric;
}

}  // namespace
}  // namespace modular
