// Router losses and balancing biases train the same on every mesh, in recomputed units and in every division of a step
// into micro-batches, and do not affect evaluation. tests/parity/ compares the losses with PyTorch.
#include <gtest/gtest.h>

#include "runtime/mesh/collectives.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const std::string kMixtral = "MixtralForCausalLM", kDeepseek = "DeepseekV3ForCausalLM";

const Fields kFields = {{"num_local_experts", int64_t{4}},
                        {"n_routed_experts", int64_t{4}},
                        {"num_experts_per_tok", int64_t{2}},
                        {"n_group", int64_t{2}},
                        {"topk_group", int64_t{1}},
                        {"moe_intermediate_size", int64_t{20}},
                        {"first_k_dense_replace", int64_t{1}},
                        {"kv_lora_rank", int64_t{10}},
                        {"q_lora_rank", int64_t{6}},
                        {"qk_nope_head_dim", int64_t{6}},
                        {"qk_rope_head_dim", int64_t{4}},
                        {"v_head_dim", int64_t{8}}};

Fields get_fields(const std::string& architecture) {
  Fields fields = kFields;
  if (architecture == kDeepseek) fields["num_key_value_heads"] = int64_t{4};
  return fields;
}

const RouterOptions kOverTheStep = {.aux_loss = 0.5, .z_loss = 0.01, .bias_speed = 0.01};
const RouterOptions kBySequence = {.aux_loss = 0.5, .by_sequence = true, .z_loss = 0.01, .bias_speed = 0.01};

class RoutersOnMesh : public ::testing::TestWithParam<std::string> {
 protected:
  Variant variant(std::string name, ParallelOptions options, int64_t micro_batches = 1) {
    return {
        .name = std::move(name), .fields = get_fields(GetParam()), .options = options, .micro_batches = micro_batches};
  }
};

TEST_P(RoutersOnMesh, Alone) {
  expect_same_training(GetParam(), {},
                       {variant("micro-batches", {.router = kOverTheStep}, 4),
                        variant("recomputation", {.recompute = true, .router = kOverTheStep}),
                        variant("by sequence", {.recompute = true, .router = kBySequence}, 4)});
}

TEST_P(RoutersOnMesh, Sharded3) {
  expect_same_training(
      GetParam(), {.size = {1, 1, 3, 1, 1}},
      {variant("plain", {.router = kOverTheStep}),
       variant("accumulation, recomputation", {.recompute = true, .router = kOverTheStep}, 2),
       variant("by sequence, ZeRO-1", {.zero_stage = 1, .recompute = true, .router = kBySequence}, 2)});
}

TEST_P(RoutersOnMesh, Tensor2Replicated2) {
  expect_same_training(GetParam(), {.size = {1, 2, 1, 1, 2}},
                       {variant("plain", {.router = kOverTheStep}),
                        variant("all positions", {.sequence = false, .router = kOverTheStep}),
                        variant("by sequence, recomputation", {.recompute = true, .router = kBySequence}, 2)});
}

TEST_P(RoutersOnMesh, Context2) {
  expect_same_training(
      GetParam(), {.size = {1, 1, 1, 2, 1}},
      {variant("plain", {.router = kOverTheStep}, 2), variant("by sequence", {.router = kBySequence}, 2)});
}

TEST_P(RoutersOnMesh, Pipeline2) {
  expect_same_training(
      GetParam(), {.size = {2, 1, 1, 1, 1}},
      {variant("one micro-batch", {.router = kOverTheStep}), variant("plain", {.router = kOverTheStep}, 4),
       variant("split backwards", {.pipeline = {.schedule = "zbv"}, .router = kOverTheStep}, 4),
       variant("by sequence", {.pipeline = {.schedule = "zbv"}, .router = kBySequence}, 4)});
}

TEST_P(RoutersOnMesh, Pipeline2Sharded2) {
  expect_same_training(GetParam(), {.size = {2, 1, 2, 1, 1}},
                       {variant("recomputation", {.recompute = true, .router = kOverTheStep}, 2),
                        variant("by sequence, recomputation", {.recompute = true, .router = kBySequence}, 2)});
}

INSTANTIATE_TEST_SUITE_P(Families, RoutersOnMesh, ::testing::Values(kMixtral),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, RoutersOnMesh, ::testing::Values(kDeepseek),
                         [](const auto& info) { return info.param; });

Batch to_batch(int64_t rows, int64_t seq) {
  Batch batch;
  batch.input_ids = at::arange(rows * seq, at::kLong).view({rows, seq}) * 7 % 62;
  batch.labels = batch.input_ids;
  return batch;
}

/// A DeepSeek-V3 whose routers give all experts the same score, so that biases decide: experts 0 and 1 are chosen.
struct Undecided {
  Mesh mesh{{}, {}, {.device = at::kCPU}};
  std::unique_ptr<AnyConfig> config = tiny_config(get_entry(kDeepseek), get_fields(kDeepseek));
  ParallelModel model;
  const at::Tensor biases = at::tensor({0.4, 0.3, 0.2, 0.1}, at::kFloat);

  explicit Undecided(const RouterOptions& options)
      : model(get_entry(kDeepseek), *config, mesh, {.router = options}, /*seed=*/5) {
    for (ShardedParameter& parameter : model.parameters())
      if (parameter.name.ends_with("mlp.gate.weight")) parameter.local.zero_();
    for (ShardedParameter& buffer : model.buffers()) buffer.local.copy_(biases);
    model.parameters_changed();
  }
};

TEST(Routers, BiasesMoveTowardsBalance) {
  Undecided undecided({.bias_speed = 0.01});
  const Batch batch = to_batch(4, 8);
  const StepResult result = undecided.model.step({&batch, 1});
  EXPECT_NEAR(result.expert_load, 2.0, 1e-12) << "two of four experts get all rows";
  EXPECT_EQ(result.router_loss, 0.0);
  for (const ShardedParameter& buffer : undecided.model.buffers())
    EXPECT_TRUE(at::equal(buffer.local, undecided.biases)) << "before the optimizer's step";
  undecided.model.move_router_biases();
  const at::Tensor expected = undecided.biases + at::tensor({-0.01, -0.01, 0.01, 0.01}, at::kFloat);
  ASSERT_EQ(undecided.model.buffers().size(), 3u);
  for (const ShardedParameter& buffer : undecided.model.buffers())
    EXPECT_TRUE(at::allclose(buffer.local, expected)) << buffer.name;
}

// With equal scores of n experts, f is n/k for each of the k chosen experts, and P is 1/n.
TEST(Routers, LossesOfEqualScoresHaveAClosedForm) {
  const Batch batch = to_batch(4, 8);
  const auto get_loss = [&](const RouterOptions& options) {
    return Undecided(options).model.step({&batch, 1}).router_loss;
  };
  EXPECT_NEAR(get_loss({.aux_loss = 0.5}), 0.5 * 2, 1e-6) << "k times the coefficient";
  EXPECT_NEAR(get_loss({.aux_loss = 0.5, .by_sequence = true}), 0.5 * 3, 1e-6) << "once for each layer";
  const double log_sum = std::log(4.0);
  EXPECT_NEAR(get_loss({.z_loss = 0.5}), 0.5 * 3 * log_sum * log_sum, 1e-6);
}

TEST(Routers, LossesAreTrainedAndReportedSeparately) {
  Mesh mesh({}, {}, {.device = at::kCPU});
  const auto config = tiny_config(get_entry(kMixtral), get_fields(kMixtral));
  const Batch batch = to_batch(4, 8);
  ParallelModel with(get_entry(kMixtral), *config, mesh, {.router = kOverTheStep}, /*seed=*/5),
      without(get_entry(kMixtral), *config, mesh, {}, /*seed=*/5);
  const StepResult balanced = with.step({&batch, 1}), plain = without.step({&batch, 1});
  EXPECT_EQ(balanced.loss, plain.loss);
  EXPECT_GT(balanced.router_loss, 0.0);
  EXPECT_EQ(plain.router_loss, 0.0);
  EXPECT_EQ(balanced.expert_load, plain.expert_load);
  EXPECT_GE(plain.expert_load, 1.0);
  EXPECT_EQ(with.evaluate({&batch, 1}).loss, without.evaluate({&batch, 1}).loss);
  bool differ = false;
  for (size_t i = 0; i < with.parameters().size(); ++i)
    differ = differ || !at::equal(with.parameters()[i].grad, without.parameters()[i].grad);
  EXPECT_TRUE(differ);
}

TEST(Routers, ReportLoadsWithoutExtraCommunication) {
  const std::vector<MeshShape> shapes = {
      {.size = {1, 2, 1, 1, 1}}, {.size = {1, 1, 2, 1, 1}}, {.size = {2, 1, 1, 1, 1}}, {.size = {2, 1, 2, 1, 1}}};
  for (const MeshShape& shape : shapes) {
    run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
      Mesh mesh(environment, shape, {.device = at::kCPU});
      const auto traffic_per_step = [&](const std::string& architecture) {
        ParallelOptions options;
        if (shape[Axis::pp] > 1) options.pipeline.cuts = {2};
        const auto config = tiny_config(get_entry(architecture), kFields);
        ParallelModel model(get_entry(architecture), *config, mesh, options, /*seed=*/5);
        const std::vector<Batch> micro_batches(2, to_batch(4, 8));
        model.step(micro_batches);  // after this step, shapes and the order of units are known
        const int64_t before = traffic().collectives;
        const StepResult result = model.step(micro_batches);
        EXPECT_EQ(result.expert_load > 0.0, architecture == kMixtral);
        return traffic().collectives - before;
      };
      EXPECT_EQ(traffic_per_step(kMixtral), traffic_per_step("LlamaForCausalLM")) << shape.describe();
    });
  }
}

// Gradient descent on the loss evens out skewed loads.
TEST(Routers, TrainingWithTheLossBalances) {
  Mesh mesh({}, {}, {.device = at::kCPU});
  const auto config = tiny_config(get_entry(kMixtral), get_fields(kMixtral));
  const Batch batch = to_batch(8, 12);
  const auto load_after = [&](const RouterOptions& options) {
    ParallelModel model(get_entry(kMixtral), *config, mesh, {.router = options}, /*seed=*/5);
    double load = 0.0;
    for (int step = 0; step < 40; ++step) {
      load = model.step({&batch, 1}).expert_load;
      for (ShardedParameter& parameter : model.parameters())
        if (parameter.name.ends_with("gate.weight")) parameter.local.sub_(parameter.grad, /*alpha=*/0.5);
      model.parameters_changed();
    }
    return load;
  };
  EXPECT_LT(load_after({.aux_loss = 1.0, .by_sequence = true}), load_after({}));
}

}  // namespace
}  // namespace modular::testing
