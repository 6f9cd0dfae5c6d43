// One batch through a checkpoint's model: the config that it uses.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Forward : public ModrunTest {
 protected:
  /// A Hugging Face folder of a model that was trained with dropout.
  fs::path weights() const {
    EXPECT_EQ(train("run", {"--set", "model.config.attention_dropout=0.1"}).status, 0);
    const fs::path folder = folder_.path() / "exported";
    EXPECT_EQ(modrun({"export", (run_folder("run") / "checkpoints").string(), folder.string()}).status, 0);
    return folder;
  }

  Finished forward(const fs::path& checkpoint, const std::vector<std::string>& options = {},
                   const std::vector<std::string>& launcher = {}) const {
    const at::Tensor ids = at::arange(4 * 12, at::kLong).remainder(256).view({4, 12});
    write_safetensors(folder_.path() / "batch.safetensors", {{"input_ids", ids}, {"labels", ids}});
    std::vector<std::string> words = launcher;
    words.insert(words.end(), {"forward", "--checkpoint", checkpoint.string(), "--inputs",
                               (folder_.path() / "batch.safetensors").string(), "--outputs", outputs().string()});
    words.insert(words.end(), options.begin(), options.end());
    return modrun(words);
  }

  fs::path outputs() const { return folder_.path() / "out.safetensors"; }

  at::Tensor logits(const fs::path& checkpoint, const std::vector<std::string>& options = {},
                    const std::vector<std::string>& launcher = {}) const {
    const auto run = forward(checkpoint, options, launcher);
    EXPECT_EQ(run.status, 0) << run.output;
    return SafetensorsFile(outputs()).tensor("logits").clone();
  }
};

TEST_F(Forward, DisablesDropoutAndMatchesOnAMesh) {
  const fs::path folder = weights();
  const at::Tensor one = logits(folder);
  EXPECT_TRUE(one.equal(logits(run_folder("run") / "checkpoints")));
  EXPECT_TRUE(at::allclose(one, logits(folder, {"--set", "parallel.tp=2"}, {"--nproc-per-node", "2"}), 1e-5, 1e-5));
}

TEST_F(Forward, RunFolderSelectsItsNewestCheckpoint) {
  ASSERT_EQ(train("run", {"--set", "checkpoint.every=1", "--set", "checkpoint.keep=0"}).status, 0);
  const fs::path run = run_folder("run"), checkpoints = run / "checkpoints";
  std::vector<fs::path> steps;
  for (const auto& entry : fs::directory_iterator(checkpoints))
    if (entry.is_directory() && !entry.is_symlink()) steps.push_back(entry.path());
  std::ranges::sort(steps);
  ASSERT_GE(steps.size(), 2U);
  const at::Tensor newest = logits(steps.back());
  EXPECT_FALSE(newest.equal(logits(steps.front())));
  EXPECT_TRUE(newest.equal(logits(run)));
  EXPECT_TRUE(newest.equal(logits(run, {"--set", "parallel.tp=1"})));
  const fs::path exported = folder_.path() / "of-run";
  const auto said = modrun({"export", run.string(), exported.string()});
  ASSERT_EQ(said.status, 0) << said.output;
  EXPECT_TRUE(newest.equal(logits(exported)));
  const auto evaluated = modrun({"eval", run.string(), "--checkpoint", run.string()});
  EXPECT_EQ(evaluated.status, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("with " + steps.back().string()));
  const auto removed = train("run", {"--overwrite", "--set", "model.checkpoint=" + run.string()});
  EXPECT_EQ(removed.status, 2) << removed.output;
  EXPECT_THAT(removed.output, HasSubstr("--overwrite would remove model.checkpoint"));
  EXPECT_TRUE(newest.equal(logits(run)));
  const auto imported = modrun({"import", run.string(), (folder_.path() / "imported").string()});
  EXPECT_EQ(imported.status, 2) << imported.output;
  EXPECT_THAT(imported.output, HasSubstr(run.string() +
                                         " is a folder of checkpoints, not of a model: name one of "
                                         "them, " +
                                         steps.back().string()));
  fs::remove_all(checkpoints);
  fs::create_directory(checkpoints);
  EXPECT_THAT(forward(run).output,
              HasSubstr(run.string() + " is the folder of a run that has no complete checkpoint: train first"));
}

TEST_F(Forward, UsesTheGivenConfig) {
  const fs::path folder = weights();
  const at::Tensor of_folder = logits(folder);
  EXPECT_TRUE(of_folder.equal(logits(folder, {"--set", "model.config.attention_dropout=0"})));
  EXPECT_GT((of_folder - logits(folder, {"--set", "model.config.rms_norm_eps=10"})).abs().max().item<double>(), 1e-3);
  const auto rejected = forward(folder, {"--set", "model.config.intermediate_size=64"});
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("model.layers.0.mlp"));
}

}  // namespace
}  // namespace modular
