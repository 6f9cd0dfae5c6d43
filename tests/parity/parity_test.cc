// Runs every case that generate.py computed with transformers through the model generated here; then trains models for
// check_export.py.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/config/config.h"
#include "runtime/data/examples.h"
#include "runtime/model/tasks.h"
#include "runtime/modrun/forward.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

double largest_difference(const at::Tensor& one, const at::Tensor& other) {
  return (one.to(at::kDouble) - other.to(at::kDouble)).abs().max().item<double>();
}

double relative_difference(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor exact = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - exact).norm() / (exact.norm() + 1e-12)).item<double>();
}

/// Logits of positions that are not padding: those of padding are unused.
at::Tensor relevant(const at::Tensor& logits, const SafetensorsFile& batch) {
  if (!batch.tensors().contains("attention_mask")) return logits;
  const bool is_by_token = logits.sizes().slice(0, 2) == batch.tensor("attention_mask").sizes();
  if (!is_by_token) return logits;
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
  // Adjacent float32 numbers of the size of a loss are several 1e-7 apart.
  errors.loss = largest_difference(actual.tensor("loss"), expected.tensor("loss")) /
                std::max(1.0, std::abs(expected.tensor("loss").to(at::kDouble).item<double>()));
  std::set<std::string> names, expected_names;
  for (const auto& [name, header] : actual.tensors()) names.insert(name);
  for (const auto& [name, header] : expected.tensors()) expected_names.insert(name);
  EXPECT_EQ(names, expected_names);
  double all = 0.0;  // norm of all gradients together
  for (const auto& [name, header] : expected.tensors())
    if (name.starts_with("gradients.")) all = std::hypot(all, expected.tensor(name).norm().item<double>());
  for (const auto& [name, header] : expected.tensors()) {
    if (!name.starts_with("gradients.") || !actual.tensors().contains(name)) continue;
    const at::Tensor value = actual.tensor(name), exact = expected.tensor(name);
    // Zero except for rounding, like the gradient of a key's bias, which adds the same value to all scores of a query.
    const auto is_zero = [&](const at::Tensor& gradient) { return gradient.norm().item<double>() <= 1e-6 * all; };
    const double error = is_zero(value) && is_zero(exact) ? 0.0 : relative_difference(value, exact);
    if (!(error <= errors.gradient)) errors.gradient = error, errors.worst_gradient = name;
  }
  return errors;
}

/// A case's router options; otherwise those of the model's config.
RouterOptions get_router(const fs::path& folder) {
  const auto router = parity::read_json(folder / "case.json").at("router");
  return {.aux_loss = router.value("aux_loss", configured_aux_loss(read_config(folder))),
          .by_sequence = router.value("balance", "batch") == "sequence",
          .z_loss = router.value("z_loss", 0.0)};
}

/// A loss over cosines multiplies them, and their rounding errors (an epsilon of float32), by 20
/// (sentence-transformers' scale): on some CPUs that exceeds the tolerance for a loss over logits.
double find_rounding(const fs::path& folder) {
  constexpr double kScale = 20.0, kEpsilon = 1.2e-7;
  return find_task(read_config(folder).entry->task)->label_count.empty() ? kScale * kEpsilon : 1e-6;
}

/// Runs a case on a mesh; rank 0 compares the outputs with transformers'.
void check(const fs::path& folder, Mesh& mesh) {
  SCOPED_TRACE(folder.filename().string());
  const std::string name = fmt::format("actual-{}.safetensors", fmt::join(mesh.shape().size, "-"));
  const ForwardOptions options = {
      .checkpoint = folder,
      .inputs = folder / "batch.safetensors",
      .outputs = folder / name,
      .gradients = true,
      .parallel = {.dropout = parity::read_json(folder / "case.json").at("drops"), .router = get_router(folder)}};
  ASSERT_EQ(forward_error(options, mesh.shape()), "");
  run_forward(options, mesh);
  if (mesh.rank() != 0) return;
  const Errors errors = compare(folder, options.outputs);
  fmt::print("{:<32} {:10.1e} {:10.1e} {:10.1e}\n", folder.filename().string(), errors.logits, errors.loss,
             errors.gradient);
  EXPECT_LE(errors.logits, 1e-5);
  EXPECT_LE(errors.loss, find_rounding(folder));
  EXPECT_LE(errors.gradient, 100.0 * find_rounding(folder)) << errors.worst_gradient;
}

TEST(Parity, LogitsLossAndGradientsMatchTransformers) {
  at::set_num_threads(1);  // the models are too small for more
  fmt::print("{:<32} {:>10} {:>10} {:>10}\n", "case", "logits", "loss", "gradient");
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) check(folder, mesh);
}

/// The same with modrun's kernels, which stay enabled for the rest of the program.
TEST(ParityOfKernels, LogitsLossAndGradientsMatchTransformers) {
  at::set_num_threads(1);
  install_fused_functions();
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) check(folder, mesh);
}

/// The cases whose case.json sets `flag`.
std::vector<fs::path> cases_with(const char* flag) {
  std::vector<fs::path> chosen;
  for (const fs::path& folder : parity::folders("numbers"))
    if (parity::read_json(folder / "case.json").at(flag)) chosen.push_back(folder);
  return chosen;
}

/// Where a model rounds to bfloat16 is part of its definition. A model that rounds where the original does is much
/// closer to the original's logits than these are to the exact ones (most are bitwise equal); with rounding at other
/// points the difference would be as large again. A family with rounds_elsewhere must be no further from the exact
/// logits than the original.
TEST(Parity, RoundingToBfloat16MatchesTransformers) {
  at::set_num_threads(1);
  Mesh mesh(Environment{}, MeshShape{});
  fmt::print("{:<32} {:>10} {:>10}\n", "case", "to theirs", "to exact");
  for (const fs::path& folder : parity::folders("numbers")) {
    if (!fs::exists(folder / "rounded.safetensors")) continue;
    SCOPED_TRACE(folder.filename().string());
    const ForwardOptions options = {.checkpoint = folder,
                                    .inputs = folder / "batch.safetensors",
                                    .outputs = folder / "actual-rounded.safetensors",
                                    .parallel = {.bf16 = true}};
    run_forward(options, mesh);
    const SafetensorsFile batch(options.inputs);
    const auto logits = [&](const fs::path& file) {
      return relevant(SafetensorsFile(file).tensor("logits"), batch).to(at::kDouble);
    };
    const at::Tensor ours = logits(options.outputs), theirs = logits(folder / "rounded.safetensors"),
                     exact = logits(folder / "expected.safetensors");
    const double rounding = (theirs - exact).norm().item<double>();
    const double to_theirs = (ours - theirs).norm().item<double>() / rounding;
    const double to_exact = (ours - exact).norm().item<double>() / rounding;
    fmt::print("{:<32} {:10.3f} {:10.3f}\n", folder.filename().string(), to_theirs, to_exact);
    // For few numbers, such as a classifier's, the distance between the two roundings is left to chance.
    const double chance = exact.numel() < 256 ? 4.0 / std::sqrt(static_cast<double>(exact.numel())) : 0.0;
    if (parity::read_json(folder / "case.json").at("rounds_elsewhere"))
      EXPECT_LE(to_exact, 1.25 + chance);
    else
      EXPECT_LE(to_theirs, 0.5);
  }
}

struct NamedMesh {
  const char* name;
  MeshShape shape;
};

void PrintTo(const NamedMesh& mesh, std::ostream* out) { *out << mesh.name; }

class ParityOnMesh : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(ParityOnMesh, LogitsLossAndGradientsMatchTransformers) {
  if (cases_with("meshes").empty()) GTEST_SKIP() << "no case says meshes=True";
  const MeshShape shape = GetParam().shape;
  testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
    Mesh mesh(environment, shape);
    for (const fs::path& folder : cases_with("meshes")) {
      const ModelConfig model = read_config(folder);
      const std::string error = ParallelModel::error(*model.entry, *model.config, shape);
      // A model that has neither a list of layers to cut nor two towers runs on every mesh except pipelines, with an
      // error.
      if (model.entry->plan->split_list.empty() && !model.entry->plan->first_stack && shape[Axis::pp] > 1)
        EXPECT_NE(error.find("cannot be cut into pipeline stages"), std::string::npos) << error;
      else
        check(folder, mesh);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, ParityOnMesh,
                         ::testing::Values(NamedMesh{"ddp2", {{1, 2, 1, 1, 1}}}, NamedMesh{"fsdp2", {{1, 1, 2, 1, 1}}},
                                           NamedMesh{"tp2", {{1, 1, 1, 1, 2}}}, NamedMesh{"pp2", {{2, 1, 1, 1, 1}}},
                                           NamedMesh{"fsdp2_tp2", {{1, 1, 2, 1, 2}}},
                                           NamedMesh{"pp2_fsdp2", {{2, 1, 2, 1, 1}}}),
                         [](const auto& mesh) { return std::string(mesh.param.name); });

/// A few steps of gradient descent, a checkpoint, an export, and the export's expected logits.
void train_and_export(const fs::path& folder, const fs::path& out, const ExportOptions& options) {
  const ModelConfig config = read_config(folder);
  Mesh mesh(Environment{}, MeshShape{});
  ParallelModel model(*config.entry, *config.config, mesh, {.dropout = false}, /*seed=*/3);
  const Batch batch = read_examples(SafetensorsFile(folder / "batch.safetensors"), config);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 4; ++step) {
    last = model.step({&batch, 1}).loss;
    if (step == 0) first = last;
    // Losses of sentences are steep.
    const at::Tensor divisor = clipping_to(1.0, find_gradient_norm(model.parameters(), mesh)).divisor;
    for (ShardedParameter& parameter : model.parameters())
      parameter.local.sub_(parameter.grad.div(divisor), /*alpha=*/0.02);
    model.parameters_changed();
  }
  EXPECT_LT(last, first);

  fs::remove_all(out);
  const fs::path checkpoint =
      save_checkpoint(out / "checkpoints", config, {.step = 4, .values = {}}, get_slices(model), mesh, 1);
  export_pretrained(checkpoint, out / "exported", options);
  fs::copy_file(folder / "batch.safetensors", out / "batch.safetensors");
  write_safetensors(out / "trained.safetensors", {{"logits", model.logits(batch).to(at::kFloat)}});
}

TEST(Parity, ModelsTrainedHereAreExportedForTransformers) {
  const fs::path exports = parity::cases_folder().parent_path() / "exports";
  fs::remove_all(exports);  // from an earlier run
  std::set<std::string_view> architectures;
  for (const fs::path& folder : cases_with("export")) {
    SCOPED_TRACE(folder.filename().string());
    // The first model of each class is written in several files.
    const int64_t shard =
        architectures.insert(read_config(folder).entry->architecture).second ? 20'000 : int64_t{5} << 30;
    train_and_export(folder, exports / folder.filename(), {.dtype = at::kFloat, .max_shard_bytes = shard});
  }
}

}  // namespace
}  // namespace modular
