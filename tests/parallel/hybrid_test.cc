// Tensor and pipeline parallelism, alone and with sharded or replicated parameters, train like one process, for every
// family.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Fields kBiases = {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", false}};
const Fields kTied = {{"tie_word_embeddings", true}};

class Hybrid : public ::testing::TestWithParam<std::string> {};

TEST_P(Hybrid, Tensor2) {
  expect_same_training(GetParam(), {.size = {1, 1, 1, 1, 2}},
                       {{.name = "biases", .fields = kBiases},
                        {.name = "tied, recomputation", .fields = kTied, .options = {.recompute = true}}});
}

TEST_P(Hybrid, Pipeline2) {
  expect_same_training(
      GetParam(), {.size = {2, 1, 1, 1, 1}},
      {{.name = "biases", .fields = kBiases, .micro_batches = 4},
       {.name = "one micro-batch, tied", .fields = kTied},
       {.name = "tied, recomputation", .fields = kTied, .options = {.recompute = true}, .micro_batches = 2}});
}

TEST_P(Hybrid, Tensor2Sharded2) {
  expect_same_training(GetParam(), {.size = {1, 1, 2, 1, 2}},
                       {{.name = "biases, accumulation", .fields = kBiases, .micro_batches = 2},
                        {.name = "tied, recomputation", .fields = kTied, .options = {.recompute = true}}});
}

TEST_P(Hybrid, Pipeline2Sharded2) {
  expect_same_training(GetParam(), {.size = {2, 1, 2, 1, 1}},
                       {{.name = "biases", .fields = kBiases, .micro_batches = 4},
                        {.name = "tied, ZeRO-1, recomputation",
                         .fields = kTied,
                         .options = {.zero_stage = 1, .recompute = true},
                         .micro_batches = 2}});
}

TEST_P(Hybrid, Pipeline2Replicated2) {
  expect_same_training(GetParam(), {.size = {2, 2, 1, 1, 1}}, {{.name = "tied", .fields = kTied, .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Families, Hybrid, ::testing::Values("LlamaForCausalLM"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, Hybrid, ::testing::Values("MistralForCausalLM", "GemmaForCausalLM"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modular::testing
