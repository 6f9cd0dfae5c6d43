// Losses of sentence embeddings, and their gradients, equal those of Sentence Transformers (oracle.py), on every mesh
// and for every split of a step into micro-batches: negatives come from the full step.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/data/batches.h"
#include "runtime/data/examples.h"
#include "runtime/mesh/mesh.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/support/ranks.h"

namespace modular::testing {
namespace {

namespace fs = std::filesystem;

struct Layout {
  const char* name;
  MeshShape shape;
  int64_t micro_batches = 1;
  ParallelOptions options = {};
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

const std::vector<Layout> kLayouts = {
    {"Alone", {}},
    {"MicroBatches", {}, 4},
    {"Recomputed", {}, 2, {.recompute = true}},
    {"Sharded3", {.size = {1, 1, 3, 1, 1}}, 2},
    {"Replicated2Tensor2", {.size = {1, 2, 1, 1, 2}}, 3},
    {"Pipeline2Sharded2", {.size = {2, 1, 2, 1, 1}}, 3},
};

/// Converts a loss's config to ParallelOptions' form.
SentenceOptions to_options(const nlohmann::json& config) {
  SentenceOptions options;
  options.loss = config.value("loss", "");
  options.scale = config.value("scale", options.scale);
  if (config.contains("margin")) options.margin = config["margin"].get<double>();
  options.distance = config.value("distance", "");
  return options;
}

/// This rank's micro-batches of the examples, which the ranks take in turns, sample by sample.
std::vector<Batch> make_micro_batches(const Examples& examples, const Mesh& mesh, int64_t count) {
  const int64_t dp = mesh.size(kRowAxes), rank = mesh.coordinate(kRowAxes);
  const int64_t each = examples.size() / dp / count;
  std::vector<Batch> batches;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < each; ++row) rows.push_back((i * each + row) * dp + rank);
    batches.push_back(examples.read(rows));
  }
  return batches;
}

class SentenceLosses : public ::testing::TestWithParam<std::tuple<std::string, Layout>> {};

TEST_P(SentenceLosses, MatchSentenceTransformers) {
  const auto& [name, layout] = GetParam();
  const char* const folder = std::getenv("MODULAR_SENTENCES");
  ASSERT_TRUE(folder) << "set MODULAR_SENTENCES to the folder that oracle.py wrote";
  const fs::path path = fs::path(folder) / name;
  const auto on_rank = [&, &layout = layout](const Environment& environment) {
    const SafetensorsFile expected(path / "expected.safetensors");
    const ModelConfig config = read_config(path);
    Mesh mesh(environment, layout.shape, {.device = at::kCPU});
    ParallelOptions options = layout.options;
    options.initialize = false;
    options.sentences = to_options(nlohmann::json::parse(expected.metadata().at("sentences")));
    if (layout.shape[Axis::pp] > 1) options.pipeline.cuts = {1};
    ParallelModel model(*config.entry, *config.config, mesh, options, /*seed=*/0);
    load_parameters(path, config, get_slices(model));
    model.parameters_changed();
    const Examples examples({path / "batch.safetensors"}, config);
    const std::vector<Batch> batches = make_micro_batches(examples, mesh, layout.micro_batches);
    const double loss = expected.tensor("loss").item<double>();
    EXPECT_NEAR(model.evaluate(batches).loss, loss, 1e-6 * std::max(1.0, loss));
    const StepResult result = model.step(batches);
    EXPECT_NEAR(result.loss, loss, 1e-6 * std::max(1.0, loss));
    EXPECT_EQ(result.target_count, examples.size());
    double largest = 0.0;
    for (const auto& [key, header] : expected.tensors())
      if (key != "loss") largest = std::max(largest, expected.tensor(key).abs().max().item<double>());
    for (const ShardedParameter& parameter : model.parameters())
      for (const ParameterSlice& slice : parameter.slices) {
        const std::string key = "gradients." + parameter.name;
        if (!expected.tensors().contains(key) || parameter.local.numel() == 0) continue;
        const at::Tensor difference = slice.in_local(parameter.grad) - slice.in_global(expected.tensor(key));
        EXPECT_LT(difference.abs().max().item<double>(), 1e-4 * largest) << key;
      }
  };
  run_ranks(static_cast<int>(layout.shape.ranks()), on_rank);
}

INSTANTIATE_TEST_SUITE_P(Cases, SentenceLosses,
                         ::testing::Combine(::testing::Values("in_batch", "in_batch_hard_negatives", "contrastive",
                                                              "contrastive_euclidean", "cosine", "triplet",
                                                              "triplet_cosine", "pair_classification"),
                                            ::testing::ValuesIn(kLayouts)),
                         [](const auto& info) { return std::get<0>(info.param) + "_" + std::get<1>(info.param).name; });

}  // namespace
}  // namespace modular::testing
