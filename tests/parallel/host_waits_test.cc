// The host does not wait for a GPU during a training step: it launches the entire step, including the optimizer update,
// and then reads the results once. Uses a device that counts operations for which the host of a GPU would wait.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "runtime/optim/optimizer.h"
#include "tests/parallel/training_runs.h"
#include "tests/support/counted_backend.h"
#include "tests/support/counted_device.h"

namespace modular::testing {
namespace {

using Waits = std::vector<std::string>;

/// A model in training on a device.
struct Training {
  Mesh mesh;
  std::unique_ptr<AnyConfig> config;
  ParallelModel model;
  Optimizer optimizer;
  GradientNorm gradient = {};

  Training(const std::string& architecture, const Variant& variant, const at::Device& device,
           const Environment& environment = {}, const MeshShape& shape = {})
      : mesh(environment, shape, {.device = device, .make_backend = device.is_cpu() ? nullptr : make_counted_backend}),
        config(tiny_config(get_entry(architecture), variant.fields)),
        model(get_entry(architecture), *config, mesh, variant.options, /*seed=*/11),
        optimizer(model.parameters(), {.name = variant.optimizer, .eps = 1e-5}, mesh) {}

  LaunchedStep launch(const std::vector<Batch>& batches, int64_t number) {
    LaunchedStep launched = model.launch_step(batches, number);
    gradient = find_gradient_norm(model.parameters(), mesh, launched.loss());
    optimizer.step(/*lr=*/1e-2, clipping_to(/*max_norm=*/0.1, gradient));
    model.parameters_changed();
    return launched;
  }
};

const Fields kSmallGpt2 = {
    {"n_embd", int64_t{36}}, {"n_layer", int64_t{2}}, {"n_head", int64_t{4}}, {"n_positions", int64_t{64}}};

struct Case {
  std::string name, architecture;
  Variant variant = {};
  Waits waits = {};  // expected waits of a step
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class HostWaits : public ::testing::TestWithParam<Case> {};

TEST_P(HostWaits, AreNoneInAStepAndOneForItsResults) {
  at::set_num_threads(1);
  const auto& [name, architecture, variant, expected_waits] = GetParam();
  Training counted(architecture, variant, counted_device()), on_cpu(architecture, variant, at::kCPU);
  for (int64_t step = 0; step < 3; ++step) {
    const std::vector<Batch> batches = {global_batch(get_entry(architecture), static_cast<size_t>(2 * step)),
                                        global_batch(get_entry(architecture), static_cast<size_t>(2 * step + 1))};
    LaunchedStep launched;
    const Waits waits = host_waits([&] { launched = counted.launch(batches, step); });
    EXPECT_EQ(waits, expected_waits) << "in step " << step;
    StepResult result;
    EXPECT_EQ(host_waits([&] { result = counted.model.finish_step(launched); }), Waits{"a copy to the host"});

    const StepResult expected = on_cpu.model.finish_step(on_cpu.launch(batches, step));
    const double tolerance = variant.options.bf16 ? 2e-2 : 1e-4;
    EXPECT_NEAR(result.loss / expected.loss, 1.0, tolerance);
    EXPECT_NEAR(counted.gradient.norm.item<double>() / on_cpu.gradient.norm.item<double>(), 1.0, 10 * tolerance);
  }
}

ParallelOptions with(const std::function<void(ParallelOptions&)>& change) {
  ParallelOptions options;
  change(options);
  return options;
}

const Fields kSmallImages = {{"image_size", int64_t{12}}, {"patch_size", int64_t{4}}, {"num_labels", int64_t{5}}};
const Fields kSession = {
    {"n_embd", int64_t{36}}, {"n_head", int64_t{6}}, {"n_layer", int64_t{2}}, {"item_dim", int64_t{12}}};

INSTANTIATE_TEST_SUITE_P(
    Models, HostWaits,
    ::testing::Values(
        Case{"Gpt2", "GPT2LMHeadModel", {.fields = kSmallGpt2}}, Case{"Llama", "LlamaForCausalLM"},
        Case{"Bert", "BertForMaskedLM"}, Case{"Images", "ViTForImageClassification", {.fields = kSmallImages}},
        Case{"Bf16", "LlamaForCausalLM", {.options = with([](auto& options) { options.bf16 = true; })}},
        Case{"RecomputedUnits", "LlamaForCausalLM", {.options = with([](auto& options) { options.recompute = true; })}},
        Case{"SampledClasses", "SessionForNextItem", {.fields = kSession, .options = with([](auto& options) {
                                                                            options.sampled_softmax = {.samples = 12};
                                                                          })}},
        // float32 experts have one GEMM each, whose number of rows the host must know: here in two forwards of each
        // batch, of which the first counts. On a GPU, bfloat16 experts share one grouped GEMM.
        Case{"Experts",
             "MixtralForCausalLM",
             {.fields = {{"num_hidden_layers", int64_t{1}}, {"num_local_experts", int64_t{4}}},
              .options = with([](auto& options) { options.router = {.aux_loss = 0.1, .z_loss = 0.01}; })},
             {"aten::bincount", "a copy to the host", "aten::bincount", "a copy to the host", "aten::bincount",
              "a copy to the host", "aten::bincount", "a copy to the host"}},
        Case{"Sgd", "LlamaForCausalLM", {.optimizer = "sgd"}},
        // Muon has no kernel that can skip its update on the device, so the host must read the flag.
        Case{"Muon", "LlamaForCausalLM", {.optimizer = "muon"}, {"aten::_local_scalar_dense"}}),
    [](const auto& test) { return test.param.name; });

// A device's backward runs on a thread that libtorch starts once per process, for the first backward of all: here one
// without recomputation or offloading.
TEST(HostWaits, DeviceBackwardsRunAfterCpuBackwards) {
  at::set_num_threads(1);
  const std::string architecture = "LlamaForCausalLM";
  const std::vector<Batch> batches = {global_batch(get_entry(architecture), 0)};
  const auto first_loss = [&](const ParallelOptions& options) {
    Training training(architecture, {.options = options}, counted_device());
    return training.model.finish_step(training.launch(batches, 0)).loss;
  };
  const double plain = first_loss({});
  EXPECT_NEAR(first_loss(with([](auto& options) { options.offload = {.activations = true, .least_bytes = 0}; })), plain,
              1e-6 * plain);
  EXPECT_NEAR(first_loss(with([](auto& options) { options.recompute.operations = {"norm"}; })), plain, 1e-6 * plain);
}

struct Strategy {
  std::string name;
  MeshShape shape;
  ParallelOptions options = {};
};

MeshShape two(Axis axis) {
  MeshShape shape;
  shape[axis] = 2;
  return shape;
}

void PrintTo(const Strategy& one, std::ostream* out) { *out << one.name; }

class HostWaitsOnMesh : public ::testing::TestWithParam<Strategy> {};

TEST_P(HostWaitsOnMesh, AreNoneInAStep) {
  const auto& [name, shape, options] = GetParam();
  const std::string architecture = "LlamaForCausalLM";
  const auto to_batch_rows = [&](int64_t step, int64_t rank, int64_t ranks) {
    std::vector<Batch> parts;
    for (const int64_t part : {2 * rank, 2 * rank + 1}) {
      Batch& batch = parts.emplace_back(global_batch(get_entry(architecture), static_cast<size_t>(step)));
      const int64_t rows = batch.leading().size(0) / (2 * ranks);
      batch.tensors([&](at::Tensor& tensor) {
        if (tensor.defined()) tensor = tensor.narrow(0, part * rows, rows);
      });
    }
    return parts;
  };
  constexpr int64_t kTaken = 3;
  const auto reports = run_ranks(2, [&](const Environment& environment) {
    at::set_num_threads(1);
    Training training(architecture, {.options = options}, counted_device(), environment, shape);
    const bool divides_rows = shape[Axis::dp_shard] * shape[Axis::dp_replicate] > 1;
    Report losses;
    for (int64_t step = 0; step < kTaken; ++step) {
      const auto batches = to_batch_rows(step, divides_rows ? environment.rank : 0, divides_rows ? 2 : 1);
      LaunchedStep launched;
      EXPECT_EQ(host_waits([&] { launched = training.launch(batches, step); }), Waits{}) << "in step " << step;
      losses.push_back(training.model.finish_step(launched).loss);
    }
    return losses;
  });
  Training alone(architecture, {}, at::kCPU);
  for (int64_t step = 0; step < kTaken; ++step) {
    const double loss = alone.model.finish_step(alone.launch(to_batch_rows(step, 0, 1), step)).loss;
    for (const Report& report : reports)
      if (report.size() == kTaken) EXPECT_NEAR(report[static_cast<size_t>(step)] / loss, 1.0, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, HostWaitsOnMesh,
                         ::testing::Values(Strategy{"Replicas", two(Axis::dp_replicate)},
                                           Strategy{"Shards", two(Axis::dp_shard)},
                                           Strategy{"ShardsOfGradients", two(Axis::dp_shard), {.zero_stage = 2}},
                                           Strategy{"ShardsOfState", two(Axis::dp_shard), {.zero_stage = 1}},
                                           Strategy{"Tensors", two(Axis::tp)}, Strategy{"Pipeline", two(Axis::pp)}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace modular::testing
