// Layers that tensor parallelism does not shard only by full outputs or inputs, each as a family of
// tests/generator/golden/parallel: the same training on every mesh.
#include <gtest/gtest.h>

#include "tests/generator/golden/parallel/generated/by_heads.h"
#include "tests/generator/golden/parallel/generated/dropped.h"
#include "tests/generator/golden/parallel/generated/fused_parts.h"
#include "tests/generator/golden/parallel/generated/head_norms.h"
#include "tests/generator/golden/parallel/generated/inner_types.h"
#include "tests/generator/golden/parallel/generated/local_global.h"
#include "tests/generator/golden/parallel/generated/one_sum.h"
#include "tests/generator/golden/parallel/generated/reduced.h"
#include "tests/generator/golden/parallel/generated/tiny.h"
#include "tests/generator/golden/parallel/generated/transposed.h"
#include "tests/parallel/training_runs.h"

namespace modular {
namespace {

using testing::expect_same_training;
using testing::Variant;

MeshShape mesh(int64_t tp, int64_t pp = 1, int64_t dp_shard = 1) {
  MeshShape shape;
  shape[Axis::tp] = tp;
  shape[Axis::pp] = pp;
  shape[Axis::dp_shard] = dp_shard;
  return shape;
}

class SplitLayers : public ::testing::TestWithParam<const char*> {};

TEST_P(SplitLayers, TrainTheSameOverTensorParallelRanks) {
  expect_same_training(GetParam(), mesh(2), {{.name = "plain"}, {.name = "recomputed", .options = {.recompute = true}}},
                       // AdamW divides by gradients that are near 0, whose rounding differs between meshes.
                       /*tolerance=*/2e-5);
}

TEST_P(SplitLayers, TrainTheSameWithFsdp) { expect_same_training(GetParam(), mesh(2, 1, 2), {{.name = "plain"}}); }

TEST_P(SplitLayers, TrainTheSameInPipelineStages) {
  expect_same_training(GetParam(), mesh(1, 2), {{.name = "plain", .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Families, SplitLayers,
                         ::testing::Values("FusedPartsForCausalLM", "OneSumForCausalLM", "ReducedForCausalLM"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Release, SplitLayers,
                         ::testing::Values("ByHeadsForCausalLM", "DroppedForCausalLM", "HeadNormsForCausalLM",
                                           "InnerTypesForCausalLM", "LocalGlobalForCausalLM", "TinyForCausalLM",
                                           "TransposedForCausalLM"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SplitLayers, TrainTheSameWithSeparateReductions) {
  expect_same_training("OneSumForCausalLM", mesh(2), {{.name = "sequential", .fields = {{"beside", false}}}});
}

TEST(SplitLayers, RejectsIndivisibleExperts) {
  const Entry& entry = testing::get_entry("OneSumForCausalLM");
  const auto config = testing::tiny_config(entry, {{"intermediate_size", int64_t{49}}});
  EXPECT_EQ(ParallelModel::error(entry, *config, mesh(2)),
            "intermediate_size = 49 cannot be split over tp = 2: choose a tp that divides it");
}

/// The same for a layer whose size is not a product of config fields.
TEST(SplitLayers, RejectsSizesWithoutAPlanRule) {
  const Entry& entry = testing::get_entry("TinyForCausalLM");
  Plan plan = *entry.plan;
  std::erase_if(plan.divides, [](const Divides& rule) { return rule.field == "intermediate_size"; });
  Entry without = entry;
  without.plan = &plan;
  const auto config = testing::tiny_config(entry, {{"intermediate_size", int64_t{49}}});
  EXPECT_EQ(ParallelModel::error(without, *config, mesh(2)),
            "model.layers.0.mlp.up_proj.weight has 49 elements along dimension 0, which cannot be split over tp = 2");
}

TEST(SplitLayers, RejectsPartsThatDoNotAddUp) {
  const Entry& entry = testing::get_entry("FusedPartsForCausalLM");
  Plan plan = *entry.plan;
  for (TensorSplit& split : plan.tensor_splits)
    if (!split.parts.empty()) split.parts.pop_back();
  Entry wrong = entry;
  wrong.plan = &plan;
  const std::string error = ParallelModel::error(wrong, *testing::tiny_config(entry), mesh(2));
  EXPECT_NE(error.find("the parts of "), std::string::npos) << error;
}

}  // namespace
}  // namespace modular
