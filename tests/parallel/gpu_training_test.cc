// Training on a GPU matches a CPU: on one rank with every option, on ranks that share the GPU through host memory, and
// with NCCL in a group of one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <cmath>

#include "runtime/mesh/libraries.h"
#include "runtime/ops/fused.h"
#include "tests/parallel/training_runs.h"
#include "tests/support/staged_backend.h"

namespace modular::testing {
namespace {

struct Case {
  std::string architecture;
  Variant variant;
  MeshShape shape = {};
  double tolerance = 2e-4;  // float32 sums in other orders, over twenty steps
};

void PrintTo(const Case& test_case, std::ostream* out) {
  *out << test_case.architecture << ", " << test_case.variant.name;
}

class GpuTraining : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_P(GpuTraining, MatchesTheCpu) {
  const auto& [architecture, variant, shape, tolerance] = GetParam();
  const Entry& entry = get_entry(architecture);
  const auto train_on_gpu = [&](const Environment& environment) {
    install_fused_functions();
    Mesh mesh(environment, shape, {.device = at::kCUDA, .make_backend = make_staged_backend});
    return train(mesh, entry, variant);
  };
  const std::vector<Report> reports = shape.ranks() == 1 ? std::vector<Report>{train_on_gpu({})}
                                                         : run_ranks(static_cast<int>(shape.ranks()), train_on_gpu);
  Mesh alone({}, {}, {.device = at::kCPU});
  Variant reference = variant;
  reference.options.recompute = {};
  reference.options.offload = {};
  const Report expected = train(alone, entry, reference);
  for (const Report& found : reports) {
    ASSERT_EQ(found.size(), expected.size());
    double scale = 0.0;  // scale of the sums over parameters, which are near 0 by chance
    for (size_t i = 2 * kSteps + 2; i < expected.size(); ++i) scale = std::max(scale, std::abs(expected[i]));
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool is_sum = i >= 2 * kSteps + 2;
      ASSERT_NEAR(found[i], expected[i], is_sum ? 10 * tolerance * scale : tolerance * std::abs(expected[i]))
          << (is_sum  ? "a sum over parameters, "
              : i % 2 ? "the gradient's norm, "
                      : "the loss, ")
          << i / 2;
    }
  }
}

MeshShape shape_with(std::initializer_list<Axis> axes) {
  MeshShape shape;
  for (const Axis axis : axes) shape[axis] = 2;
  return shape;
}

const Fields kGpt2 = {
    {"n_embd", int64_t{36}}, {"n_layer", int64_t{2}}, {"n_head", int64_t{4}}, {"n_positions", int64_t{64}}};
const Fields kOfSixteens = {
    {"hidden_size", int64_t{64}}, {"intermediate_size", int64_t{96}}, {"head_dim", int64_t{16}}};
const Fields kImages = {{"image_size", int64_t{12}}, {"patch_size", int64_t{4}}, {"num_labels", int64_t{5}}};
const Fields kExperts = {{"num_hidden_layers", int64_t{2}}, {"num_local_experts", int64_t{4}}};

ParallelOptions with(const std::function<void(ParallelOptions&)>& change) {
  ParallelOptions options;
  change(options);
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    OneRank, GpuTraining,
    ::testing::Values(
        Case{"LlamaForCausalLM", {.name = "plain"}}, Case{"GPT2LMHeadModel", {.name = "with dropout", .fields = kGpt2}},
        Case{"ViTForImageClassification", {.name = "images", .fields = kImages}},
        Case{"MixtralForCausalLM", {.name = "experts", .fields = kExperts}},
        Case{"T5ForConditionalGeneration", {.name = "two stacks", .fields = kSmallT5}},
        Case{"LlamaForCausalLM", {.name = "documents", .documents = true}},
        Case{"LlamaForCausalLM", {.name = "in micro-batches", .micro_batches = 3}},
        Case{"LlamaForCausalLM", {.name = "recomputed", .options = with([](auto& o) { o.recompute = true; })}},
        Case{"LlamaForCausalLM", {.name = "offloaded", .options = with([](auto& o) {
                                                         o.offload = {.optimizer = true, .parameters = true};
                                                       })}},
        Case{"LlamaForCausalLM", {.name = "activations offloaded", .options = with([](auto& o) {
                                                                     o.offload = {.activations = true,
                                                                                  .least_bytes = 0};
                                                                   })}},
        Case{"LlamaForCausalLM", {.name = "by Muon", .optimizer = "muon"}},
        Case{"LlamaForCausalLM", {.name = "by Adafactor", .optimizer = "adafactor"}},
        Case{"LlamaForCausalLM",
             {.name = "in float8", .fields = kOfSixteens, .options = with([](auto& o) {
                                                            o.bf16 = true;
                                                            o.float8 = {"model.layers"};
                                                          })},
             {},
             5e-2},
        Case{"LlamaForCausalLM", {.name = "in bfloat16", .options = with([](auto& o) { o.bf16 = true; })}, {}, 5e-2}));

INSTANTIATE_TEST_SUITE_P(
    RanksThatShareIt, GpuTraining,
    ::testing::Values(
        Case{"LlamaForCausalLM", {.name = "replicas"}, shape_with({Axis::dp_replicate})},
        Case{"LlamaForCausalLM", {.name = "shards"}, shape_with({Axis::dp_shard})},
        Case{"LlamaForCausalLM", {.name = "tensors"}, shape_with({Axis::tp})},
        Case{"LlamaForCausalLM", {.name = "a pipeline", .micro_batches = 2}, shape_with({Axis::pp})},
        Case{"LlamaForCausalLM", {.name = "shards and tensors"}, shape_with({Axis::dp_shard, Axis::tp})},
        Case{"MixtralForCausalLM", {.name = "shards of experts", .fields = kExperts}, shape_with({Axis::dp_shard})}));

TEST(Nccl, RunsTrainingCollectivesInAGroupOfOne) {
  if (gpu_count() == 0) GTEST_SKIP() << "no GPU";
  const at::Device gpu(at::kCUDA, 0);
  cuda_library().use_device(gpu);
  GroupSpec spec;
  spec.rank = 0;
  spec.ranks = {0};
  spec.name = spec.description = "one rank";
  spec.one_machine = true;
  spec.timeout = std::chrono::minutes(1);
  const auto backend = cuda_library().make_nccl_backend(c10::make_intrusive<c10d::HashStore>(), spec, gpu);
  const auto numbers = at::TensorOptions().dtype(at::kBFloat16).device(gpu);
  const at::Tensor given = at::randn({1000}, numbers);

  std::vector<at::Tensor> sum = {given.clone()};
  backend->allreduce(sum)->wait();
  EXPECT_TRUE(sum[0].equal(given));

  at::Tensor scattered = at::full({1000}, NAN, numbers), input = given.clone();
  backend->_reduce_scatter_base(scattered, input)->wait();
  EXPECT_TRUE(scattered.equal(given));

  // Views of one buffer, each of which already holds this rank's chunk.
  const at::Tensor full = given.clone();
  std::vector<at::Tensor> outputs = {full.narrow(0, 0, 300), full.narrow(0, 304, 696)}, inputs = outputs;
  backend->allgather_into_tensor_coalesced(outputs, inputs)->wait();
  EXPECT_TRUE(full.equal(given));
  backend->shutdown();
}

}  // namespace
}  // namespace modular::testing
