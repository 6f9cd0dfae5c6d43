// How the next token is chosen.
#include "runtime/train/sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <set>

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

}  // namespace
}  // namespace modular
