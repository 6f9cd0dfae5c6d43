// Checkpoints written in the background equal those of runs that wait for each write.
#include <gmock/gmock.h>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Background : public ModrunTest {
 protected:
  /// Trains "background" and "foreground" and expects the same `expected` checkpoints of both.
  void expect_same_checkpoints(Words options, const Words& launcher, int expected) {
    options.insert(options.end(), {"--set", "checkpoint.keep=0", "--overwrite"});
    const auto saving = train("background", options, launcher);
    ASSERT_EQ(saving.status, 0) << saving.output;
    options.insert(options.end(), {"--set", "checkpoint.background=false"});
    const auto waiting = train("foreground", options, launcher);
    ASSERT_EQ(waiting.status, 0) << waiting.output;
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(run_folder("foreground") / "checkpoints"))
      if (entry.is_directory()) {
        ++found;
        expect_same_checkpoint("foreground", "background", entry.path().filename().string());
      }
    EXPECT_EQ(found, expected);
    for (const char* name : {"background", "foreground"})
      EXPECT_EQ(get_bytes(run_folder(name) / "checkpoints/latest").substr(0, 14), "step-00000010\n");
  }
};

TEST_F(Background, WritesTheSameCheckpointsAsWaitingRuns) {
  const Words each_step = {"--set", "checkpoint.every=1", "--set", "train.batch_size=12"},
              three = {"--nproc-per-node", "3"};
  expect_same_checkpoints(each_step, {}, 10);
  expect_same_checkpoints(each_step, three, 10);
  Words replicas = each_step;
  replicas.insert(replicas.end(), {"--set", "parallel.dp_replicate=3"});
  expect_same_checkpoints(replicas, three, 10);
}

TEST_F(Background, UpdatesWaitForTheCopy) {
  // A position table that is not trained, whose copy takes longer than many of these steps. Trained parameters are
  // copied after it.
  const Words large = {"--set", "model.entry=GPT2LMHeadModel",
                       "--set", "model.config.n_positions=1000000",
                       "--set", "optim.frozen=['transformer.wpe']",
                       "--set", "train.batch_size=1",
                       "--set", "train.seq_len=8",
                       "--set", "checkpoint.every=5"};
  folder_.write("tiny.toml",
                "[model.config]\nvocab_size = 256\nn_embd = 32\nn_layer = 1\nn_head = 2\n"
                "[train]\nsteps = 10\n[optim]\nlr = 3e-3\n[eval]\nsamples = 1\n"
                "[data]\nvalidation_every = 4\npaths = ['" +
                    (folder_.path() / "data").string() + "']\n");
  if (modrun({"settings", "--set", "model.entry=GPT2LMHeadModel"}).status != 0) GTEST_SKIP() << "built without GPT-2";
  expect_same_checkpoints(large, {}, 2);
}

TEST_F(Background, FullDiskEndsTheRunAndNamesTheFile) {
  // A limit of 40 kB per file: enough for everything but a rank's checkpoint file.
  for (const std::string ranks : {"1", "2"}) {
    const std::string name = "of" + ranks;
    Words command =
        training(name, {"--set", "train.steps=100000", "--set", "checkpoint.every=5"}, {"--nproc-per-node", ranks});
    command.insert(command.begin(), {"bash", "-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "bash", MODRUN});
    const auto ended = testing::end_of_program(testing::start_program(command, folder_.path()));
    EXPECT_EQ(ended.status, 1) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("step-00000005.partial/rank-0000"));
    EXPECT_THAT(ended.output, HasSubstr(".safetensors cannot be written: File too large"));
    EXPECT_LT(steps(name).size(), 100u) << "it ends where it is noticed";
    EXPECT_FALSE(std::filesystem::exists(run_folder(name) / "checkpoints/latest"));
  }
}

}  // namespace
}  // namespace modular
