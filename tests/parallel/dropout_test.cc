// Dropout drops the same elements on every mesh, in recomputed units and in every division of a step into
// micro-batches, so that training matches one process: for full values, sharded features and heads, and inside
// attention.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Fields kDropping = {{"attention_dropout", 0.2},   {"hidden_dropout", 0.1},
                          {"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.2},
                          {"resid_pdrop", 0.1},         {"embd_pdrop", 0.1}};

class DropoutOnMesh : public ::testing::TestWithParam<std::string> {};

TEST_P(DropoutOnMesh, Alone) {
  expect_same_training(GetParam(), {},
                       {{.name = "micro-batches", .fields = kDropping, .micro_batches = 4},
                        {.name = "recomputation", .fields = kDropping, .options = {.recompute = true}}});
}

TEST_P(DropoutOnMesh, Sharded2) {
  expect_same_training(GetParam(), {.size = {1, 1, 2, 1, 1}},
                       {{.name = "accumulation", .fields = kDropping, .micro_batches = 2},
                        {.name = "ZeRO-1, recomputation",
                         .fields = kDropping,
                         .options = {.zero_stage = 1, .recompute = true},
                         .micro_batches = 2}});
}

TEST_P(DropoutOnMesh, Tensor2) {
  expect_same_training(GetParam(), {.size = {1, 1, 1, 1, 2}},
                       {{.name = "plain", .fields = kDropping},
                        {.name = "recomputation", .fields = kDropping, .options = {.recompute = true}}});
}

TEST_P(DropoutOnMesh, Pipeline2Replicated2) {
  expect_same_training(
      GetParam(), {.size = {2, 2, 1, 1, 1}},
      {{.name = "micro-batches", .fields = kDropping, .micro_batches = 2},
       {.name = "recomputation", .fields = kDropping, .options = {.recompute = true}, .micro_batches = 4}});
}

TEST_P(DropoutOnMesh, Pipeline2Tensor2) {
  expect_same_training(GetParam(), {.size = {2, 1, 1, 1, 2}},
                       {{.name = "micro-batches", .fields = kDropping, .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Families, DropoutOnMesh, ::testing::Values("BertForMaskedLM"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, DropoutOnMesh,
                         ::testing::Values("LlamaForCausalLM", "GPTNeoXForCausalLM", "PhiForCausalLM"),
                         [](const auto& info) { return info.param; });

// Precondition of the comparisons above: dropout drops elements, different ones in each step, and none in evaluation.
TEST(Dropout, ChangesTrainingAndNotEvaluation) {
  Mesh alone({}, {}, {.device = at::kCPU});
  const Entry& entry = get_entry("BertForMaskedLM");
  const Report without =
      train(alone, entry,
            {.name = "without", .fields = {{"hidden_dropout_prob", 0.0}, {"attention_probs_dropout_prob", 0.0}}});
  const Report with = train(alone, entry, {.name = "with", .fields = kDropping});
  EXPECT_NE(with[0], without[0]);

  const auto config = tiny_config(entry, kDropping);
  ParallelModel model(entry, *config, alone, {}, /*seed=*/11);
  Batch batch;
  batch.input_ids = at::randint(0, 62, {4, 12}, at::kLong);
  batch.labels = batch.input_ids;
  const auto get_loss = [&](int64_t first_sample) {
    batch.samples = at::arange(first_sample, first_sample + 4, at::kLong);
    return model.step({&batch, 1}).loss;
  };
  const double first = get_loss(0);
  EXPECT_EQ(get_loss(0), first);
  EXPECT_NE(get_loss(4), first);
  const double evaluated = model.evaluate({&batch, 1}).loss;
  EXPECT_EQ(model.evaluate({&batch, 1}).loss, evaluated);
  EXPECT_NE(evaluated, first);
  ParallelModel other_seed(entry, *config, alone, {}, /*seed=*/12);
  for (size_t i = 0; i < model.parameters().size(); ++i)
    other_seed.parameters()[i].local.copy_(model.parameters()[i].local);
  other_seed.parameters_changed();
  EXPECT_EQ(other_seed.evaluate({&batch, 1}).loss, evaluated);
  EXPECT_NE(other_seed.step({&batch, 1}).loss, get_loss(4));
}

}  // namespace
}  // namespace modular::testing
