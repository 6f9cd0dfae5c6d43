// Context parallelism that gathers keys, with this project's kernels: runs of enough queries for the fused attention.
#include <gtest/gtest.h>

#include "runtime/ops/fused.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

class ContextKernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { install_fused_functions(); }
  void TearDown() override { fused = before_; }

 private:
  FusedFunctions before_ = fused;
};

Variant variant(const char* name, ContextOptions::Layout layout) {
  Variant made{.name = name,
               .fields = {{"attention_dropout", 0.2},
                          {"sliding_window", int64_t{50}},
                          {"max_position_embeddings", int64_t{256}}},
               .micro_batches = 2,
               .sequence = 140,
               .steps = 2};
  made.options.context = {layout, ContextOptions::Attention::all_gather};
  return made;
}

TEST_P(ContextKernels, TrainTheSame) {
  using enum ContextOptions::Layout;
  Variant documents = variant("documents", zigzag), left = variant("left", contiguous);
  documents.documents = left.left_padding = true;
  expect_same_training(GetParam(), {.size = {1, 1, 1, 2, 1}}, {variant("zigzag", zigzag), documents, left});
}

INSTANTIATE_TEST_SUITE_P(Families, ContextKernels, ::testing::Values("LlamaForCausalLM", "MistralForCausalLM"));

}  // namespace
}  // namespace modular::testing
