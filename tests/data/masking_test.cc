// Targets of masked language modeling, and the tokens that replace them.
#include "runtime/data/masking.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/model/tensors.h"

namespace modular {
namespace {

constexpr int64_t kVocabulary = 1000, kMask = 999, kTokens = 100'000;

struct Masked {
  std::vector<int64_t> original, tokens, labels;
};

Masked masked(uint64_t key, double probability = 0.15) {
  Masked sample;
  sample.original.resize(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) sample.original[static_cast<size_t>(i)] = i % kMask;
  sample.tokens = sample.original;
  sample.labels.resize(kTokens);
  mask_tokens(sample.tokens, sample.labels, {probability, kMask}, kVocabulary, key);
  return sample;
}

TEST(Masking, ChoosesTheFractionOfTargetsAndHidesMostOfThem) {
  const Masked sample = masked(1);
  double targets = 0, hidden = 0, replaced = 0;
  for (size_t i = 0; i < kTokens; ++i) {
    if (sample.labels[i] == kIgnoredTarget) {
      ASSERT_EQ(sample.tokens[i], sample.original[i]);
      continue;
    }
    ASSERT_EQ(sample.labels[i], sample.original[i]);
    ASSERT_GE(sample.tokens[i], 0);
    ASSERT_LT(sample.tokens[i], kVocabulary);
    ++targets;
    if (sample.tokens[i] == kMask)
      ++hidden;
    else if (sample.tokens[i] != sample.original[i])
      ++replaced;
  }
  EXPECT_NEAR(targets / kTokens, 0.15, 0.006);
  EXPECT_NEAR(hidden / targets, 0.8, 0.02);
  EXPECT_NEAR(replaced / targets, 0.1, 0.015);
}

TEST(Masking, DependsOnlyOnTheKey) {
  EXPECT_EQ(masked(7).tokens, masked(7).tokens);
  EXPECT_NE(masked(7).labels, masked(8).labels);
}

TEST(Masking, ZeroProbabilityGivesNoTargets) {
  const Masked sample = masked(1, 0.0);
  EXPECT_EQ(sample.tokens, sample.original);
  EXPECT_EQ(sample.labels, std::vector<int64_t>(kTokens, kIgnoredTarget));
}

}  // namespace
}  // namespace modular
