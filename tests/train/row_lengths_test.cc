// Rows of different lengths: padding, trimming of steps, and grouping by length.
#include "runtime/data/example_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/batches.h"
#include "runtime/data/sample_order.h"
#include "runtime/datasets/run_datasets.h"
#include "tests/data/temporary_folder.h"
#include "tests/parallel/training_runs.h"

namespace modular {
namespace {

constexpr int64_t kRows = 40, kSeq = 50;

/// Row n has n + 1 tokens followed by padding.
at::Tensor masks() { return at::arange(kSeq).unsqueeze(0).le(at::arange(kRows).unsqueeze(1)); }

class RowLengths : public ::testing::Test {
 protected:
  RowLengths() {
    const at::Tensor mask = masks();
    write_safetensors(folder_.path() / "rows.safetensors",
                      {{"input_ids", at::arange(kRows, at::kInt).unsqueeze(1).mul(mask)},
                       {"attention_mask", mask},
                       {"labels", at::zeros({kRows}, at::kLong)}});
    network_.entry = &testing::get_entry("RobertaForSequenceClassification");
    network_.config = testing::tiny_config(*network_.entry);
    auto examples = std::make_unique<ExampleDataset>(
        find_data_files({.format = "examples", .paths = {folder_.path()}}).training, network_);
    examples->measure(/*trims=*/true);
    samples_ = std::move(examples);
  }

  TemporaryFolder folder_;
  ModelConfig network_;
  std::unique_ptr<Dataset> samples_;
};

TEST_F(RowLengths, EndWithTheLastPositionThatCounts) {
  const auto file = folder_.path() / "two.safetensors";
  write_safetensors(file,
                    {{"attention_mask", at::tensor({1, 1, 0, 0, 0, 0, 1, 0}, at::kInt).view({2, 4})},
                     {"labels", at::tensor({-100, -100, -100, 5, -100, -100, -100, -100}, at::kLong).view({2, 4})}});
  const auto one = row_lengths({file}, /*has_decoder=*/false), both = row_lengths({file}, /*has_decoder=*/true);
  EXPECT_EQ(one.at(0).input, 4) << "a target after the mask's end counts";
  EXPECT_EQ(one.at(1).input, 3) << "and so does what stands after padding on the left";
  EXPECT_EQ(both.at(0).input, 2);
  EXPECT_EQ(both.at(0).target, 4);
  EXPECT_EQ(both.at(1).target, 0);
  const auto without = folder_.path() / "without.safetensors";
  write_safetensors(without, {{"input_ids", at::zeros({2, 4}, at::kLong)}});
  EXPECT_TRUE(row_lengths({without}, false).empty());
}

TEST_F(RowLengths, OfAStepAreTheMaximumOverAllRanks) {
  for (int64_t step = 0; step < 10; ++step) {
    int64_t longest = 0;
    for (int64_t place = 8 * step; place < 8 * step + 8; ++place)
      longest = std::max(longest, sample_at(place, kRows, 3) + 1);
    const int64_t expected = std::min<int64_t>((longest + 7) / 8 * 8, kSeq);
    for (int64_t rank = 0; rank < 2; ++rank)
      for (const Batch& batch : BatchSource(*samples_, {2, 2, rank, 2}, 3).at({8 * step})) {
        EXPECT_EQ(batch.input_ids.sizes(), (std::vector<int64_t>{2, expected}));
        EXPECT_EQ(batch.attention_mask.sizes(), batch.input_ids.sizes());
        EXPECT_EQ(batch.labels.sizes(), std::vector<int64_t>{2});
        // Each row is as long as its tokens say.
        EXPECT_TRUE(batch.attention_mask.to(at::kLong).sum(1).equal(batch.input_ids.amax(1) + 1));
      }
  }
}

TEST_F(RowLengths, OfTheLastRowsBelongToThem) {
  const SampleRange end(std::move(samples_), 30, 10);
  EXPECT_EQ(end.length(0), 31);
  EXPECT_EQ(BatchSource(end, {1, 1, 0, 1}, 3).at({0}).at(0).input_ids.size(1) / 8,
            (30 + sample_at(0, 10, 3) + 1 + 7) / 8);
}

TEST_F(RowLengths, SimilarOnesAreGroupedInAnOrderBySeedAndPosition) {
  const auto order = samples_at(*samples_, 0, 2 * kRows, 3, /*by_length=*/true);
  for (const int64_t pass : {0, 1}) {
    const std::set<int64_t> seen(order.begin() + pass * kRows, order.begin() + (pass + 1) * kRows);
    EXPECT_EQ(seen.size(), static_cast<size_t>(kRows)) << "each row once in a pass";
  }
  for (int64_t group = 0; group < 8; ++group) {  // of a quarter of the rows
    std::vector<int64_t> found(order.begin() + group * 10, order.begin() + group * 10 + 10), expected;
    for (int64_t place = group * 10; place < group * 10 + 10; ++place) expected.push_back(sample_at(place, kRows, 3));
    std::ranges::sort(expected, std::greater());
    EXPECT_EQ(found, expected);
  }
  for (int64_t begin = 0; begin < 2 * kRows - 7; ++begin) {
    const auto part = samples_at(*samples_, begin, begin + 7, 3, /*by_length=*/true);
    EXPECT_TRUE(std::ranges::equal(part, std::span(order).subspan(static_cast<size_t>(begin), 7)));
  }
  EXPECT_NE(order, samples_at(*samples_, 0, 2 * kRows, 4, /*by_length=*/true));
}

}  // namespace
}  // namespace modular
