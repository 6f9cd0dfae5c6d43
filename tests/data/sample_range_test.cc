// The validation part of one token stream: its end, which training does not read.
#include "runtime/data/sample_order.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/data/token_dataset.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

TEST(SampleRange, EachTokenIsInExactlyOnePart) {
  const TemporaryFolder folder;
  std::string text;
  for (char token = 0; token < 103; ++token) text += token;
  folder.write("text", text);
  const auto to_tokens = [&](int64_t first, int64_t count) {
    auto all =
        std::make_unique<TokenDataset>(TokenStream(find_data_files({.paths = {folder.path()}}).training), 4, 256);
    const SampleRange range(std::move(all), first, count);
    std::set<int64_t> tokens;
    for (int64_t sample = 0; sample < range.count(); ++sample) {
      const std::vector<SamplePosition> positions = {{sample, 0}};
      const at::Tensor ids = range.read(positions, 1).input_ids;
      for (int64_t i = 0; i < 4; ++i) tokens.insert(ids[0][i].item<int64_t>());
    }
    return tokens;
  };
  const int64_t validation = count_validation_samples(25, 0.2);
  ASSERT_EQ(validation, 5);
  const auto training = to_tokens(0, 20), end = to_tokens(20, 5);
  EXPECT_EQ(training.size(), 80u);
  EXPECT_EQ(*training.rbegin(), 79);
  EXPECT_EQ(end.size(), 20u);
  EXPECT_EQ(*end.begin(), 80);
}

TEST(SampleRange, AtLeastOneSampleIsForValidationAndOneForTraining) {
  EXPECT_EQ(count_validation_samples(1000, 0.01), 10);
  EXPECT_EQ(count_validation_samples(10, 0.01), 1);
  EXPECT_EQ(count_validation_samples(3, 0.99), 2);
  EXPECT_EQ(count_validation_samples(1, 0.5), 0);
}

}  // namespace
}  // namespace modular
