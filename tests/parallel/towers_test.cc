// Models that pipelines cut between two towers train what one process trains: a table that both stages look up, with
// and without the output tied to it, with stages that are split or sharded themselves.
#include <gtest/gtest.h>

#include "generated/clip.h"
#include "generated/t5.h"
#include "runtime/parallel/meta_construction.h"
#include "runtime/parallel/parameter_table.h"
#include "tests/generator/golden/parallel/generated/two_towers.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Fields kSmall = {{"d_model", int64_t{36}},
                       {"d_kv", int64_t{8}},
                       {"d_ff", int64_t{50}},
                       {"num_layers", int64_t{3}},
                       {"num_heads", int64_t{4}},
                       {"num_decoder_layers", int64_t{2}},
                       {"relative_attention_num_buckets", int64_t{8}},
                       {"initializer_factor", 0.5},
                       {"relative_attention_max_distance", int64_t{20}}};

Fields small(bool tied) {
  Fields fields = kSmall;
  fields["tie_word_embeddings"] = tied;
  return fields;
}

MeshShape mesh(int64_t pp, int64_t tp = 1, int64_t dp_shard = 1, int64_t dp_replicate = 1) {
  MeshShape shape;
  shape[Axis::pp] = pp, shape[Axis::tp] = tp;
  shape[Axis::dp_shard] = dp_shard, shape[Axis::dp_replicate] = dp_replicate;
  return shape;
}

class Towers : public ::testing::TestWithParam<const char*> {};

TEST_P(Towers, Pipeline2) {
  expect_same_training(
      GetParam(), mesh(2),
      {{.name = "one micro-batch, tied", .fields = small(true)},
       {.name = "untied", .fields = small(false), .micro_batches = 4},
       {.name = "tied, recomputation", .fields = small(true), .options = {.recompute = true}, .micro_batches = 2}});
}

TEST_P(Towers, Pipeline2Tensor2) {
  expect_same_training(GetParam(), mesh(2, 2),
                       {{.name = "tied", .fields = small(true), .micro_batches = 2},
                        {.name = "untied", .fields = small(false), .micro_batches = 2}});
}

TEST_P(Towers, Pipeline2Sharded2) {
  expect_same_training(
      GetParam(), mesh(2, 1, 2),
      {{.name = "tied", .fields = small(true), .micro_batches = 2},
       {.name = "untied, recomputation", .fields = small(false), .options = {.recompute = true}, .micro_batches = 2}});
}

TEST_P(Towers, Pipeline2Replicated2) {
  expect_same_training(GetParam(), mesh(2, 1, 1, 2), {{.name = "tied", .fields = small(true), .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Families, Towers, ::testing::Values("TwoTowersForCausalLM", "T5ForConditionalGeneration"),
                         [](const auto& info) { return info.param; });

struct Stage final : pp::Stage {
  explicit Stage(bool first) : first(first) {}
  bool is_first() const override { return first; }
  bool is_last() const override { return !first; }
  Tensor received() override { return {}; }
  std::pair<int64_t, int64_t> span(int64_t) const override { return {0, 0}; }
  bool first;
};

TEST(TowersTable, GivesEachStageItsTowerAndBothTheTable) {
  const Entry& t5 = entry_of("T5ForConditionalGeneration");
  for (const bool tied : {false, true}) {
    const auto config = tiny_config(t5, small(tied));
    for (const bool is_first : {true, false}) {
      const Stage stage(is_first);
      const Model model = build_on_meta(t5, *config);
      for (const ModelParameter& parameter : parameter_table(*model.module, *t5.plan, *config, {&stage}).parameters) {
        const bool is_shared = parameter.name == "shared.weight";
        EXPECT_EQ(parameter.held, is_shared || parameter.name.starts_with("encoder.") == is_first) << parameter.name;
        EXPECT_EQ(parameter.in_every_stage, is_shared) << parameter.name << ", tied: " << tied;
        EXPECT_FALSE(parameter.shared_between_stages) << parameter.name << " would be summed twice";
      }
    }
  }
}

TEST(TowersRefusal, OfMoreThanTwoStages) {
  const auto refusal = [](const char* architecture, const MeshShape& shape) {
    const Entry& entry = entry_of(architecture);
    return ParallelModel::refusal(entry, *tiny_config(entry), shape);
  };
  EXPECT_EQ(refusal("TwoTowersForCausalLM", mesh(2)), "");
  EXPECT_EQ(refusal("TwoTowersForCausalLM", mesh(3)),
            "pp = 3 has more stages than TwoTowersForCausalLM, which is cut between its two towers: set pp to 2 or 1");
  EXPECT_EQ(refusal("T5ForTokenClassification", mesh(2)),
            "T5ForTokenClassification cannot be cut into pipeline stages: set pp to 1");
  EXPECT_EQ(refusal("CLIPForImageClassification", mesh(2)),
            "CLIPForImageClassification cannot be cut into pipeline stages: set pp to 1");
}

}  // namespace
}  // namespace modular::testing
