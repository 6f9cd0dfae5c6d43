// Every optimizer matches torch.optim's updates (oracle.py), in one process and on meshes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/fsdp/unit_layout.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::Report;
using testing::run_ranks;

struct Case {
  const char* name;
  OptimizerOptions options;
  double lr = 0.0, gradient_factor = 1.0;
  double tolerance = 2e-6;
};

std::vector<ParameterGroup> groups() {
  return {{.match = {"*"}, .lr_scale = 5.0},  // overridden entirely by later groups that match
          {.match = {"scale", "embed", "layers.1"}},
          {.match = {"layers.0", "layers.7"}, .lr_scale = 0.1, .weight_decay = 0.3},
          {.match = {"norm.weight"}, .lr_scale = 2.0, .weight_decay = 0.5}};
}

/// The cases of oracle.py.
std::vector<Case> cases() {
  const OptimizerOptions adamw = {.weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-6};
  const auto changed = [&](auto change) {
    OptimizerOptions options = adamw;
    change(options);
    return options;
  };
  const auto sgd = [&](double weight_decay, double momentum, bool nesterov) {
    return changed([&](OptimizerOptions& options) {
      options.name = "sgd", options.weight_decay = weight_decay;
      options.momentum = momentum, options.nesterov = nesterov;
    });
  };
  const auto adafactor = [&](double weight_decay, auto change) {
    return changed([&](OptimizerOptions& options) {
      options.name = "adafactor", options.weight_decay = weight_decay;
      change(options);
    });
  };
  const auto muon = [&](auto change) {
    return changed([&](OptimizerOptions& options) {
      options.name = "muon";
      change(options);
    });
  };
  const auto unchanged = [](OptimizerOptions&) {};
  const auto grouped = [](OptimizerOptions& options) { options.groups = groups(); };
  // Muon rounds to bfloat16; if a mesh adds in a different order, an element may round to the adjacent number.
  constexpr double kRounded = 2e-4;
  return {
      {"adamw", adamw, 0.01},
      {"sgd", sgd(0.1, 0.9, false), 0.01},
      {"sgd-nesterov", sgd(0.0, 0.8, true), 0.02},
      {"sgd-plain", sgd(0.2, 0.0, true), 0.02},
      {"adafactor", adafactor(0.1, unchanged), 0.02},
      {"adafactor-small-gradients", adafactor(0.0, [](auto& o) { o.clip_threshold = 1.5, o.beta2_decay = -0.6; }), 0.3,
       1e-5},
      {"adafactor-epsilons", adafactor(0.0, [](auto& o) { o.eps1 = 0.1, o.eps2 = 2.0; }), 0.05},
      {"muon", muon(unchanged), 0.02, 1.0, kRounded},
      {"muon-original", muon([](auto& o) {
         o.weight_decay = 0.0, o.momentum = 0.8, o.nesterov = false, o.ns_steps = 3, o.adjust_lr = "original";
       }),
       0.02, 1.0, kRounded},
      {"adamw-groups", changed(grouped), 0.01},
      {"adafactor-groups", adafactor(0.1, grouped), 0.02},
      {"muon-groups", muon(grouped), 0.02, 1.0, kRounded},
  };
}

/// How tp splits a parameter of the oracle, and whether it is a matrix of a layer.
struct Layout {
  std::optional<int64_t> tensor_split = {};
  std::vector<int64_t> parts = {};
  bool layer_matrix = true;
};

const std::map<std::string, Layout>& layouts() {
  static const std::map<std::string, Layout> all = {
      {"norm.weight", {.layer_matrix = false}},
      {"scale", {.layer_matrix = false}},
      {"embed.weight", {.tensor_split = 0, .parts = {20}, .layer_matrix = false}},
      {"layers.0.square.weight", {.tensor_split = 0, .parts = {4, 8}}},
      {"layers.0.tall.weight", {.tensor_split = 1, .parts = {6}}},
      {"layers.0.wide.weight", {}},
      {"layers.1.short.weight", {.tensor_split = 1, .parts = {12}}},
      {"layers.1.experts.up", {.tensor_split = 1, .parts = {2, 4}}},
      {"layers.1.conv.weight", {.tensor_split = 0, .parts = {8}, .layer_matrix = false}},
  };
  return all;
}

SafetensorsFile oracle() {
  const char* path = std::getenv("MODULAR_OPTIM_UPDATES");
  TORCH_CHECK(path,
              "MODULAR_OPTIM_UPDATES is not set: run this test with ctest, which creates the file with oracle.py");
  return SafetensorsFile(path);
}

/// This rank's slices of the oracle's parameters, sharded like a model's.
std::vector<ShardedParameter> slices_on(const Mesh& mesh, const SafetensorsFile& file) {
  const int64_t tp = mesh.size(Axis::tp), shard_rank = mesh.coordinate(Axis::dp_shard);
  std::vector<ModelParameter> parameters;
  UnitLayout unit(mesh.size(Axis::dp_shard));
  for (const auto& [name, layout] : layouts()) {
    ModelParameter& parameter = parameters.emplace_back();
    parameter.name = name;
    parameter.global_shape = file.tensor("initial/" + name).sizes().vec();
    parameter.tensor_split = layout.tensor_split;
    for (const int64_t size : layout.parts) parameter.parts.push_back({.size = size});
    unit.add({}, local_shape(parameter, tp, mesh.coordinate(Axis::tp)));
  }
  const at::Tensor flat = at::zeros({unit.shard_size});
  std::vector<ShardedParameter> slices;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ModelParameter& parameter = parameters[i];
    const ParameterPlacement& placement = unit.parameters[i];
    const auto [first, count] = unit.get_rows(placement, shard_rank);
    ShardedParameter& slice = slices.emplace_back();
    slice.name = parameter.name;
    slice.names = {parameter.name};
    slice.global_shape = parameter.global_shape;
    slice.slices = get_slices_on_rank(parameter, tp, mesh.coordinate(Axis::tp), {placement.dim, first, count});
    slice.local = unit.local(flat, placement, shard_rank);
    slice.layer_matrix = layouts().at(parameter.name).layer_matrix;
    for (const ParameterSlice& part : slice.slices)
      part.in_local(slice.local).copy_(part.in_global(file.tensor("initial/" + parameter.name)));
  }
  return slices;
}

/// Makes the case's updates and compares this rank's slices with torch's after each step. Returns the slices by name.
std::map<std::string, at::Tensor> expect_updates(const Case& test, Mesh& mesh) {
  const SafetensorsFile file = oracle();
  std::vector<ShardedParameter> parameters = slices_on(mesh, file);
  Optimizer optimizer(parameters, test.options, mesh);
  for (int64_t step = 0; step < 5; ++step) {
    for (ShardedParameter& parameter : parameters) {
      const at::Tensor gradient =
          file.tensor("gradient/" + parameter.name + "/" + std::to_string(step)) * test.gradient_factor;
      parameter.grad = at::empty_like(parameter.local);
      for (const ParameterSlice& slice : parameter.slices)
        slice.in_local(parameter.grad).copy_(slice.in_global(gradient));
    }
    optimizer.step(test.lr * (1.0 + 0.5 * static_cast<double>(step)));
    for (const ShardedParameter& parameter : parameters)
      for (const ParameterSlice& slice : parameter.slices) {
        const at::Tensor expected =
            slice.in_global(file.tensor(std::string(test.name) + "/" + parameter.name + "/" + std::to_string(step)));
        const at::Tensor found = slice.in_local(parameter.local);
        EXPECT_TRUE(at::allclose(found, expected, test.tolerance, test.tolerance))
            << test.name << ", " << parameter.name << ", step " << step + 1 << " on " << mesh.shape().describe()
            << ": off by " << (found - expected).abs().max().item<double>();
      }
  }
  EXPECT_EQ(optimizer.steps(), 5);
  std::map<std::string, at::Tensor> values;
  for (const ShardedParameter& parameter : parameters) values[parameter.name] = parameter.local.clone();
  return values;
}

TEST(Updates, OfOneProcessMatchTorch) {
  at::set_num_threads(1);
  Mesh alone({}, {}, {.device = at::kCPU});
  for (const Case& test : cases()) expect_updates(test, alone);
}

class Meshes : public ::testing::TestWithParam<MeshShape> {};

TEST_P(Meshes, UpdatesMatchTorch) {
  run_ranks(static_cast<int>(GetParam().ranks()), [](const Environment& environment) {
    at::set_num_threads(1);
    Mesh mesh(environment, GetParam(), {.device = at::kCPU});
    for (const Case& test : cases()) expect_updates(test, mesh);
  });
}

std::string mesh_name(const ::testing::TestParamInfo<MeshShape>& info) {
  std::string name;
  for (const char c : info.param.describe())
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(, Meshes,
                         ::testing::Values(MeshShape{.size = {1, 1, 2, 1, 1}}, MeshShape{.size = {1, 1, 3, 1, 1}},
                                           MeshShape{.size = {1, 1, 4, 1, 1}}, MeshShape{.size = {1, 2, 1, 1, 1}},
                                           MeshShape{.size = {1, 1, 1, 1, 2}}, MeshShape{.size = {1, 1, 2, 1, 2}},
                                           MeshShape{.size = {1, 2, 1, 1, 2}}, MeshShape{.size = {1, 2, 2, 1, 1}}),
                         mesh_name);

/// Values on each of four ranks after the updates of all cases: of all parameters, or only of those that tp does not
/// split.
std::vector<Report> collect_values(const MeshShape& shape, bool only_unsplit) {
  return run_ranks(4, [&](const Environment& environment) {
    at::set_num_threads(1);
    Mesh mesh(environment, shape, {.device = at::kCPU});
    Report values;
    for (const Case& test : cases())
      for (const auto& [name, value] : expect_updates(test, mesh))
        if (!only_unsplit || !layouts().at(name).tensor_split)
          values.insert(values.end(), value.const_data_ptr<float>(), value.const_data_ptr<float>() + value.numel());
    return values;
  });
}

// Replicas, and tp ranks with a replicated parameter, never compare their values, so these must stay identical.
TEST(Updates, KeepCopiesBitIdentical) {
  const auto replicas = collect_values({.size = {1, 2, 2, 1, 1}}, /*only_unsplit=*/false);
  const auto tensor_ranks = collect_values({.size = {1, 1, 2, 1, 2}}, /*only_unsplit=*/true);
  EXPECT_GT(replicas[0].size(), 0u);
  EXPECT_GT(tensor_ranks[0].size(), 0u);
  EXPECT_EQ(replicas[0], replicas[2]);
  EXPECT_EQ(replicas[1], replicas[3]);
  EXPECT_EQ(tensor_ranks[0], tensor_ranks[1]);
  EXPECT_EQ(tensor_ranks[2], tensor_ranks[3]);
}

}  // namespace
}  // namespace modular
