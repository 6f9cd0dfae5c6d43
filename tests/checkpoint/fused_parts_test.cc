// A fused layer, of which a tp rank keeps a slice of each part, is one tensor in its own order in a checkpoint; so is a
// sharded buffer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/data/temporary_folder.h"
#include "tests/generator/golden/parallel/generated/by_heads.h"
#include "tests/generator/golden/parallel/generated/fused_parts.h"
#include "tests/generator/golden/parallel/generated/transposed.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::run_ranks;

constexpr uint64_t kSeed = 5;

MeshShape mesh_shape(int64_t tp, int64_t dp_shard) {
  MeshShape shape;
  shape[Axis::tp] = tp;
  shape[Axis::dp_shard] = dp_shard;
  return shape;
}

class FusedParts : public ::testing::TestWithParam<const char*> {
 protected:
  ModelConfig config() const {
    return parse_config(nlohmann::json{{"model_type", GetParam()}, {"num_hidden_layers", 1}}.dump(), "config.json");
  }

  /// Initial values depend only on the seed and the parameter's name, so each rank knows the expected values of its
  /// part.
  void expect_initial(ParallelModel& model, Mesh& mesh) const {
    ParallelModel fresh(*config().entry, *config().config, mesh, {}, kSeed);
    for (const auto tensors : {&ParallelModel::parameters, &ParallelModel::buffers})
      for (size_t i = 0; i < (fresh.*tensors)().size(); ++i)
        EXPECT_TRUE(at::equal((model.*tensors)()[i].local, (fresh.*tensors)()[i].local)) << (fresh.*tensors)()[i].name;
  }
};

TEST_P(FusedParts, LoadOnEveryMesh) {
  const fs::path folder = fs::path(testing::shared_folder()) / GetParam();
  run_ranks(4, [&](const Environment& environment) {
    Mesh mesh(environment, mesh_shape(2, 2), {.device = at::kCPU});
    ParallelModel model(*config().entry, *config().config, mesh, {}, kSeed);
    save_checkpoint(folder, config(), {.step = 1, .values = {}}, get_slices(model), mesh, 1);
  });
  for (const auto& [tp, dp_shard] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 3}, std::pair{2, 2}}) {
    SCOPED_TRACE(mesh_shape(tp, dp_shard).describe());
    run_ranks(tp * dp_shard, [&](const Environment& environment) {
      Mesh mesh(environment, mesh_shape(tp, dp_shard), {.device = at::kCPU});
      ParallelModel model(*config().entry, *config().config, mesh, {}, kSeed + 1);
      load_parameters(folder, config(), get_slices(model));
      expect_initial(model, mesh);
    });
  }
}

TEST_P(FusedParts, AreExportedInFull) {
  const fs::path folder = fs::path(testing::shared_folder()) / GetParam();
  run_ranks(2, [&](const Environment& environment) {
    Mesh mesh(environment, mesh_shape(2, 1), {.device = at::kCPU});
    ParallelModel model(*config().entry, *config().config, mesh, {}, kSeed);
    save_checkpoint(folder / "checkpoints", config(), {.step = 1, .values = {}}, get_slices(model), mesh, 1);
  });
  export_pretrained(folder / "checkpoints", folder / "exported", {});
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelModel model(*config().entry, *config().config, alone, {}, kSeed);
  const SafetensorsFile file(folder / "exported" / "model.safetensors");
  for (const auto* tensors : {&model.parameters(), &model.buffers()})
    for (const ShardedParameter& tensor : *tensors)
      EXPECT_TRUE(at::equal(file.tensor(tensor.name), tensor.local)) << tensor.name;
}

INSTANTIATE_TEST_SUITE_P(Families, FusedParts, ::testing::Values("fused_parts", "transposed", "by_heads"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace modular
