// Rotary tables whose frequencies depend on the sequence length depend only on the sequence itself, wherever it is in a
// batch.
#include <gtest/gtest.h>

#include "runtime/model/rope.h"

namespace modular {
namespace {

constexpr int64_t kHeadDim = 8, kPositions = 6;

RopeParameters make_rope(const std::string& kind) {
  RopeParameters rope;
  rope.rope_type = kind;
  rope.rope_theta = 100.0;
  if (kind == "dynamic") rope.factor = 3.0;
  if (kind != "longrope") return rope;
  rope.original_max_position_embeddings = 4;
  rope.short_factor = {1.0, 1.1, 1.2, 1.3}, rope.long_factor = {1.0, 2.0, 3.0, 5.0};
  return rope;
}

at::Tensor cosine(const RopeParameters& rope, const Batch& batch) {
  return rotary_tables(rope, kHeadDim, kPositions, batch, at::kFloat).first;
}

/// The cosine of a single sequence of `length` tokens, whose first token has position `first`.
at::Tensor alone(const RopeParameters& rope, int64_t length, int64_t first = 0) {
  Batch batch;
  batch.input_ids = at::zeros({1, length}, at::kLong);
  if (first > 0) batch.position_ids = at::arange(first, first + length).unsqueeze(0);
  return cosine(rope, batch)[0];
}

class RotaryTablesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RotaryTablesTest, IgnoreRightPadding) {
  const RopeParameters rope = make_rope(GetParam());
  Batch batch;
  batch.input_ids = at::zeros({3, 12}, at::kLong);
  batch.attention_mask = at::ones({3, 12}, at::kLong);
  batch.attention_mask[0].slice(0, 3).zero_(), batch.attention_mask[1].slice(0, 9).zero_();
  const at::Tensor found = cosine(rope, batch);
  for (const auto& [row, length] : {std::pair(0, 3), std::pair(1, 9), std::pair(2, 12)})
    EXPECT_TRUE(at::allclose(found[row].slice(0, 0, length), alone(rope, length))) << row;
  EXPECT_TRUE(at::allclose(cosine(rope, {.input_ids = batch.input_ids})[0], alone(rope, 12))) << "without a mask";
}

TEST_P(RotaryTablesTest, IgnoreLeftPaddingInFrequencies) {
  const RopeParameters rope = make_rope(GetParam());
  Batch batch;
  batch.input_ids = at::zeros({2, 12}, at::kLong);
  batch.attention_mask = at::ones({2, 12}, at::kBool);
  batch.attention_mask[0].slice(0, 0, 9).zero_();  // three tokens are left
  const at::Tensor found = cosine(rope, batch), short_row = alone(rope, 3);
  EXPECT_FALSE(at::allclose(found[0][1], found[1][1])) << "the rows' frequencies differ";
  EXPECT_TRUE(at::allclose(found[0][1], short_row[1]));
}

TEST_P(RotaryTablesTest, TreatDocumentsOfARowSeparately) {
  const RopeParameters rope = make_rope(GetParam());
  Batch batch;
  batch.input_ids = at::zeros({2, 14}, at::kLong);
  const auto row = [](std::initializer_list<int64_t> lengths, int64_t first) {
    std::vector<at::Tensor> documents, positions;
    for (const int64_t length : lengths) {
      documents.push_back(at::full({length}, first++, at::kLong));
      positions.push_back(at::arange(length));
    }
    return std::pair(at::cat(documents), at::cat(positions));
  };
  const auto [first, first_positions] = row({3, 9, 2}, 0);
  const auto [second, second_positions] = row({8, 6}, 0);  // the same numbers as in the first row
  batch.documents = at::stack({first, second}), batch.position_ids = at::stack({first_positions, second_positions});
  const at::Tensor found = cosine(rope, batch);
  EXPECT_TRUE(at::allclose(found[0], at::cat({alone(rope, 3), alone(rope, 9), alone(rope, 2)})));
  EXPECT_TRUE(at::allclose(found[1], at::cat({alone(rope, 8), alone(rope, 6)})));
}

TEST_P(RotaryTablesTest, UseTheLargestGivenPositionOfARow) {
  const RopeParameters rope = make_rope(GetParam());
  Batch batch;
  batch.input_ids = at::zeros({2, 3}, at::kLong);
  batch.position_ids = at::stack({at::arange(3), at::arange(9, 12)});
  const at::Tensor found = cosine(rope, batch);
  EXPECT_TRUE(at::allclose(found[0], alone(rope, 3)));
  EXPECT_TRUE(at::allclose(found[1], alone(rope, 3, 9)));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RotaryTablesTest, ::testing::Values("dynamic", "longrope"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modular
