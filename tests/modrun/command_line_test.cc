// Errors of modrun: one sentence, exit status 2, no rank started.
#include <gmock/gmock.h>

#include <map>

#include "runtime/data/token_formats.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class CommandLine : public ModrunTest {
 protected:
  /// The single line that `finished` printed before it rejected the command.
  static std::string error(const Finished& finished) {
    EXPECT_EQ(finished.status, 2) << finished.output;
    EXPECT_THAT(finished.output, StartsWith("modrun: "));
    EXPECT_EQ(finished.output.find('\n'), finished.output.size() - 1) << finished.output;
    return finished.output.substr(8, finished.output.size() - 9);
  }
};

TEST_F(CommandLine, HelpListsCommandsLauncherFlagsAndExitStatus) {
  const auto help = modrun({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"train", "eval", "sample", "forward", "export", "import", "plan", "advise", "report",
                           "entries", "settings", "--nproc-per-node", "Exit status"})
    EXPECT_THAT(help.output, HasSubstr(word));
  const auto train_help = modrun({"train", "--help"});
  EXPECT_EQ(train_help.status, 0);
  EXPECT_THAT(train_help.output, HasSubstr("--resume"));
}

TEST_F(CommandLine, InvalidCommandLineExitsWithStatus2) {
  EXPECT_EQ(modrun({}).status, 2);
  const auto misspelt = modrun({"trian"});
  EXPECT_EQ(misspelt.status, 2);
  EXPECT_THAT(misspelt.output, HasSubstr("unknown command \"trian\": did you mean train?"));
  EXPECT_THAT(modrun({"train", "--set", "model.entry=lama"}).output, HasSubstr("did you mean llama?"));
  EXPECT_EQ(modrun({"train", "--resume", "--overwrite"}).status, 2);
  EXPECT_EQ(modrun({"--nproc-per-node", "two", "train"}).status, 2);
}

TEST_F(CommandLine, ListsEntriesAndConfigKeys) {
  EXPECT_THAT(modrun({"entries"}).output, HasSubstr("LlamaForCausalLM"));
  std::map<std::string, std::string> tasks;
  for (const auto& entry : nlohmann::json::parse(modrun({"entries", "--json"}).output))
    tasks[entry["architecture"]] = entry["task"];
  EXPECT_EQ(tasks["LlamaForCausalLM"], "causal-lm");
  const auto settings = modrun({"settings", "--set", "model.entry=llama"}).output;
  EXPECT_THAT(settings, HasSubstr("train.batch_size"));
  EXPECT_THAT(settings, HasSubstr("model.config.hidden_size"));
}

TEST_F(CommandLine, RejectsInvalidConfig) {
  EXPECT_EQ(error(train("run", {"--set", "train.stepps=1"})),
            "--set train.stepps=1: unknown key train.stepps: did you mean train.steps?");
  EXPECT_THAT(error(modrun({"train", "/nowhere.toml"})), HasSubstr("/nowhere.toml cannot be read: "));
}

TEST_F(CommandLine, AcceptsOptionsAfterDashes) {
  const auto run =
      train("run", {"--set", "train.steps=2", "--", "train.steps=3", "optim.lr=1e-5"}, {"--nproc-per-node", "2"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(steps("run").size(), 3u) << "the last one wins";
  EXPECT_THAT(get_bytes(run_folder("run") / "config.toml"), HasSubstr("lr = 1e-05"));
  EXPECT_EQ(error(train("none", {"--", "train.steps"})), "after --, expected KEY=VALUE, but got \"train.steps\"");
  EXPECT_EQ(error(train("none", {"--", "train.stepps=1"})),
            "--set train.stepps=1: unknown key train.stepps: did you mean train.steps?");
}

TEST_F(CommandLine, RejectsAnIndivisibleMeshBeforeStartingRanks) {
  EXPECT_THAT(error(train("run", {"--set", "parallel.tp=3"}, {"--nproc-per-node", "3"})), HasSubstr("tp"));
  EXPECT_THAT(error(train("run", {"--set", "parallel.dp_shard=4"}, {"--nproc-per-node", "2"})),
              HasSubstr("make 4 ranks, but the job has 2"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("run")));
}

TEST_F(CommandLine, RejectsAnInvalidPipelineBeforeStartingRanks) {
  const auto staged = [&](std::vector<std::string> settings) {
    std::vector<std::string> arguments = {"--set", "parallel.pp=2"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    return error(train("run", arguments, {"--nproc-per-node", "2"}));
  };
  EXPECT_THAT(staged({"parallel.schedule=interleaved", "train.micro_batches=1"}),
              StartsWith("--set parallel.schedule=interleaved: parallel.schedule: interleaved needs a number of "
                         "micro-batches that is a multiple of pp = 2"));
  EXPECT_THAT(staged({"parallel.cuts=[1, 2]"}), HasSubstr("parallel.cuts is [1, 2]"));
  EXPECT_THAT(staged({"parallel.schedule=looped-bfs", "parallel.stages_per_rank=9"}),
              HasSubstr("pp = 2 with 18 stages in total needs at least as many layers"));
  EXPECT_THAT(staged({"parallel.schedule=/nowhere/own.csv"}), HasSubstr("/nowhere/own.csv cannot be read: "));
  EXPECT_FALSE(std::filesystem::exists(run_folder("run")));
}

TEST_F(CommandLine, RejectsUnreadableData) {
  EXPECT_THAT(error(train("run", {"--set", "data.paths=/nowhere/text"}, {"--nproc-per-node", "2"})),
              StartsWith("/nowhere/text: No such file"));
  const auto tokens = folder_.path() / "tokens.bin";
  write_token_file(tokens, std::vector<int64_t>(1000, 7));
  std::filesystem::resize_file(tokens, 500);
  EXPECT_THAT(error(train("run", {"--set", "data.format=tokens", "--set", "data.validation_every=0", "--set",
                                  "data.paths=" + tokens.string()})),
              EndsWith("it is truncated; write or copy it again"));
}

TEST_F(CommandLine, RejectsAMissingCheckpoint) {
  EXPECT_THAT(error(train("run", {"--resume"})), HasSubstr("holds no checkpoint"));
  EXPECT_THAT(
      error(modrun({"sample", config_.string(), "--prompt", "x", "--set", "train.dir=" + run_folder("none").string()})),
      HasSubstr("holds no checkpoint"));
}

TEST_F(CommandLine, PlanShowsTheLayoutWithoutRanks) {
  const auto plan = modrun({"plan", config_.string(), "--ranks", "4", "--set", "parallel.tp=2"});
  EXPECT_EQ(plan.status, 0);
  EXPECT_THAT(plan.output, HasSubstr("dp_shard 2 x tp 2"));
  EXPECT_THAT(plan.output, HasSubstr("model.layers.1"));
  const auto staged = modrun({"plan", config_.string(), "--ranks", "2", "--set", "parallel.pp=2"});
  EXPECT_THAT(staged.output, HasSubstr("cut at layers 1: the costliest stage multiplies by 1."));
}

}  // namespace
}  // namespace modular
