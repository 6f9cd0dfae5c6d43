// What weights a run begins from and leaves: who reads them, and in which form checkpoints hold them.
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/train/preflight.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Weights : public ModrunTest {
 protected:
  fs::path checkpoint(const std::string& name) const { return run_folder(name) / "checkpoints/step-00000010"; }
};

TEST_F(Weights, RunsAreTheSameWhetherOneRankReadsThemOrAllDo) {
  ASSERT_EQ(train("first").status, 0);
  const auto exported = folder_.path() / "exported";
  ASSERT_EQ(modrun({"export", checkpoint("first").string(), exported.string()}).status, 0);
  int number = 0;
  for (const fs::path& weights : {checkpoint("first"), exported}) {
    const std::string all = "all" + std::to_string(number), one = "one" + std::to_string(number++);
    const Words from = {"--set", "model.checkpoint=" + weights.string(), "--set", "train.batch_size=12"},
                ranks = {"--nproc-per-node", "3"};
    ASSERT_EQ(train(all, from, ranks).status, 0);
    Words options = from;
    options.insert(options.end(), {"--set", "model.readers=first"});
    const auto run = train(one, options, ranks);
    ASSERT_EQ(run.status, 0) << run.output;
    expect_same_checkpoint(all, one, "step-00000010");
  }
}

TEST_F(Weights, RanksThatDoNotReadThemNeedOnlyTheConfig) {
  const auto folder = folder_.path() / "weights";
  fs::create_directories(folder);
  ASSERT_EQ(train("first").status, 0);
  fs::copy(checkpoint("first") / "config.json", folder / "config.json");
  const auto find_error = [&](const std::string& readers) -> std::string {
    try {
      prepare_run(read_run_config(config_, {"model.entry=LlamaForCausalLM", "model.checkpoint=" + folder.string(),
                                            "model.readers=" + readers}),
                  {.measured = true}, 2);
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("LOCAL_RANK", "0", 1);
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "1", 1);
  EXPECT_THAT(find_error("all"), HasSubstr("holds neither model.safetensors nor"));
  EXPECT_EQ(find_error("first"), "");
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    unsetenv(name);
  EXPECT_THAT(find_error("both"), HasSubstr("model.readers is \"both\": it must be one of all, first"));
}

TEST_F(Weights, FullCheckpointsAreHuggingFaceFoldersAndAreResumed) {
  const Words full = {"--set", "checkpoint.form=full", "--set", "checkpoint.every=5", "--set", "train.batch_size=12"};
  Words ranks = {"--nproc-per-node", "3"};
  const auto run = train("full", full, ranks);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto exported = folder_.path() / "exported";
  ASSERT_EQ(modrun({"export", checkpoint("full").string(), exported.string()}).status, 0);
  for (const char* name : {"model.safetensors", "config.json"})
    EXPECT_TRUE(get_bytes(checkpoint("full") / name) == get_bytes(exported / name)) << name;

  // Alone, as another program reads it.
  const auto alone = folder_.path() / "alone";
  fs::create_directories(alone);
  for (const char* name : {"model.safetensors", "config.json"}) fs::copy(checkpoint("full") / name, alone / name);
  const auto eval = modrun({"eval", run_folder("full").string(), "--checkpoint", alone.string()}),
             own = modrun({"eval", run_folder("full").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
  EXPECT_EQ(eval.output.substr(0, eval.output.find(',')), own.output.substr(0, own.output.find(',')));

  fs::copy(run_folder("full"), run_folder("resumed"), fs::copy_options::recursive);
  Words resuming = full;
  resuming.emplace_back("--resume=step-00000005");
  const auto resumed = train("resumed", resuming, ranks);
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  expect_same_checkpoint("full", "resumed", "step-00000010");
}

}  // namespace
}  // namespace modular
