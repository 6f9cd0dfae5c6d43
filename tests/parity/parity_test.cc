// Every case that generate.py made with transformers, through the model generated here; then models trained here, for
// check_export.py.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/modrun/forward.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/families.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

fs::path cases_folder() {
  const char* folder = std::getenv("MODULAR_PARITY_CASES");
  return folder ? folder : "";
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  if (fs::is_directory(cases_folder()))
    for (const auto& entry : fs::directory_iterator(cases_folder()))
      if (fs::exists(entry.path() / "expected.safetensors")) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

double largest_difference(const at::Tensor& one, const at::Tensor& other) {
  return (one.to(at::kDouble) - other.to(at::kDouble)).abs().max().item<double>();
}

double relative_difference(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - exact).norm() / (exact.norm() + 1e-12)).item<double>();
}

/// The logits of positions that are not padding: what a model computes for the others nobody reads.
at::Tensor relevant(const at::Tensor& logits, const SafetensorsFile& batch) {
  if (!batch.tensors().contains("attention_mask")) return logits;
  return logits.index({batch.tensor("attention_mask").to(at::kBool)});
}

struct Errors {
  double logits = 0.0, loss = 0.0, gradient = 0.0;
  std::string worst_gradient;
};

Errors compare(const fs::path& folder, const fs::path& outputs) {
  const SafetensorsFile actual(outputs), expected(folder / "expected.safetensors");
  const SafetensorsFile batch(folder / "batch.safetensors");
  Errors errors;
  errors.logits =
      largest_difference(relevant(actual.tensor("logits"), batch), relevant(expected.tensor("logits"), batch));
  errors.loss = largest_difference(actual.tensor("loss"), expected.tensor("loss"));
  std::set<std::string> names, expected_names;
  for (const auto& [name, header] : actual.tensors()) names.insert(name);
  for (const auto& [name, header] : expected.tensors()) expected_names.insert(name);
  EXPECT_EQ(names, expected_names);
  for (const auto& [name, header] : expected.tensors()) {
    if (!name.starts_with("gradients.") || !actual.tensors().contains(name)) continue;
    const double error = relative_difference(actual.tensor(name), expected.tensor(name));
    if (!(error <= errors.gradient)) errors.gradient = error, errors.worst_gradient = name;
  }
  return errors;
}

/// Runs a case on a mesh; its first rank holds the outputs against transformers'.
void check(const fs::path& folder, Mesh& mesh) {
  SCOPED_TRACE(folder.filename().string());
  const std::string name = fmt::format("actual-{}.safetensors", fmt::join(mesh.shape().size, "-"));
  const ForwardOptions options = {.checkpoint = folder,
                                  .inputs = folder / "batch.safetensors",
                                  .outputs = folder / name,
                                  .gradients = true,
                                  .parallel = {}};
  ASSERT_EQ(forward_refusal(options, mesh.shape()), "");
  run_forward(options, mesh);
  if (mesh.rank() != 0) return;
  const Errors errors = compare(folder, options.outputs);
  fmt::print("{:<32} {:10.1e} {:10.1e} {:10.1e}\n", folder.filename().string(), errors.logits, errors.loss,
             errors.gradient);
  EXPECT_LE(errors.logits, 1e-5);
  EXPECT_LE(errors.loss, 1e-6);
  EXPECT_LE(errors.gradient, 1e-4) << errors.worst_gradient;
}

TEST(Parity, LogitsLossAndGradientsAreThoseOfTransformers) {
  ASSERT_FALSE(cases().empty()) << "run generate.py, and name its folder in MODULAR_PARITY_CASES";
  fmt::print("{:<32} {:>10} {:>10} {:>10}\n", "case", "logits", "loss", "gradient");
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : cases()) check(folder, mesh);
}

/// The cases that a mesh may get wrong in its own way: ties, biases, padding and windows.
std::vector<fs::path> cases_for_meshes() {
  std::vector<fs::path> chosen;
  for (const fs::path& folder : cases())
    for (const char* ending : {"-tied-biases", "-padded-left", "-biases", "-untied"})
      if (folder.filename().string().ends_with(ending)) {
        chosen.push_back(folder);
        break;
      }
  return chosen;
}

struct NamedMesh {
  const char* name;
  MeshShape shape;
};

void PrintTo(const NamedMesh& mesh, std::ostream* out) { *out << mesh.name; }

class ParityOnMesh : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(ParityOnMesh, LogitsLossAndGradientsAreThoseOfTransformers) {
  const MeshShape shape = GetParam().shape;
  testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
    Mesh mesh(environment, shape);
    for (const fs::path& folder : cases_for_meshes()) check(folder, mesh);
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, ParityOnMesh,
                         ::testing::Values(NamedMesh{"ddp2", {{1, 2, 1, 1, 1, 1}}},
                                           NamedMesh{"fsdp2", {{1, 1, 2, 1, 1, 1}}},
                                           NamedMesh{"tp2", {{1, 1, 1, 1, 1, 2}}},
                                           NamedMesh{"pp2", {{2, 1, 1, 1, 1, 1}}},
                                           NamedMesh{"fsdp2_tp2", {{1, 1, 2, 1, 1, 2}}}),
                         [](const auto& mesh) { return std::string(mesh.param.name); });

/// A few steps of gradient descent, a checkpoint, an export, and the logits that it must give.
void train_and_export(const fs::path& folder, const fs::path& out, const ExportOptions& options) {
  const ModelConfig config = read_config(folder);
  Mesh mesh(Environment{}, MeshShape{});
  ParallelModel model(*config.entry, *config.config, mesh, {}, /*seed=*/3);
  const SafetensorsFile inputs(folder / "batch.safetensors");
  Batch batch;
  batch.input_ids = inputs.tensor("input_ids");
  batch.labels = inputs.tensor("labels");
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 4; ++step) {
    last = model.step({&batch, 1}).loss;
    if (step == 0) first = last;
    for (ShardedParameter& parameter : model.parameters()) parameter.local.sub_(parameter.grad, /*alpha=*/0.5);
    model.parameters_changed();
  }
  EXPECT_LT(last, first);

  std::vector<TensorBox> boxes;
  for (const ShardedParameter& parameter : model.parameters()) boxes.push_back(box_of(parameter));
  fs::remove_all(out);
  const fs::path checkpoint = save_checkpoint(out / "checkpoints", config, {.step = 4, .values = {}}, boxes, mesh, 1);
  export_pretrained(checkpoint, out / "exported", options);
  write_safetensors(out / "trained.safetensors",
                    {{"input_ids", batch.input_ids}, {"logits", model.logits(batch).to(at::kFloat)}});
}

TEST(Parity, ModelsTrainedHereAreExportedForTransformers) {
  ASSERT_FALSE(cases().empty()) << "run generate.py, and name its folder in MODULAR_PARITY_CASES";
  std::set<std::string> families;
  for (const fs::path& folder : cases()) {
    SCOPED_TRACE(folder.filename().string());
    const bool first_of_family = families.emplace(read_config(folder).entry->family).second;
    const std::string name = folder.filename().string();
    if (!first_of_family && name.find("tied") == std::string::npos && name.find("biases") == std::string::npos)
      continue;
    const int64_t shard = first_of_family ? 20'000 : int64_t{5} << 30;
    train_and_export(folder, cases_folder().parent_path() / "exports" / name,
                     {.dtype = at::kFloat, .max_shard_bytes = shard});
  }
}

}  // namespace
}  // namespace modular
