// metrics.wandb: W&B gets each step, evaluation and setting, a resumed run goes on there, and what fails never ends the
// run.
#include <gmock/gmock.h>
#include <stdlib.h>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class WandbTest : public ModrunTest {
 protected:
  WandbTest() {
    setenv("WANDB_MODE", "offline", 1);
    for (const char* variable : {"WANDB_API_KEY", "WANDB_DIR", "WANDB_NAME", "WANDB_RUN_ID", "WANDB_PROJECT"})
      unsetenv(variable);
  }
  ~WandbTest() override { unsetenv("WANDB_MODE"); }

  static bool has_wandb() { return std::system(PARITY_PYTHON " -c 'import wandb' 2> /dev/null") == 0; }

  static Words telling(const std::string& python = PARITY_PYTHON) {
    return {"--set", "metrics.wandb=tests", "--set", "metrics.python=" + python,
            "--set", "eval.every=5",        "--set", "checkpoint.every=5"};
  }

  /// A Python in which the package wandb is `text`.
  std::string python_with(const std::string& text) const {
    folder_.write("packages/wandb.py",
                  "class errors:\n  class Error(Exception): pass\n"
                  "class Settings:\n  mode = 'offline'\n  def __init__(self, **_): pass\n"
                  "class setup:\n  settings = Settings()\n" +
                      text);
    const auto script = folder_.write("python", "#!/bin/sh\nPYTHONPATH='" + (folder_.path() / "packages").string() +
                                                    "' exec " PARITY_PYTHON " \"$@\"\n");
    fs::permissions(script, fs::perms::owner_all);
    return script.string();
  }

  /// What W&B has of a run's parts.
  std::vector<json> told(const std::string& name) const {
    const auto read = testing::end_of_program(
        testing::start_program({PARITY_PYTHON, READ_WANDB, run_folder(name).string()}, folder_.path()));
    EXPECT_EQ(read.status, 0) << read.output;
    std::vector<json> parts;
    for (const std::string& line : read.lines) parts.push_back(json::parse(line));
    return parts;
  }

  /// The lines of W&B's history that metrics.jsonl has, of the steps after `first`.
  std::vector<json> expected(const std::string& name, int64_t first) const {
    std::vector<json> lines;
    for (const json& step : steps(name)) {
      if (step["step"] <= first) continue;
      json& line = lines.emplace_back(step);
      for (const char* beside : {"seconds", "samples"}) line.erase(beside);
      for (const json& evaluation : events(name, "evaluation")) {
        if (evaluation["step"] != step["step"]) continue;
        json& told = lines.emplace_back(evaluation["metrics"]);
        told["step"] = evaluation["step"], told["held_out_loss"] = evaluation["held_out_loss"];
      }
    }
    return lines;
  }
};

/// A run at W&B during whose fifth step the helper dies.
constexpr const char* kDies =
    "import os\n"
    "class Run:\n"
    "  id, url, offline, dir = 'x', '', True, '/'\n"
    "  def define_metric(self, *_, **__): pass\n"
    "  def log(self, line): line['step'] < 5 or os._exit(3)\n"
    "def init(**_): return Run()\n";

TEST_F(WandbTest, HasEachStepEvaluationAndSettingAndGoesOnWithAResumedRun) {
  if (!has_wandb()) GTEST_SKIP() << "Python has no package wandb: pip install wandb has this tested";
  const auto first = train("run", telling(), {"--nproc-per-node", "2"});
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("Weights & Biases has this run in "));
  auto parts = told("run");
  ASSERT_EQ(parts.size(), 1u) << "rank 0 alone tells";
  EXPECT_EQ(parts[0]["project"], "tests");
  EXPECT_EQ(parts[0]["name"], "run");
  EXPECT_EQ(parts[0]["exit_code"], 0);
  EXPECT_EQ(parts[0]["history"], json(expected("run", 0)));
  EXPECT_EQ(parts[0]["history"].size(), 12u) << "ten steps and two evaluations";
  EXPECT_EQ(parts[0]["config"]["optim.lr"], 3e-3);
  EXPECT_EQ(parts[0]["config"]["train.batch_size"], 8);
  EXPECT_EQ(parts[0]["config"]["model.config.hidden_size"], 32);
  EXPECT_EQ(parts[0]["config"]["optim.schedule"], "cosine");
  EXPECT_EQ(parts[0]["config"]["parallel.bf16"], false);

  const auto second = train("run", with(telling(), {"--resume", "--set", "train.steps=14"}));
  ASSERT_EQ(second.status, 0) << second.output;
  parts = told("run");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[1]["id"], parts[0]["id"]);
  EXPECT_EQ(parts[1]["history"], json(expected("run", 10)));

  ASSERT_EQ(train("run", {"--overwrite"}).status, 0);
  EXPECT_FALSE(fs::exists(run_folder("run") / "wandb.id")) << "of the run that was overwritten";
  EXPECT_FALSE(fs::exists(run_folder("run") / "wandb"));
}

TEST_F(WandbTest, ARunThatItsHelperLeavesGoesOnAndSaysSoOnce) {
  const auto run = train("run", telling(python_with(kDies)));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(steps("run").size(), 10u);
  const std::string sentence = "Weights & Biases gets nothing more of this run, which continues: ";
  const size_t at = run.output.find(sentence);
  ASSERT_NE(at, std::string::npos) << run.output;
  EXPECT_EQ(run.output.find(sentence, at + 1), std::string::npos);
}

TEST_F(WandbTest, WhatItRaisesIsSaidAndTheRunGoesOn) {
  const auto run = train("run", telling(python_with("def init(**_): raise ValueError('no\\nroom')\n")));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output,
              HasSubstr("Weights & Biases gets nothing more of this run, which continues: ValueError: no room\n"));
  EXPECT_EQ(steps("run").size(), 10u);
}

TEST_F(WandbTest, NoStepWaitsForIt) {
  // It answers when the run has evaluated after its last step, which would never be if that waited.
  const std::string package =
      "import time\n"
      "class Run:\n"
      "  id, url, offline, dir = 'x', '', True, '/'\n"
      "  def define_metric(self, *_, **__): pass\n"
      "  def log(self, line):\n"
      "    while '\"step\":10,\"held_out_loss\"' not in open('" +
      (run_folder("run") / "metrics.jsonl").string() +
      "').read(): time.sleep(0.01)\n"
      "    open('" +
      (folder_.path() / "told").string() +
      "', 'a').write(str(line['step']) + ' ')\n"
      "  def finish(self, exit_code): pass\n"
      "def init(**_): return Run()\n";
  const auto run = train("run", telling(python_with(package)));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(get_bytes(folder_.path() / "told"), "1 2 3 4 5 5 6 7 8 9 10 10 ") << "all of it, at the end";
}

TEST_F(WandbTest, SettingsInTheFolderOfARunDoNotChooseTheServer) {
  folder_.write("runs/there/wandb/settings", "[default]\nbase_url = http://127.0.0.1:1\n");
  const Finished ended = train("there", telling(python_with("def init(**_): raise errors.Error('asked')\n")));
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.output, HasSubstr("wandb/settings is there, which names settings of Weights & Biases"));
}

TEST_F(WandbTest, WithoutThePackageOrAKeyItIsRejectedBeforeARankStarts) {
  const auto error = [&](const std::string& python) {
    const auto rejected = train("none", telling(python), {"--nproc-per-node", "2"});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_FALSE(fs::exists(run_folder("none")));
    return rejected.output;
  };
  const auto bare = folder_.write("bare", std::string("#!/bin/sh\nexec ") + PARITY_PYTHON + " -I -S \"$@\"\n");
  fs::permissions(bare, fs::perms::owner_all);
  EXPECT_THAT(error(bare.string()),
              ::testing::AllOf(StartsWith("modrun: metrics.wandb asks for Weights & Biases"),
                               HasSubstr("Python has no package wandb: "), HasSubstr(" -m pip install wandb")));
  EXPECT_THAT(error("/no/such/python"), HasSubstr("cannot start /no/such/python"));
  setenv("WANDB_MODE", "online", 1);
  const std::string python =
      python_with("setup.settings.mode = 'online'\ndef login(): raise errors.Error('No API key configured.')\n");
  EXPECT_THAT(error(python), HasSubstr("No API key configured. (or set WANDB_MODE=offline"));
}

TEST_F(WandbTest, TheDocumentsSweepTrainsWithWhatTheAgentChose) {
  if (!has_wandb()) GTEST_SKIP() << "Python has no package wandb: pip install wandb has this tested";
  const auto read = testing::end_of_program(testing::start_program(
      {PARITY_PYTHON, SWEEP_WORDS, SEARCH_DOCUMENT, "optim.lr=0.00125", "train.batch_size=4"}, folder_.path()));
  ASSERT_EQ(read.status, 0) << read.output;
  Words words = json::parse(read.lines.back());
  // As the agent starts it, but with the tests' config, folder and Python.
  const fs::path bin = fs::path(MODRUN).parent_path();
  folder_.write("CONFIG", get_bytes(config_) + "[metrics]\npython = '" PARITY_PYTHON "'\n");
  const auto swept = testing::end_of_program(
      testing::start_program(with({"/usr/bin/env", "-C", folder_.path().string(),
                                   "PATH=" + bin.string() + ":" + std::getenv("PATH"), "WANDB_RUN_ID=abc123"},
                                  words),
                             folder_.path()));
  ASSERT_EQ(swept.status, 0) << swept.output;
  const auto run = folder_.path() / "runs/sweep/abc123";
  EXPECT_THAT(get_bytes(run / "config.toml"), ::testing::AllOf(HasSubstr("lr = 0.00125"), HasSubstr("batch_size = 4")));
  EXPECT_EQ(get_bytes(run / "wandb.id"), "abc123") << "the agent's run, and none of its own";
}

}  // namespace
}  // namespace modular
