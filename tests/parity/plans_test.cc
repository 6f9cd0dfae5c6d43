// The plans that generated files state as rows on another plan, against modgen's own description of each entry.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/model/registry.h"

namespace modular {
namespace {

using Json = nlohmann::json;

Json describe_plans() {
  std::FILE* pipe = popen(MODGEN " --root " MODULAR_SOURCE_DIR " --all --emit plan", "r");
  if (!pipe) throw std::runtime_error("cannot start modgen");
  std::string text;
  for (int letter = 0; (letter = std::fgetc(pipe)) != EOF;) text += static_cast<char>(letter);
  if (pclose(pipe) != 0) throw std::runtime_error("modgen fails");
  return Json::parse(text);
}

/// The described plan of a registered entry. Its key is the entry's class, which MODEL_ENTRY may have given another
/// architecture.
const Json* find_described(const Json& plans, const Entry& entry) {
  const auto letters = [](std::string_view name) {
    std::string lower;
    for (const char letter : name)
      if (letter != '_') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return lower;
  };
  const Json* described = nullptr;
  for (const auto& [key, plan] : plans.items()) {
    if (plan["task"] != entry.task) continue;
    if (key == entry.architecture) return &plan;
    if (letters(key).starts_with(letters(entry.family) + "for")) described = &plan;
  }
  return described;
}

Json to_json(const Plan& plan) {
  Json splits = Json::array(), ties = Json::array(), stacks = Json::array(), divides = Json::array(),
       experts = Json::array();
  for (const TensorSplit& split : plan.tensor_splits) {
    Json& row = splits.emplace_back(Json{{"parameter", split.parameter}, {"dim", split.dim}});
    if (!split.parts.empty()) row["parts"] = split.parts;
  }
  for (const Tie& tie : plan.ties)
    ties.push_back({{"parameter", tie.parameter}, {"source", tie.source}, {"flag", tie.flag}});
  const auto add = [&](const Stack& stack) {
    stacks.push_back({{"split_list", stack.split_list}, {"first", stack.first}, {"last", stack.last}});
  };
  if (plan.first_stack) add(*plan.first_stack);
  if (plan.first_stack || !plan.split_list.empty()) add({plan.split_list, plan.first, plan.last});
  for (const Divides& rule : plan.divides) {
    Json& row = divides.emplace_back(Json{{"field", rule.field}, {"axis", rule.axis}});
    if (rule.otherwise != Divides::error) row["otherwise"] = rule.otherwise == Divides::shared ? "shared" : "uneven";
  }
  for (const ExpertWeights& weights : plan.experts)
    experts.push_back({{"parameter", weights.parameter}, {"chosen", weights.chosen}});
  return {{"units", plan.units}, {"tensor_splits", splits},       {"ties", ties},
          {"stacks", stacks},    {"everywhere", plan.everywhere}, {"divides", divides},
          {"experts", experts},  {"rates", plan.rates},           {"tables", plan.tables}};
}

TEST(Plans, HaveTheRowsThatModgenDerives) {
  const Json plans = describe_plans();
  EXPECT_EQ(entries().size(), plans.size());
  for (const Entry& entry : entries()) {
    const Json* described = find_described(plans, entry);
    ASSERT_TRUE(described) << entry.architecture << " for " << entry.task;
    Plan plan = *entry.plan;
    // The registry adds this module to entries that embed sentences.
    if (!plan.last.empty() && plan.last.back() == kEmbeddingLayers) plan.last.pop_back();
    const Json stated = to_json(plan);
    for (const auto& [member, rows] : stated.items())
      EXPECT_EQ(rows, (*described)[member]) << entry.architecture << ": " << member;
  }
}

}  // namespace
}  // namespace modular
