// Every optimizer in training runs: results do not depend on the mesh, a stopped run resumes bit-identically, a
// checkpoint resumes on another mesh, and parameter groups have their own rates and decays.
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using Options = std::vector<std::string>;
using ::testing::HasSubstr;

const Options kTwo = {"--nproc-per-node", "2"};

class Optimizers : public ModrunTest, public ::testing::WithParamInterface<std::string> {
 protected:
  /// Options for the optimizer, with checkpoints after 5 and 10 of 10 steps.
  Options options(const Options& more = {}) const {
    Options all = {"--set", "optim.name=" + GetParam(), "--set", "optim.lr=2e-2",
                   "--set", "checkpoint.every=5",       "--set", "model.config.tie_word_embeddings=true"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void expect_done(const Finished& run) const { ASSERT_EQ(run.status, 0) << run.output; }

  /// Copies a finished run in its state after step 5.
  void copy_at_step_5(const std::string& from, const std::string& to) const {
    std::filesystem::copy(run_folder(from), run_folder(to), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run_folder(to) / "checkpoints/step-00000010");
    std::ofstream(run_folder(to) / "checkpoints/latest") << "step-00000005\n";
  }

  /// Muon rounds to bfloat16, and rounding differs between meshes.
  void expect_same_losses(const std::string& one, const std::string& other) const {
    const double tolerance = GetParam() == "muon" ? 2e-3 : 5e-5;
    const auto expected = steps(one), found = steps(other);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), tolerance)
          << other << ", step " << i + 1;
  }
};

TEST_P(Optimizers, TrainTheSameOnEveryMesh) {
  expect_done(train("alone", options()));
  const auto losses = steps("alone");
  EXPECT_LT(losses[9]["loss"].get<double>(), losses[0]["loss"].get<double>() - 0.1) << "it learns";
  for (const auto& [name, more] : {std::pair("sharded", Options{}), std::pair("split", Options{"--tp", "2"}),
                                   std::pair("replicated", Options{"--dp-replicate", "2"}),
                                   std::pair("staged", Options{"--pp", "2", "--set", "train.micro_batches=2"})}) {
    expect_done(train(name, options(more), kTwo));
    expect_same_losses("alone", name);
  }
}

TEST_P(Optimizers, StoppedRunResumesBitIdentically) {
  expect_done(train("whole", options(), kTwo));
  copy_at_step_5("whole", "stopped");
  expect_done(train("stopped", options({"--resume"}), kTwo));
  expect_same_checkpoint("whole", "stopped", "step-00000010");
}

TEST_P(Optimizers, ResumesOnAnotherMesh) {
  expect_done(train("alone", options()));
  expect_done(train("sharded", options(), kTwo));
  for (const auto& [from, to, more, launcher] : {std::tuple("alone", "then_split", Options{"--tp", "2"}, kTwo),
                                                 std::tuple("sharded", "then_alone", Options{}, Options{}),
                                                 std::tuple("alone", "then_sharded", Options{}, kTwo)}) {
    copy_at_step_5(from, to);
    Options resumed = options({"--resume"});
    resumed.insert(resumed.end(), more.begin(), more.end());
    expect_done(train(to, resumed, launcher));
    expect_same_losses("alone", to);
  }
}

INSTANTIATE_TEST_SUITE_P(, Optimizers, ::testing::Values("adamw", "muon"), [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, Optimizers, ::testing::Values("adafactor", "sgd"),
                         [](const auto& info) { return info.param; });

class Groups : public ModrunTest {
 protected:
  at::Tensor weights(const std::string& run, const std::string& name) const {
    const SafetensorsFile file(run_folder(run) / "checkpoints/step-00000010/rank-00000.safetensors");
    return file.tensor(name).clone();
  }
};

TEST_F(Groups, LastMatchWins) {
  // A rate of 0 leaves a group at its initial values, named by itself or by a tied parameter.
  const auto run = [&](const std::string& name, const Options& settings) {
    Options options = {"--set", "model.config.tie_word_embeddings=true"};
    for (const auto& setting : settings) options.insert(options.end(), {"--set", setting});
    const auto finished = train(name, options);
    ASSERT_EQ(finished.status, 0) << finished.output;
  };
  run("still", {"optim.lr=0"});
  run("groups", {"optim.groups=[{match=['model.layers.*.mlp', 'lm_head'], lr_scale=0}, "
                 "{match=['model.layers.1'], lr_scale=0.5, weight_decay=0}]"});
  for (const auto& [name, is_still] :
       {std::pair("model.embed_tokens.weight", true), std::pair("model.layers.0.mlp.up_proj.weight", true),
        std::pair("model.layers.1.mlp.up_proj.weight", false),
        std::pair("model.layers.0.self_attn.q_proj.weight", false)})
    EXPECT_EQ(weights("still", name).equal(weights("groups", name)), is_still) << name;

  // The run's own config.toml has the groups.
  const auto resumed = modrun({"train", run_folder("groups").string(), "--resume", "--set", "train.steps=11"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_THAT(get_bytes(run_folder("groups") / "config.toml"),
              HasSubstr("groups = [{match = [\"model.layers.*.mlp\", \"lm_head\"], lr_scale = 0.0}, "
                        "{match = [\"model.layers.1\"], lr_scale = 0.5, weight_decay = 0.0}]"));
}

TEST_F(Groups, ReadsTablesOfAFile) {
  std::ofstream(config_, std::ios::app) << "[[optim.groups]]\nmatch = ['model.layers']\nlr_scale = 0.0\n"
                                           "[[optim.groups]]\nmatch = ['*']\nlr_scale = 0.0\n";
  const auto rejected = train("run", {"--set", "optim.groups=[{match=['model.layers.*.mlpp']}]"}, kTwo);
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("LlamaForCausalLM has no \"model.layers.*.mlpp\": did you mean "
                                         "model.layers.*.mlp?"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("run")));
  const auto run = train("run");
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(train("still", {"--set", "optim.lr=0"}).status, 0);
  EXPECT_TRUE(weights("run", "lm_head.weight").equal(weights("still", "lm_head.weight")));
}

TEST_F(Groups, RejectsAnotherOptimizerOnResuming) {
  ASSERT_EQ(train("run").status, 0);
  const auto resumed = train("run", {"--resume", "--set", "train.steps=12", "--set", "optim.name=muon"});
  EXPECT_EQ(resumed.status, 2) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("optim.name is \"muon\", and was \"adamw\" when the run began"));
}

}  // namespace
}  // namespace modular
