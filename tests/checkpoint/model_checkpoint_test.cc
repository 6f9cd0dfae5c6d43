// Checkpoints of whole models whose parameters each mesh divides along other dimensions.
#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

/// Two experts, of matrices [2, 100, 36] and [2, 36, 50].
ModelConfig two_experts() {
  return parse_config(R"({"model_type": "mixtral", "vocab_size": 62, "hidden_size": 36, "intermediate_size": 50,
                          "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
                          "num_local_experts": 2, "num_experts_per_tok": 1})",
                      "config.json");
}

Mesh make_mesh(const Environment& environment) {
  MeshShape shape;
  shape[Axis::dp_shard] = environment.world_size;
  return Mesh(environment, shape, {.device = at::kCPU});
}

ParallelModel model_on(Mesh& mesh, const ModelConfig& config, uint64_t seed) {
  return ParallelModel(*config.entry, *config.config, mesh, {}, seed);
}

TEST(ModelCheckpoint, OfThreeRanksIsTheSameModelOnAnyOtherNumber) {
  const std::string folder = testing::shared_folder();
  run_ranks(3, [&](const Environment& environment) {
    const ModelConfig config = two_experts();
    Mesh mesh = make_mesh(environment);
    ParallelModel model = model_on(mesh, config, /*seed=*/1);
    const auto slices = get_slices(model);
    const auto is_cut_unevenly = [](const TensorSlice& slice) {
      return slice.global_shape == std::vector<int64_t>{2, 100, 36} && slice.local.size(0) == 2;
    };
    EXPECT_EQ(std::ranges::count_if(slices, is_cut_unevenly), 2) << "the experts of two layers";
    save_checkpoint(folder, config, {.step = 1, .values = {}}, slices, mesh, /*keep_last=*/0);
  });
  for (const int ranks : {1, 2, 3, 4})
    run_ranks(ranks, [&](const Environment& environment) {
      const ModelConfig config = two_experts();
      Mesh mesh = make_mesh(environment);
      // Initial values are the same on every mesh.
      ParallelModel expected = model_on(mesh, config, /*seed=*/1), loaded = model_on(mesh, config, /*seed=*/2);
      load_checkpoint(find_checkpoint(folder), config, get_slices(loaded), mesh);
      for (size_t i = 0; i < expected.parameters().size(); ++i)
        EXPECT_TRUE(loaded.parameters()[i].local.equal(expected.parameters()[i].local))
            << expected.parameters()[i].name;
    });
}

}  // namespace
}  // namespace modular
