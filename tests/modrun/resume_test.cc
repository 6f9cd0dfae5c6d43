// Runs that resume, start over, or are rejected, and the contents of their folders.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <map>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

class Resume : public ModrunTest {
 protected:
  std::filesystem::path checkpoints(const std::string& name) const { return run_folder(name) / "checkpoints"; }

  std::vector<std::string> command(const std::string& name, const std::vector<std::string>& options = {},
                                   const std::vector<std::string>& launcher = {}) const {
    std::vector<std::string> words = training(name, options, launcher);
    words.insert(words.begin(), MODRUN);
    return words;
  }

  testing::Started start(const std::vector<std::string>& words, const std::vector<std::string>& variables = {}) const {
    return testing::start_program(words, folder_.path(), variables);
  }

  void await_step(const testing::Started& run, const std::string& name, size_t step) const {
    testing::await(run, [&] { return std::filesystem::exists(run_folder(name)) && steps(name).size() >= step; });
  }
};

TEST_F(Resume, ContinuesFromTheNamedCheckpoint) {
  ASSERT_EQ(train("run", {"--set", "checkpoint.every=5"}).status, 0);
  const auto resumed = train("run", {"--resume=step-00000005", "--set", "checkpoint.every=5"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_EQ(steps("run").size(), 10u);
  const auto rejected = train("run", {"--resume=step-7"});
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("step-7 is not a checkpoint: name a folder of"));
}

TEST_F(Resume, ReportsAConfigThatCannotBeCompared) {
  ASSERT_EQ(train("run").status, 0);
  std::filesystem::remove(run_folder("run") / "config.toml");
  const auto resumed = train("run", {"--resume", "--set", "train.steps=12"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_THAT(
      resumed.output,
      HasSubstr(
          "runs/run/config.toml is missing: the run continues with the current config, which could not be compared"));
  const auto again = train("run", {"--resume", "--set", "train.steps=12"});
  EXPECT_EQ(again.output.find("config.toml is not there"), again.output.npos) << again.output;
}

TEST_F(Resume, ReplacesFilesAtomically) {
  ASSERT_EQ(train("run").status, 0);
  std::map<std::string, std::string> before;
  for (const char* name : {"config.toml", "data.manifest", "metrics.jsonl"}) {
    // A second name of the existing file: writes into the file show here, a replacement does not.
    std::filesystem::create_hard_link(run_folder("run") / name, run_folder("run") / (std::string("old-") + name));
    before[name] = get_bytes(run_folder("run") / name);
  }
  ASSERT_EQ(train("run", {"--resume", "--set", "train.steps=12"}).status, 0);
  for (const auto& [name, bytes] : before) EXPECT_EQ(get_bytes(run_folder("run") / ("old-" + name)), bytes) << name;
}

TEST_F(Resume, ReportsAnInvalidNumberInTheState) {
  ASSERT_EQ(train("run").status, 0);
  const auto index = checkpoints("run") / "step-00000010/checkpoint.json";
  auto json = nlohmann::json::parse(get_bytes(index));
  json["state"]["samples"] = "abc";
  std::ofstream(index) << json;
  const auto rejected = train("run", {"--resume", "--set", "train.steps=12"});
  EXPECT_NE(rejected.status, 0);
  EXPECT_THAT(rejected.output, HasSubstr("checkpoint.json: its state has the invalid number \"abc\" for samples"));
}

TEST_F(Resume, RestartedRanksDoNotNeedTheNamedCheckpoint) {
  const std::vector<std::string> saving = {"--set", "checkpoint.every=5", "--set", "checkpoint.keep=1"};
  auto options = saving;
  ASSERT_EQ(train("run", options).status, 0);
  options.insert(options.end(), {"--resume=step-00000010", "--set", "train.steps=300"});
  const auto run = start(command("run", options, {"--nproc-per-node", "2", "--max-restarts", "1"}));
  testing::await(
      run, [&] { return !std::filesystem::exists(checkpoints("run") / "step-00000010") && steps_so_far("run") >= 30; });
  kill(testing::child_processes(run.pid).at(1), SIGKILL);
  const auto ended = testing::end_of_program(run);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("starting the ranks again (1 of 1 times)"));
  EXPECT_EQ(steps("run").size(), 300u);
}

TEST_F(Resume, RestartedRanksContinueFromTheNamedCheckpoint) {
  ASSERT_EQ(train("run", {"--set", "checkpoint.every=5"}).status, 0);
  const auto left = steps("run");
  const auto run =
      start(command("run", {"--resume=step-00000005", "--set", "train.steps=300", "--set", "optim.lr=1e-4"},
                    {"--nproc-per-node", "2", "--max-restarts", "1"}));
  testing::await(run, [&] {
    const auto now = steps("run");
    return now.size() >= 7 && now[6].at("lr") != left[6].at("lr");
  });
  kill(testing::child_processes(run.pid).at(1), SIGKILL);
  const auto ended = testing::end_of_program(run);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("starting the ranks again (1 of 1 times)"));
  const auto all = steps("run");
  ASSERT_EQ(all.size(), 300u) << "of the part that was left none is between";
  for (size_t i = 5; i < left.size(); ++i) EXPECT_NE(all[i].at("lr"), left[i].at("lr"));
}

TEST_F(Resume, RanksRestartedBeforeTheirRunBeganOverwriteTheFolder) {
  auto words = command("run");
  std::string line = "RANK=0 WORLD_SIZE=1";  // the shell acts as another launcher
  for (const std::string& word : words) line += " '" + word + "'";
  ASSERT_EQ(testing::end_of_program(start({"bash", "-c", line + "; true"})).status, 0);
  const auto again = [&, port = testing::free_port()](int rank) {
    return start(command("run", {"--overwrite", "--set", "train.seed=7"}),
                 {fmt::format("RANK={}", rank), "WORLD_SIZE=2", "TORCHELASTIC_RESTART_COUNT=1", "MASTER_ADDR=127.0.0.1",
                  fmt::format("MASTER_PORT={}", port)});
  };
  const auto first = again(0), second = again(1);
  for (const auto& rank : {first, second}) {
    const auto ended = testing::end_of_program(rank);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
  EXPECT_THAT(get_bytes(run_folder("run") / "config.toml"), HasSubstr("seed = 7"));
}

TEST_F(Resume, AutoRemovesNothing) {
  ASSERT_EQ(train("run").status, 0);
  std::filesystem::rename(checkpoints("run") / "step-00000010", checkpoints("run") / "best");
  std::filesystem::remove(checkpoints("run") / "latest");
  const auto rejected = train("run", {"--resume=auto", "--set", "train.steps=2"});
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("is not empty, but has no complete checkpoint"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints("run") / "best/checkpoint.json"));
  EXPECT_EQ(steps("run").size(), 10u);

  // An interrupted replacement leaves a checkpoint.
  std::filesystem::rename(checkpoints("run") / "best", checkpoints("run") / "step-00000010.replaced");
  EXPECT_EQ(train("run", {"--resume=auto", "--set", "train.steps=12"}).status, 0);
  EXPECT_EQ(steps("run").size(), 12u);
}

TEST_F(Resume, OverwriteRemovesNothingBeforeTheNewRunHasBegun) {
  ASSERT_EQ(train("run").status, 0);
  EXPECT_NE(train("run", {"--overwrite"}, {"--nproc-per-node", "2", "--log-dir", "/proc/none"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(checkpoints("run") / "step-00000010/checkpoint.json"));
  const auto linked = folder_.path() / "linked";
  std::filesystem::create_directory_symlink(checkpoints("run"), linked);
  const auto rejected = train("run", {"--overwrite", "--set", "model.checkpoint=" + linked.string()});
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("--overwrite would remove model.checkpoint"));
}

TEST_F(Resume, RestartedRanksOnlyContinueTheirOwnRun) {
  const std::vector<std::string> first = {"RANK=0", "WORLD_SIZE=1", "TORCHELASTIC_RESTART_COUNT=0"},
                                 second = {"RANK=0", "WORLD_SIZE=1", "TORCHELASTIC_RESTART_COUNT=1"};
  // Of another job: the shell in between acts as another launcher.
  auto words = command("run");
  std::string line = "RANK=0 WORLD_SIZE=1";
  for (const std::string& word : words) line += " '" + word + "'";
  ASSERT_EQ(testing::end_of_program(start({"bash", "-c", line + "; true"})).status, 0);
  const auto rejected = testing::end_of_program(start(command("run", {"--set", "train.steps=12"}), second));
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("already holds a run"));

  ASSERT_EQ(testing::end_of_program(start(command("own"), first)).status, 0);
  const auto continued = testing::end_of_program(start(command("own", {"--set", "train.steps=12"}), second));
  EXPECT_EQ(continued.status, 0) << continued.output;
  EXPECT_EQ(steps("own").size(), 12u);
}

TEST_F(Resume, AutoRejectsAFolderInUse) {
  const auto run = start(command("run", {"--resume=auto", "--set", "train.steps=100000"}));
  await_step(run, "run", 1);
  const auto other = testing::end_of_program(start(command("run", {"--resume=auto"})));
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("is in use by process"));
  kill(run.pid, SIGTERM);
  EXPECT_EQ(testing::end_of_program(run).status, 128 + SIGTERM);
}

TEST_F(Resume, ResumedRunsDoNotNeedTheirInitialWeights) {
  ASSERT_EQ(train("first").status, 0);
  const auto weights = folder_.path() / "weights";
  ASSERT_EQ(modrun({"export", checkpoints("first").string(), weights.string()}).status, 0);
  ASSERT_EQ(train("second", {"--set", "model.checkpoint=" + weights.string()}).status, 0);
  std::filesystem::remove_all(weights);
  const auto resumed = modrun({"train", run_folder("second").string(), "--resume", "--set", "train.steps=12"});
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  const auto eval = modrun({"eval", run_folder("second").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
}

TEST_F(Resume, ReadsTheConfigOfAnEarlierVersion) {
  ASSERT_EQ(train("run").status, 0);
  std::string text = get_bytes(run_folder("run") / "config.toml");
  const std::string now = "zero_stage = 3";
  ASSERT_NE(text.find(now), std::string::npos);
  text.replace(text.find(now), now.size(), "reshard_after_forward = false");
  std::ofstream(run_folder("run") / "config.toml") << text;
  const auto resumed = modrun({"train", run_folder("run").string(), "--resume", "--set", "train.steps=12"});
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("parallel.zero_stage                          2"));
}

TEST_F(Resume, AcceptsRenamedKeysAndReportsThemOnce) {
  ASSERT_EQ(train("run", {"--set", "eval.every=5"}).status, 0);
  const auto rename = [&](const char* file, const std::vector<std::pair<std::string, std::string>>& names) {
    std::string text = get_bytes(run_folder("run") / file);
    for (const auto& [now, before] : names) {
      ASSERT_NE(text.find(now), std::string::npos) << now;
      for (size_t at; (at = text.find(now)) != std::string::npos;) text.replace(at, now.size(), before);
    }
    std::ofstream(run_folder("run") / file) << text;
  };
  rename(
      "config.toml",
      {{"validation_every", "held_out_every"}, {"validation_fraction", "held_out_part"}, {"validation", "held_out"}});
  rename("metrics.jsonl", {{"val_loss", "held_out_loss"}});
  const auto resumed =
      modrun({"--nproc-per-node", "2", "train", run_folder("run").string(), "--resume", "--set", "train.steps=12"});
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  const std::string note = "data.held_out_every is now data.validation_every";
  const size_t at = resumed.output.find(note);
  ASSERT_NE(at, std::string::npos) << resumed.output;
  EXPECT_EQ(resumed.output.find(note, at + 1), std::string::npos) << resumed.output;
  EXPECT_THAT(get_bytes(run_folder("run") / "config.toml"), HasSubstr("validation_every = 4"));
  const auto end = events("run", "end").back();
  EXPECT_LE(end["best_val_loss"], end["val_loss"]);
}

TEST_F(Resume, ARunOutlivesItsTerminalAndItsReader) {
  for (const std::string launcher : {"", "--nproc-per-node 2"}) {
    const std::string name = launcher.empty() ? "alone" : "two";
    std::string line = "set -o pipefail; " MODRUN " " + launcher + " train '" + config_.string() +
                       "' --set train.dir='" + run_folder(name).string() + "' 2>&1 | true";
    EXPECT_EQ(testing::end_of_program(start({"bash", "-c", line})).status, 0) << name;
    EXPECT_TRUE(std::filesystem::exists(checkpoints(name) / "step-00000010/checkpoint.json"));

    auto words =
        command("nohup-" + name, {"--set", "train.steps=200"},
                launcher.empty() ? std::vector<std::string>{} : std::vector<std::string>{"--nproc-per-node", "2"});
    words.insert(words.begin(), "nohup");
    const auto run = start(words);
    await_step(run, "nohup-" + name, 3);
    kill(run.pid, SIGHUP);
    const auto ended = testing::end_of_program(run);
    EXPECT_EQ(ended.status, 0) << ended.output;
  }
}

TEST_F(Resume, RestartsASingleRank) {
  const auto run =
      start(command("run", {"--set", "train.steps=300", "--set", "checkpoint.every=20"}, {"--max-restarts", "1"}));
  await_step(run, "run", 40);
  for (const pid_t rank : testing::child_processes(run.pid)) kill(rank, SIGKILL);
  const auto ended = testing::end_of_program(run);
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("starting the ranks again (1 of 1 times)"));
  EXPECT_EQ(steps("run").size(), 300u);
}

TEST_F(Resume, MakesUpForAMissedEvaluation) {
  const auto lines = [&](const std::string& part) {
    std::vector<std::string> found;
    std::ifstream in(run_folder("run") / "metrics.jsonl");
    for (std::string line; std::getline(in, line);)
      if (line.find(part) != line.npos) found.push_back(line);
    return found;
  };
  ASSERT_EQ(train("run").status, 0);
  const auto evaluations = lines("\"event\":\"evaluation\"");
  ASSERT_EQ(evaluations.size(), 1U);
  ASSERT_EQ(lines("\"event\":\"end\"").size(), 1U);
  // As if it had been killed after the last checkpoint.
  std::string rest;
  for (const std::string& line : lines(""))
    if (line.find("\"evaluation\"") == line.npos && line.find("\"end\"") == line.npos) rest += line + "\n";
  std::ofstream(run_folder("run") / "metrics.jsonl") << rest;
  for (const char* launcher : {"2", "1"}) {  // the first makes up for it, the second has nothing to do
    const auto resumed = train("run", {"--resume"}, {"--nproc-per-node", launcher});
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    ASSERT_EQ(lines("\"event\":\"evaluation\"").size(), 1U);
    const auto made_up = nlohmann::json::parse(lines("\"event\":\"evaluation\"").front());
    EXPECT_NEAR(made_up["val_loss"], nlohmann::json::parse(evaluations.front())["val_loss"], 1e-5);
    EXPECT_EQ(lines("\"event\":\"end\"").size(), 1U);
  }
}

TEST_F(Resume, RejectsAnUnwritableFolderBeforeStartingRanks) {
  for (const std::string folder : {"/proc/none", ""}) {
    const auto rejected = modrun({"--nproc-per-node", "2", "train", config_.string(), "--set", "train.dir=" + folder});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_THAT(rejected.output, HasSubstr(folder.empty() ? "train.dir is empty" : "cannot be written"));
  }
}

}  // namespace
}  // namespace modular
