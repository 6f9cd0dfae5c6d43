// Data parallelism, with and without sharded parameters, trains like one process.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const std::string kLlama = "LlamaForCausalLM";
const Fields kUntied = {{"tie_word_embeddings", false}};
const Fields kBiases = {{"attention_bias", true}, {"mlp_bias", true}, {"tie_word_embeddings", false}};
const Fields kTied = {{"tie_word_embeddings", true}};

MeshShape make_mesh(std::initializer_list<std::pair<Axis, int64_t>> sizes) {
  MeshShape shape;
  for (const auto& [axis, size] : sizes) shape[axis] = size;
  return shape;
}

TEST(OneProcess, AccumulatesAndRecomputes) {
  expect_same_training(kLlama, {},
                       {{.name = "accumulation", .fields = kTied, .micro_batches = 4},
                        {.name = "recomputation", .fields = kTied, .options = {.recompute = true}}},
                       2e-5);
  Mesh mesh({}, {}, {.device = at::kCPU});
  const Report report = train(mesh, get_entry(kLlama), {.name = "plain", .fields = kTied});
  EXPECT_LT(report[2 * kSteps - 2], report[0]) << "the loss did not decrease";
}

class Families : public ::testing::TestWithParam<std::string> {};

TEST_P(Families, ReplicatedOnTwoRanks) {
  expect_same_training(GetParam(), make_mesh({{Axis::dp_replicate, 2}}),
                       {{.name = "plain", .fields = kUntied},
                        {.name = "accumulation, biases", .fields = kBiases, .micro_batches = 4},
                        {.name = "recomputation, tied", .fields = kTied, .options = {.recompute = true}}});
}

TEST_P(Families, ReplicatedOnFourRanks) {
  expect_same_training(
      GetParam(), make_mesh({{Axis::dp_replicate, 4}}),
      {{.name = "biases", .fields = kBiases}, {.name = "accumulation, tied", .fields = kTied, .micro_batches = 2}});
}

const std::vector<Variant> kShardedVariants = {
    {.name = "accumulation, biases", .fields = kBiases, .micro_batches = 2},
    {.name = "recomputation, tied", .fields = kTied, .options = {.recompute = true}},
    {.name = "ZeRO-2, prefetch of two units, untied",
     .fields = kUntied,
     .options = {.zero_stage = 2, .prefetch = 2},
     .micro_batches = 2},
    {.name = "ZeRO-1, tied", .fields = kTied, .options = {.zero_stage = 1}, .micro_batches = 2},
    {.name = "ZeRO-1, one micro-batch, recomputation", .options = {.zero_stage = 1, .recompute = true}},
};

TEST_P(Families, ShardedOnTwoRanks) {
  expect_same_training(GetParam(), make_mesh({{Axis::dp_shard, 2}}), kShardedVariants);
}

TEST_P(Families, ShardedOnFourRanks) {
  expect_same_training(GetParam(), make_mesh({{Axis::dp_shard, 4}}), kShardedVariants);
}

INSTANTIATE_TEST_SUITE_P(DataParallel, Families, ::testing::Values("GemmaForCausalLM"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, Families, ::testing::Values("LlamaForCausalLM", "MistralForCausalLM"),
                         [](const auto& info) { return info.param; });

TEST(Fsdp, WithFewerRowsThanRanksAndWithoutPrefetch) {
  expect_same_training(
      kLlama, make_mesh({{Axis::dp_shard, 4}}),
      {{.name = "all at once",
        .fields = {{"num_key_value_heads", int64_t{1}}, {"head_dim", int64_t{2}}, {"attention_bias", true}},
        .options = {.zero_stage = 2, .prefetch = 0, .recompute = true},
        .micro_batches = 2}});
}

/// Parameters of two rows on three ranks: each rank holds columns of both rows, the last one fewer.
void expect_same_training_of_two_rows(const std::string& architecture, const Fields& fields) {
  expect_same_training(architecture, make_mesh({{Axis::dp_shard, 3}}),
                       {{.name = "plain", .fields = fields},
                        {.name = "accumulation, prefetch of two units",
                         .fields = fields,
                         .options = {.prefetch = 2},
                         .micro_batches = 2},
                        {.name = "ZeRO-2", .fields = fields, .options = {.zero_stage = 2}, .micro_batches = 2},
                        {.name = "ZeRO-1", .fields = fields, .options = {.zero_stage = 1}, .micro_batches = 2},
                        {.name = "adafactor", .fields = fields, .optimizer = "adafactor"}});
}

TEST(Fsdp, TwoExpertsOnThreeRanks) {
  expect_same_training_of_two_rows("MixtralForCausalLM", {{"num_local_experts", int64_t{2}}});
}

TEST(Fsdp, TwoSegmentTypesOnThreeRanks) {
  expect_same_training_of_two_rows("BertForMaskedLM", {{"hidden_size", int64_t{40}}});
}

TEST(Fsdp, InReplicas) {
  expect_same_training(kLlama, make_mesh({{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}}),
                       {{.name = "plain"}, {.name = "accumulation, tied", .fields = kTied, .micro_batches = 2}});
}

// CPUs with bfloat16 instructions round matmuls differently if a batch is split differently, and each step amplifies
// it. A test below checks bitwise that sums are float32.
constexpr double kBfloat16Tolerance = 5e-3;

TEST(Bfloat16, ShardedTrainsLikeOneProcess) {
  expect_same_training(kLlama, make_mesh({{Axis::dp_shard, 2}}),
                       {{.name = "plain", .options = {.bf16 = true}},
                        {.name = "accumulation, recomputation, tied",
                         .fields = kTied,
                         .options = {.recompute = true, .bf16 = true},
                         .micro_batches = 2},
                        {.name = "ZeRO-1", .options = {.zero_stage = 1, .bf16 = true}, .micro_batches = 2}},
                       kBfloat16Tolerance);
}

TEST(Bfloat16, ReplicatedTrainsLikeOneProcess) {
  expect_same_training(kLlama, make_mesh({{Axis::dp_replicate, 2}}),
                       {{.name = "accumulation", .options = {.bf16 = true}, .micro_batches = 2}}, kBfloat16Tolerance);
}

/// Gradients of one step, by name, for `count` identical micro-batches distributed over the ranks.
std::map<std::string, at::Tensor> gradients_of_equal_batches(Mesh& mesh, const ParallelOptions& options,
                                                             int64_t count) {
  const Entry& entry = get_entry(kLlama);
  Fields fields = kUntied;
  fields["num_hidden_layers"] = int64_t{1};
  ParallelModel model(entry, *tiny_config(entry, fields), mesh, options, /*seed=*/1);
  Batch batch;
  batch.input_ids = at::arange(24).view({2, 12});
  batch.labels = batch.input_ids;
  model.step(std::vector<Batch>(static_cast<size_t>(count / mesh.world_size()), batch));
  std::map<std::string, at::Tensor> gradients;
  for (const ShardedParameter& parameter : model.parameters()) gradients[parameter.name] = parameter.grad.clone();
  return gradients;
}

/// A bfloat16 gradient has 8 bits, so float32 represents the sum of 512 equal gradients, each 1/512 as large, exactly.
/// In bfloat16 the sum would stop growing.
TEST(Bfloat16, ManyMicroBatchesAreSummedInFloat32) {
  constexpr int64_t kMany = 512;
  Mesh alone({}, {}, {.device = at::kCPU});
  const auto single = gradients_of_equal_batches(alone, {.bf16 = true}, 1);
  for (const auto& [name, gradient] : gradients_of_equal_batches(alone, {.bf16 = true}, kMany))
    EXPECT_TRUE(gradient.equal(single.at(name))) << name;
  for (const Axis axis : {Axis::dp_replicate, Axis::dp_shard})
    run_ranks(2, [axis](const Environment& environment) {
      Mesh mesh(environment, make_mesh({{axis, 2}}), {.device = at::kCPU});
      for (const int64_t stage : {1, 2, 3}) {
        const ParallelOptions options = {.zero_stage = stage, .bf16 = true};
        const auto few = gradients_of_equal_batches(mesh, options, 2);
        for (const auto& [name, gradient] : gradients_of_equal_batches(mesh, options, kMany))
          EXPECT_TRUE(gradient.equal(few.at(name))) << name << " with ZeRO " << stage;
        if (axis == Axis::dp_replicate) break;
      }
    });
}

}  // namespace
}  // namespace modular::testing
