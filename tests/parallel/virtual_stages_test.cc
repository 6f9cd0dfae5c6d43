// Pipelines with several stages per rank, alone and with other kinds of parallelism, train like one process: tied
// embeddings on two ranks and on one, sharded units, split backwards and recomputation.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

MeshShape mesh(int64_t pp, int64_t tp = 1, int64_t dp_shard = 1, int64_t dp_replicate = 1) {
  MeshShape shape;
  shape[Axis::pp] = pp, shape[Axis::tp] = tp;
  shape[Axis::dp_shard] = dp_shard, shape[Axis::dp_replicate] = dp_replicate;
  return shape;
}

Fields model(bool tied, int64_t layers) { return {{"tie_word_embeddings", tied}, {"num_hidden_layers", layers}}; }

Variant variant(const std::string& schedule, bool tied, int64_t micro_batches, int64_t layers = 4,
                ParallelOptions options = {}) {
  options.pipeline.schedule = schedule;
  return {.name = schedule + (tied ? ", tied" : ""),
          .fields = model(tied, layers),
          .options = options,
          .micro_batches = micro_batches};
}

class VirtualStages : public ::testing::TestWithParam<std::string> {};

TEST_P(VirtualStages, Pipeline2) {
  expect_same_training(
      GetParam(), mesh(2),
      {variant("interleaved", true, 4), variant("zbv", true, 4), variant("zbv", false, 2),
       variant("interleaved-zero-bubble", true, 4), variant("looped-bfs", true, 8), variant("dualpipev", true, 4)});
}

TEST_P(VirtualStages, Pipeline2Recomputed) {
  expect_same_training(
      GetParam(), mesh(2),
      {variant("interleaved", true, 2, 4, {.recompute = true}), variant("zbv", true, 2, 4, {.recompute = true})});
}

TEST_P(VirtualStages, Pipeline2InBfloat16) {
  // bfloat16 accumulates gradients separately after each backward; for split backwards after their weight half.
  expect_same_training(GetParam(), mesh(2), {variant("zbv", true, 4, 4, {.bf16 = true})}, 1e-2);
}

TEST_P(VirtualStages, Pipeline2Sharded2) {
  expect_same_training(GetParam(), mesh(2, 1, 2),
                       {variant("interleaved", true, 2), variant("zbv", true, 4),
                        variant("interleaved-zero-bubble", true, 2, 4, {.zero_stage = 1}),
                        variant("zbv", true, 4, 4, {.zero_stage = 2, .recompute = true})});
}

TEST_P(VirtualStages, Pipeline2Replicated2) {
  expect_same_training(GetParam(), mesh(2, 1, 1, 2), {variant("interleaved", true, 2), variant("zbv", true, 4)});
}

TEST_P(VirtualStages, Pipeline2Tensor2) {
  expect_same_training(
      GetParam(), mesh(2, 2),
      {variant("interleaved", true, 4), variant("zbv", true, 4), variant("interleaved-zero-bubble", false, 4)});
}

INSTANTIATE_TEST_SUITE_P(Families, VirtualStages, ::testing::Values("GemmaForCausalLM"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, VirtualStages, ::testing::Values("LlamaForCausalLM"),
                         [](const auto& info) { return info.param; });

TEST(VirtualStagesOf, Pipeline3) {
  expect_same_training("LlamaForCausalLM", mesh(3),
                       {variant("zbv", true, 4, 7), variant("looped-bfs", true, 4, 7), variant("gpipe", true, 4, 7)});
}

TEST(VirtualStagesOf, Pipeline4) {
  expect_same_training(
      "LlamaForCausalLM", mesh(4),
      {variant("interleaved", true, 4, 8), variant("zbv", true, 8, 8), variant("interleaved-zero-bubble", true, 8, 8)});
}

TEST(VirtualStagesOf, UseTheConfiguredCuts) {
  Variant uneven = variant("interleaved", true, 2, 7);
  uneven.options.pipeline.cuts = {1, 3, 6};
  expect_same_training("LlamaForCausalLM", mesh(2), {uneven});
}

}  // namespace
}  // namespace modular::testing
