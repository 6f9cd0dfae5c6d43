// Models on several meshes of one job alternate in one process, each bound to its own ranks while it runs.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

constexpr int64_t kTurns = 4;

/// A model and its losses.
struct Training {
  ParallelModel model;
  std::vector<double> losses = {};

  Training(Mesh& mesh, const ParallelOptions& options)
      : model(get_entry("LlamaForCausalLM"), *tiny_config(get_entry("LlamaForCausalLM")), mesh, options, /*seed=*/1) {}

  void step() {
    Batch batch;
    batch.input_ids = at::arange(24).view({2, 12}).remainder(17 + static_cast<int64_t>(losses.size()));
    batch.labels = batch.input_ids;
    losses.push_back(model.step(std::vector<Batch>(2, batch)).loss);
    for (ShardedParameter& parameter : model.parameters()) parameter.local.sub_(parameter.grad, /*alpha=*/0.1);
    model.parameters_changed();
  }
};

TEST(TwoMeshes, AlternatingModelsTrainLikeEachAlone) {
  run_ranks(2, [](const Environment& environment) {
    const auto mesh_along = [&](Axis axis) {
      MeshShape shape;
      shape[axis] = 2;
      return std::make_unique<Mesh>(environment, shape, MeshOptions{.device = at::kCPU});
    };
    const auto sharded = mesh_along(Axis::dp_shard), split = mesh_along(Axis::tp), cut = mesh_along(Axis::pp);
    const auto all = [&] {
      std::vector<std::unique_ptr<Training>> runs;
      runs.push_back(std::make_unique<Training>(*sharded, ParallelOptions{.recompute = true}));
      runs.push_back(std::make_unique<Training>(*split, ParallelOptions{}));
      runs.push_back(std::make_unique<Training>(*cut, ParallelOptions{}));
      return runs;
    };
    const auto alone = all(), interleaved_pairs = all();
    for (const auto& run : alone)
      for (int64_t turn = 0; turn < kTurns; ++turn) run->step();
    for (int64_t turn = 0; turn < kTurns; ++turn)
      for (const auto& run : interleaved_pairs) run->step();
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(interleaved_pairs[i]->losses, alone[i]->losses) << "of model " << i;
      EXPECT_LT(alone[i]->losses.back(), alone[i]->losses.front()) << "model " << i << " did not reduce its loss";
    }
  });
}

}  // namespace
}  // namespace modular::testing
