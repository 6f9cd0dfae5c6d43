// The importance of a search's settings is that of scipy's rank statistics.
#include "runtime/report/importance.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using nlohmann::json;
using Settings = std::vector<std::string>;
using Values = std::vector<double>;

/// scipy's answers to questions as rank_statistics.py has them.
std::vector<json> of_scipy(const std::vector<json>& questions) {
  const TemporaryFolder folder;
  std::string text;
  for (const json& question : questions) text += question.dump() + "\n";
  const auto asked = folder.write("asked", text), answered = folder.path() / "answered";
  const std::string command =
      std::string(PYTHON) + " -W ignore " RANK_STATISTICS " < " + asked.string() + " > " + answered.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::vector<json> answers;
  std::ifstream in(answered);
  for (std::string line; std::getline(in, line);) answers.push_back(json::parse(line));
  EXPECT_EQ(answers.size(), questions.size());
  answers.resize(questions.size());
  return answers;
}

void expect_same(const std::optional<double>& found, const json& expected, const json& question) {
  ASSERT_EQ(found.has_value(), !expected.is_null()) << question;
  if (found) EXPECT_NEAR(*found, expected.get<double>(), 1e-12) << question;
}

TEST(Importance, RankCorrelationAndEtaSquaredAreThoseOfScipy) {
  std::mt19937 random(3);
  std::vector<json> questions;
  for (int i = 0; i < 40; ++i) {
    const size_t count = 3 + random() % 30, different = 1 + random() % 12;  // few different ones are ties
    std::vector<double> one, other;
    std::vector<size_t> groups;
    for (size_t k = 0; k < count; ++k) {
      one.push_back(static_cast<double>(random() % different));
      other.push_back(i % 2 ? static_cast<double>(random() % different) : static_cast<double>(random()) / 7.0);
      groups.push_back(random() % (1 + different / 3));
    }
    questions.push_back({{"one", one}, {"other", other}});
    questions.push_back({{"groups", groups}, {"values", other}});
  }
  const std::vector<json> answers = of_scipy(questions);
  for (size_t i = 0; i < questions.size(); ++i) {
    const json& asked = questions[i];
    if (asked.contains("one"))
      expect_same(rank_correlation(asked["one"].get<Values>(), asked["other"].get<Values>()), answers[i], asked);
    else
      expect_same(variance_between(asked["groups"].get<std::vector<size_t>>(), asked["values"].get<Values>()),
                  answers[i], asked);
  }
}

TEST(Importance, OfARangeIsByItsNumbersAndOfChoicesByTheirGroups) {
  const Dimension rate{.key = "optim.lr", .low = 1e-5, .high = 1.0, .log = true};
  const auto falls = compute_importance(rate, Settings{"1e-05", "0.001", "0.1", "1.0"}, Values{4.0, 3.0, 2.5, 1.0});
  ASSERT_TRUE(falls && falls->correlation);
  EXPECT_DOUBLE_EQ(falls->share, 1.0) << "by their order as numbers, and not as texts";
  EXPECT_DOUBLE_EQ(*falls->correlation, -1.0);
  EXPECT_DOUBLE_EQ(falls->by_chance, 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(compute_importance(rate, Settings{"1e-320", "1e-5", "0.1"}, Values{1.0, 2.0, 3.0})->share, 1.0)
      << "of numbers that are hardly above 0 too";
  const Dimension name{.key = "optim.name", .choices = {"'a'", "'b'", "'c'"}};
  const auto grouped = compute_importance(name, Settings{"'a'", "'b'", "'a'", "'b'"}, Values{1.0, 3.0, 2.0, 4.0});
  ASSERT_TRUE(grouped);
  EXPECT_DOUBLE_EQ(grouped->share, 0.8);  // ranks 1, 2 and 3, 4: 4 of 5
  EXPECT_FALSE(grouped->correlation);
  EXPECT_DOUBLE_EQ(grouped->by_chance, 1.0 / 3.0) << "of the two that were tried";
}

TEST(Importance, IsNotToldWhereNothingVariedOrTooFewTrialsAreThere) {
  const Dimension rate{.key = "optim.lr", .low = 0.0, .high = 1.0};
  EXPECT_FALSE(compute_importance(rate, Settings{"0.1", "0.2"}, Values{1.0, 2.0}));
  EXPECT_FALSE(compute_importance(rate, Settings{"0.1", "0.2", "0.3"}, Values{1.0, 1.0, 1.0}));
  EXPECT_FALSE(compute_importance(rate, Settings{"0.1", "0.1", "0.1"}, Values{1.0, 2.0, 3.0}));
}

}  // namespace
}  // namespace modular
