// Initial weights that rank 0 reads for all: the other ranks have no folder, and get the same values.
#include <gmock/gmock.h>

#include "runtime/checkpoint/pretrained.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::run_ranks;

const ModelConfig& tiny_llama() {
  static const ModelConfig model = parse_config(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 2})",
      "config.json");
  return model;
}

/// A checkpoint and a Hugging Face folder of a model with the values of seed 1.
void write_weights(const fs::path& checkpoint, const fs::path& pretrained) {
  Mesh mesh(Environment{}, MeshShape{});
  ParallelModel model(*tiny_llama().entry, *tiny_llama().config, mesh, {}, /*seed=*/1);
  save_checkpoint(checkpoint, tiny_llama(), {.step = 1, .values = {}}, get_slices(model), mesh, 0);
  export_pretrained(checkpoint, pretrained, {});
}

TEST(FirstReader, EveryRankGetsItsSlicesFromRank0) {
  const fs::path folder = testing::shared_folder();
  for (const auto& [axis, ranks] : {std::pair(Axis::dp_shard, 3), std::pair(Axis::tp, 2), std::pair(Axis::pp, 2)})
    run_ranks(ranks, [&, axis = axis, ranks = ranks](const Environment& environment) {
      if (environment.rank == 0) fs::remove_all(folder / "checkpoints"), fs::remove_all(folder / "pretrained");
      if (environment.rank == 0) write_weights(folder / "checkpoints", folder / "pretrained");
      MeshShape shape;
      shape[axis] = ranks;
      Mesh mesh(environment, shape);
      ParallelModel expected(*tiny_llama().entry, *tiny_llama().config, mesh, {}, /*seed=*/1);
      for (const char* name : {"checkpoints", "pretrained"}) {
        ParallelModel model(*tiny_llama().entry, *tiny_llama().config, mesh, {}, /*seed=*/2);
        load_parameters_by_first(mesh.rank() == 0 ? folder / name : fs::path("/none"), tiny_llama(), get_slices(model),
                                 Head::stored, mesh);
        for (size_t i = 0; i < model.parameters().size(); ++i)
          EXPECT_TRUE(at::equal(model.parameters()[i].local, expected.parameters()[i].local))
              << name << " " << model.parameters()[i].name;
      }
    });
}

TEST(FirstReader, AReadErrorOnRank0EndsAllRanks) {
  const fs::path folder = fs::path(testing::shared_folder()) / "without-weights";
  fs::create_directories(folder);
  run_ranks(2, [&](const Environment& environment) {
    MeshShape shape;
    shape[Axis::dp_shard] = 2;
    Mesh mesh(environment, shape);
    ParallelModel model(*tiny_llama().entry, *tiny_llama().config, mesh, {}, /*seed=*/2);
    const auto loading = [&] { load_parameters_by_first(folder, tiny_llama(), get_slices(model), Head::stored, mesh); };
    EXPECT_THAT(get_message<std::runtime_error>(loading),
                HasSubstr(mesh.rank() == 0 ? "holds neither model.safetensors nor"
                                           : "rank 0 failed to read model.checkpoint "));
  });
}

}  // namespace
}  // namespace modular
