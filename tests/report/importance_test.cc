// The importance of hyperparameters agrees with scipy's rank statistics.
#include "runtime/report/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using nlohmann::json;
using Inputs = std::vector<std::string>;
using Values = std::vector<double>;

/// Returns scipy's answers to questions in the format of rank_statistics.py.
std::vector<json> ask_scipy(const std::vector<json>& questions) {
  const TemporaryFolder folder;
  std::string text;
  for (const json& question : questions) text += question.dump() + "\n";
  const auto input = folder.write("input", text), output = folder.path() / "output";
  const std::string command =
      std::string(PYTHON) + " -W ignore " RANK_STATISTICS " < " + input.string() + " > " + output.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<json> answers;
  std::ifstream in(output);
  for (std::string line; std::getline(in, line);) answers.push_back(json::parse(line));
  EXPECT_EQ(answers.size(), questions.size());
  answers.resize(questions.size());
  return answers;
}

void expect_same(const std::optional<double>& found, const json& expected, const json& question) {
  ASSERT_EQ(found.has_value(), !expected.is_null()) << question;
  if (found) EXPECT_NEAR(*found, expected.get<double>(), 1e-12) << question;
}

TEST(Importance, RankCorrelationAndEtaSquaredMatchScipy) {
  std::mt19937 random(3);
  std::vector<json> questions;
  for (int i = 0; i < 40; ++i) {
    const size_t count = 3 + random() % 30, distinct = 1 + random() % 12;  // few distinct values give ties
    std::vector<double> a, b;
    std::vector<size_t> groups;
    for (size_t k = 0; k < count; ++k) {
      a.push_back(static_cast<double>(random() % distinct));
      b.push_back(i % 2 ? static_cast<double>(random() % distinct) : static_cast<double>(random()) / 7.0);
      groups.push_back(random() % (1 + distinct / 3));
    }
    questions.push_back({{"a", a}, {"b", b}});
    questions.push_back({{"groups", groups}, {"values", b}});
  }
  const std::vector<json> answers = ask_scipy(questions);
  for (size_t i = 0; i < questions.size(); ++i) {
    const json& question = questions[i];
    if (question.contains("a"))
      expect_same(rank_correlation(question["a"].get<Values>(), question["b"].get<Values>()), answers[i], question);
    else
      expect_same(variance_between(question["groups"].get<std::vector<size_t>>(), question["values"].get<Values>()),
                  answers[i], question);
  }
}

TEST(Importance, UsesNumbersOfARangeAndGroupsOfChoices) {
  const Dimension rate{.key = "optim.lr", .low = 1e-5, .high = 1.0, .log = true};
  const auto falls = compute_importance(rate, Inputs{"1e-05", "0.001", "0.1", "1.0"}, Values{4.0, 3.0, 2.5, 1.0});
  ASSERT_TRUE(falls && falls->correlation);
  EXPECT_DOUBLE_EQ(falls->share, 1.0) << "ordered as numbers, not as text";
  EXPECT_DOUBLE_EQ(*falls->correlation, -1.0);
  EXPECT_DOUBLE_EQ(falls->by_chance, 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(compute_importance(rate, Inputs{"1e-320", "1e-5", "0.1"}, Values{1.0, 2.0, 3.0})->share, 1.0)
      << "also for denormal numbers";
  const Dimension name{.key = "optim.name", .choices = {"'a'", "'b'", "'c'"}};
  const auto grouped = compute_importance(name, Inputs{"'a'", "'b'", "'a'", "'b'"}, Values{1.0, 3.0, 2.0, 4.0});
  ASSERT_TRUE(grouped);
  EXPECT_DOUBLE_EQ(grouped->share, 0.8);  // ranks 1, 2 and 3, 4: 4 of 5
  EXPECT_FALSE(grouped->correlation);
  EXPECT_DOUBLE_EQ(grouped->by_chance, 1.0 / 3.0) << "counts the two groups that were tried";
}

TEST(Importance, IsUnknownIfNothingVariedOrWithTooFewTrials) {
  const Dimension rate{.key = "optim.lr", .low = 0.0, .high = 1.0};
  EXPECT_FALSE(compute_importance(rate, Inputs{"0.1", "0.2"}, Values{1.0, 2.0}));
  EXPECT_FALSE(compute_importance(rate, Inputs{"0.1", "0.2", "0.3"}, Values{1.0, 1.0, 1.0}));
  EXPECT_FALSE(compute_importance(rate, Inputs{"0.1", "0.1", "0.1"}, Values{1.0, 2.0, 3.0}));
}

}  // namespace
}  // namespace modular
