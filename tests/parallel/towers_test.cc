// Models of two stacks in pipelines that cut between the stacks and within them train like one process: embedding
// tables on several stages, with and without tied outputs, the first stack's output as input of all layers of the
// second, tensor-parallel or sharded stages, and models with a single stack.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/pipeline/pipeline_stages.h"
#include "tests/generator/golden/parallel/generated/split_towers.h"
#include "tests/generator/golden/parallel/generated/two_towers.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

Fields small(bool tied) {
  Fields fields = kSmallT5;
  fields["tie_word_embeddings"] = tied;
  return fields;
}

MeshShape mesh(int64_t pp, int64_t tp = 1, int64_t dp_shard = 1, int64_t dp_replicate = 1) {
  MeshShape shape;
  shape[Axis::pp] = pp, shape[Axis::tp] = tp;
  shape[Axis::dp_shard] = dp_shard, shape[Axis::dp_replicate] = dp_replicate;
  return shape;
}

class TwoStacks : public ::testing::TestWithParam<const char*> {};

TEST_P(TwoStacks, Pipeline2) {
  expect_same_training(
      GetParam(), mesh(2),
      {{.name = "one micro-batch, tied", .fields = small(true)},
       {.name = "untied", .fields = small(false), .micro_batches = 4},
       {.name = "tied, recomputation", .fields = small(true), .options = {.recompute = true}, .micro_batches = 2}});
}

TEST_P(TwoStacks, Pipeline2Tensor2) {
  expect_same_training(GetParam(), mesh(2, 2),
                       {{.name = "tied", .fields = small(true), .micro_batches = 2},
                        {.name = "untied", .fields = small(false), .micro_batches = 2}});
}

TEST_P(TwoStacks, Pipeline2Sharded2) {
  expect_same_training(
      GetParam(), mesh(2, 1, 2),
      {{.name = "tied", .fields = small(true), .micro_batches = 2},
       {.name = "untied, recomputation", .fields = small(false), .options = {.recompute = true}, .micro_batches = 2}});
}

TEST_P(TwoStacks, Pipeline2Replicated2) {
  expect_same_training(GetParam(), mesh(2, 1, 1, 2), {{.name = "tied", .fields = small(true), .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Families, TwoStacks, ::testing::Values("TwoTowersForCausalLM"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, TwoStacks, ::testing::Values("T5ForConditionalGeneration"),
                         [](const auto& info) { return info.param; });

Variant variant(const std::string& schedule, int64_t encoder, int64_t decoder, int64_t micro_batches,
                std::vector<int64_t> cuts = {}, ParallelOptions options = {}) {
  Fields fields = small(/*tied=*/micro_batches % 4 == 0);
  fields["num_layers"] = encoder, fields["num_decoder_layers"] = decoder;
  fields["num_hidden_layers"] = encoder;  // layers of each of two equal stacks
  options.pipeline = {.schedule = schedule, .cuts = std::move(cuts)};
  return {.name = schedule, .fields = fields, .options = options, .micro_batches = micro_batches};
}

class SplitStacks : public ::testing::TestWithParam<const char*> {};

TEST_P(SplitStacks, Pipeline2) {
  expect_same_training(GetParam(), mesh(2),
                       {variant("interleaved", 3, 3, 2), variant("zbv", 3, 3, 4), variant("1f1b", 3, 3, 2, {1}),
                        variant("1f1b", 3, 3, 4, {5}, {.recompute = true})});
}

TEST_P(SplitStacks, Pipeline3) {
  expect_same_training(GetParam(), mesh(3),
                       {variant("1f1b", 3, 3, 4), variant("1f1b", 3, 3, 2, {3, 4}), variant("gpipe", 3, 3, 2, {4, 5}),
                        variant("interleaved", 3, 3, 3), variant("zbv", 4, 4, 4, {1, 2, 4, 6, 7})},
                       // AdamW divides by gradients that are near 0, whose rounding differs between schedules.
                       /*tolerance=*/3e-5);
}

TEST_P(SplitStacks, Pipeline4) {
  expect_same_training(GetParam(), mesh(4),
                       {variant("1f1b", 3, 3, 4), variant("interleaved", 4, 4, 4), variant("zbv", 4, 4, 8),
                        variant("interleaved-zero-bubble", 5, 5, 4)});
}

TEST_P(SplitStacks, Pipeline3Sharded2) {
  expect_same_training(GetParam(), mesh(3, 1, 2),
                       {variant("1f1b", 3, 3, 2), variant("zbv", 3, 3, 4, {}, {.recompute = true})});
}

TEST_P(SplitStacks, Pipeline2Tensor2) {
  expect_same_training(GetParam(), mesh(2, 2), {variant("1f1b", 3, 3, 4, {4}), variant("interleaved", 3, 3, 2)},
                       /*tolerance=*/3e-5);  // as above
}

INSTANTIATE_TEST_SUITE_P(Families, SplitStacks, ::testing::Values("T5ForConditionalGeneration"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, SplitStacks, ::testing::Values("SplitTowersForCausalLM"),
                         [](const auto& info) { return info.param; });

Variant images(const std::string& schedule, int64_t layers, int64_t micro_batches, std::vector<int64_t> cuts = {}) {
  Variant variant = {.name = schedule,
                     .fields = {{"image_size", int64_t{12}},
                                {"patch_size", int64_t{4}},
                                {"projection_dim", int64_t{20}},
                                {"num_labels", int64_t{5}},
                                {"num_hidden_layers", layers}},
                     .micro_batches = micro_batches,
                     .compares_rows = true};
  variant.options.pipeline = {.schedule = schedule, .cuts = std::move(cuts)};
  return variant;
}

TEST(CutPairs, Pipeline3) {
  expect_same_training("CLIPModel", mesh(3),
                       {images("1f1b", 3, 2), images("1f1b", 3, 2, {3, 4}), images("interleaved", 4, 3)});
}

TEST(CutPairs, Pipeline4) {
  expect_same_training("CLIPModel", mesh(4), {images("1f1b", 2, 4), images("zbv", 4, 4), images("zbv", 4, 8)});
}

TEST(OneStack, OfImages) {
  expect_same_training("CLIPForImageClassification", mesh(3), {images("1f1b", 4, 2), images("zbv", 7, 4)});
}

TEST(OneStack, OfTexts) {
  Variant plain = variant("1f1b", 4, 1, 2), looped = variant("interleaved", 6, 1, 3);
  for (Variant* variant : {&plain, &looped}) variant->fields["num_labels"] = int64_t{62};  // labels are tokens here
  expect_same_training("T5ForTokenClassification", mesh(3), {plain, looped});
}

TEST(TwoStacksTable, AssignsLayersToStagesAndSharedTablesToAll) {
  const Entry& t5 = get_entry("T5ForConditionalGeneration");
  const auto held_by = [](int64_t stage) {  // stages of two layers; the second ends the encoder and starts the decoder
    return std::set<std::string>(
        stage == 0   ? std::set<std::string>{"encoder.block.0", "encoder.block.1"}
        : stage == 1 ? std::set<std::string>{"encoder.block.2", "encoder.final_layer_norm", "decoder.block.0"}
                     : std::set<std::string>{"decoder.block.1", "decoder.final_layer_norm", "lm_head"});
  };
  for (const bool tied : {false, true}) {
    const auto config = tiny_config(t5, small(tied));
    for (const int64_t number : {0, 1, 2}) {
      const Model model = build_on_meta(t5, *config);
      const StageOnRank stage(number, {2, 4}, stack_sizes(*model.module, *t5.plan));
      EXPECT_EQ(stage.receives(), number == 0 ? 0u : number == 1 ? 1u : 2u);
      for (const ModelParameter& parameter : parameter_table(*model.module, *t5.plan, *config, {&stage}).parameters) {
        const bool is_shared =
            parameter.name == "shared.weight" || parameter.name.ends_with("relative_attention_bias.weight");
        const auto own = held_by(number);
        const bool is_own =
            std::ranges::any_of(own, [&](const std::string& path) { return lies_in(path, parameter.name); });
        EXPECT_EQ(parameter.held, is_shared || is_own) << parameter.name << ", stage " << number;
        EXPECT_EQ(parameter.in_every_stage, is_shared) << parameter.name << ", tied: " << tied;
        EXPECT_FALSE(parameter.shared_between_stages) << parameter.name << " would be summed twice";
      }
    }
  }
}

TEST(TwoStacksError, NamesTheListsWithTooFewLayers) {
  const auto error = [](const char* architecture, const MeshShape& shape, const PipelineOptions& options = {}) {
    const Entry& entry = get_entry(architecture);
    return ParallelModel::error(entry, *tiny_config(entry, kSmallT5), shape, options);
  };
  EXPECT_EQ(error("TwoTowersForCausalLM", mesh(2)), "");
  EXPECT_EQ(error("TwoTowersForCausalLM", mesh(3)),
            "pp = 3 needs at least as many layers, but TwoTowersForCausalLM with a stack that is not split and a stack "
            "that is not split has 2: choose a smaller pp");
  EXPECT_EQ(error("T5ForConditionalGeneration", mesh(4)), "");
  EXPECT_EQ(error("T5ForConditionalGeneration", mesh(6)),
            "pp = 6 needs at least as many layers, but T5ForConditionalGeneration with encoder.block and decoder.block "
            "has 5: choose a smaller pp");
  EXPECT_EQ(
      error("T5ForConditionalGeneration", mesh(2), {.cuts = {5}}),
      "parallel.cuts starts a stage at 5, but T5ForConditionalGeneration with encoder.block and decoder.block has "
      "5 elements: the last cut can be at most 4");
  EXPECT_EQ(error("T5ForTokenClassification", mesh(4)),
            "pp = 4 needs at least as many layers, but transformer.encoder.block has 3: choose a smaller pp");
}

}  // namespace
}  // namespace modular::testing
