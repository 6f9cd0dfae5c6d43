// Adapters of every family's linear layers: the model's output equals that of the model with merged weights, on every
// mesh, and the adapters' gradients are those that follow from the gradients of these weights.
#include <ATen/ATen.h>
#include <c10/util/ConstexprCrc.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

/// Random values that depend only on the name, so that they are equal on every rank.
at::Tensor sample_values(const std::string& name, const std::vector<int64_t>& shape) {
  const auto seed = c10::util::crc64(name).checksum();
  return 0.1 * at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat);
}

/// Loads the case's weights, and sets the parameters of `model` that are in `values`.
std::unique_ptr<ParallelModel> get_model(const fs::path& folder, const ModelConfig& config, Mesh& mesh,
                                         const Tensors& values) {
  auto model = std::make_unique<ParallelModel>(*config.entry, *config.config, mesh, ParallelOptions{.dropout = false},
                                               /*seed=*/1);
  load_parameters(folder, config, get_slices(*model), Head::may_be_new);
  const at::NoGradGuard no_grad;
  for (ShardedParameter& parameter : model->parameters())
    if (const auto found = values.find(parameter.name); found != values.end())
      for (const ParameterSlice& slice : parameter.slices)
        slice.in_local(parameter.local).copy_(slice.in_global(found->second));
  model->parameters_changed();
  return model;
}

/// The adapters' values, the merged weights, and the expected gradients of the adapters.
struct Merged {
  Tensors adapters, weights, gradients;
  double loss = 0.0;
};

Merged merge(const fs::path& folder, const ModelConfig& adapted, const Batch& batch) {
  Merged merged;
  Mesh alone(Environment{}, MeshShape{});
  const ModelConfig plain = without_adapters(adapted);
  Tensors weights;
  const auto stored = get_model(folder, plain, alone, {});
  for (ShardedParameter& parameter : stored->parameters()) weights[parameter.name] = parameter.local.clone();
  const auto oriented = [](const AdaptedLayer& layer, const at::Tensor& weight) {
    return layer.transposed ? weight.t() : weight;
  };
  for (const AdaptedLayer& layer : adapted.lora->layers) {
    const at::Tensor weight = weights.at(layer.name + ".weight");
    const std::vector<int64_t> sizes = oriented(layer, weight).sizes().vec();
    const at::Tensor a = sample_values(layer.a(), {adapted.lora->options.rank, sizes[1]});
    const at::Tensor b = sample_values(layer.b(), {sizes[0], adapted.lora->options.rank});
    merged.adapters[layer.a()] = a, merged.adapters[layer.b()] = b;
    merged.weights[layer.name + ".weight"] = weight + oriented(layer, adapted.lora->scaling() * b.mm(a));
  }
  const auto model = get_model(folder, plain, alone, merged.weights);
  merged.loss = model->step({&batch, 1}).loss;
  Tensors gradients;
  for (ShardedParameter& parameter : model->parameters()) gradients[parameter.name] = parameter.grad.to(at::kDouble);
  for (const AdaptedLayer& layer : adapted.lora->layers) {
    const at::Tensor gradient = adapted.lora->scaling() * oriented(layer, gradients.at(layer.name + ".weight"));
    merged.gradients[layer.a()] = merged.adapters.at(layer.b()).to(at::kDouble).t().mm(gradient);
    merged.gradients[layer.b()] = gradient.mm(merged.adapters.at(layer.a()).to(at::kDouble).t());
  }
  return merged;
}

void check(const fs::path& folder, Mesh& mesh) {
  SCOPED_TRACE(folder.filename().string());
  ModelConfig adapted = read_config(folder);
  const Batch batch = read_examples(SafetensorsFile(folder / "batch.safetensors"), adapted);
  // Jamba's dt_proj is not a layer there: its weight and its bias are used separately.
  const std::vector<std::string> layers = adapted.entry->family == "jamba"
                                              ? std::vector<std::string>{"in_proj", "x_proj", "out_proj", "self_attn"}
                                              : std::vector<std::string>{"all-linear"};
  adapt(adapted, {.layers = layers, .rank = 3, .alpha = 6.0});
  const Merged merged = merge(folder, adapted, batch);
  const auto model = get_model(folder, adapted, mesh, merged.adapters);
  EXPECT_NEAR(model->step({&batch, 1}).loss, merged.loss, 1e-5 * std::max(1.0, std::abs(merged.loss)));
  double all = 0.0;
  for (const auto& [name, gradient] : merged.gradients) all = std::hypot(all, gradient.norm().item<double>());
  for (ShardedParameter& parameter : model->parameters()) {
    if (!is_adapter(parameter.name)) continue;
    for (const ParameterSlice& slice : parameter.slices) {
      const at::Tensor expected = slice.in_global(merged.gradients.at(parameter.name));
      const double error = (slice.in_local(parameter.grad) - expected).norm().item<double>();
      EXPECT_LE(error, 1e-4 * expected.norm().item<double>() + 1e-6 * all) << parameter.name;
    }
  }
}

/// The cases that run on meshes, for models that have linear layers in their units.
std::vector<fs::path> cases() {
  std::vector<fs::path> chosen;
  for (const fs::path& folder : parity::folders("numbers"))
    if (parity::read_json(folder / "case.json").at("meshes")) chosen.push_back(folder);
  return chosen;
}

struct NamedMesh {
  const char* name;
  MeshShape shape;
};

void PrintTo(const NamedMesh& mesh, std::ostream* out) { *out << mesh.name; }

class AdaptersOnMesh : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(AdaptersOnMesh, MatchTheMergedModelAndItsGradients) {
  const MeshShape shape = GetParam().shape;
  testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
    at::set_num_threads(1);
    Mesh mesh(environment, shape);
    for (const fs::path& folder : cases()) {
      const ModelConfig model = read_config(folder);
      if (ParallelModel::error(*model.entry, *model.config, shape).empty()) check(folder, mesh);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, AdaptersOnMesh,
                         ::testing::Values(NamedMesh{"alone", {{1, 1, 1, 1, 1}}}, NamedMesh{"tp2", {{1, 1, 1, 1, 2}}},
                                           NamedMesh{"pp2_tp2", {{2, 1, 1, 1, 2}}}),
                         [](const auto& mesh) { return std::string(mesh.param.name); });

}  // namespace
}  // namespace modular
