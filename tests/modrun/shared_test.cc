// Runs on two machines, the second without the run's folder, leave the same files as runs in a common folder.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::Ended;
using ::testing::HasSubstr;
using testing::Started;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Shared : public ModrunTest {
 protected:
  struct Machines {
    Started first, second;
  };

  const Words not_shared_ = {"--set", "checkpoint.shared=false"},
              dropout_ = {"--set", "model.config.attention_dropout=0.1"};

  fs::path elsewhere(const std::string& name) const { return folder_.path() / "elsewhere" / name; }
  fs::path checkpoints(const std::string& name) const { return run_folder(name) / "checkpoints"; }

  /// Starts a run of four ranks on two machines, the second one with additional `options_there`.
  Machines start(const std::string& name, Words options, const Words& options_there = {},
                 const Words& launcher = {}) const {
    options = options + dropout_;
    const std::string port = std::to_string(testing::free_port());
    const auto machine = [&](const std::string& number, const Words& further) {
      const Words flags = {"--nproc-per-node", "2",         "--nnodes",      "2", "--node-rank", number,
                           "--master-addr",    "127.0.0.1", "--master-port", port};
      return testing::start_program(Words{MODRUN} + training(name, options + further, flags + launcher), folder_.path(),
                                    {"GLOO_SOCKET_IFNAME=lo", "OMP_NUM_THREADS=1"});
    };
    return {machine("0", {}), machine("1", options_there)};
  }

  /// The same with separate folders on the two machines, to the end, which must succeed.
  void train_apart(const std::string& name, const Words& options, Words options_there = {}) const {
    options_there = options_there + Words{"--set", "train.dir=" + elsewhere(name).string()};
    const auto [first, second] = start(name, options + not_shared_, options_there);
    for (const Started& machine : {first, second}) {
      const Ended ended = testing::end_of_program(machine);
      EXPECT_EQ(ended.status, 0) << ended.output;
    }
    EXPECT_FALSE(fs::exists(elsewhere(name))) << "nothing is made there";
  }

  /// The same with a common folder.
  void train_together(const std::string& name, const Words& options) const {
    const auto [first, second] = start(name, options);
    for (const Started& machine : {first, second}) {
      const Ended ended = testing::end_of_program(machine);
      EXPECT_EQ(ended.status, 0) << ended.output;
    }
  }

  /// Expects two folders to hold the same files, equal except for the config value.
  static void expect_same_files(const fs::path& one, const fs::path& other) {
    std::vector<fs::path> names, others;
    for (const auto& file : fs::recursive_directory_iterator(one)) names.push_back(file.path().lexically_relative(one));
    for (const auto& file : fs::recursive_directory_iterator(other))
      others.push_back(file.path().lexically_relative(other));
    std::ranges::sort(names);
    std::ranges::sort(others);
    EXPECT_EQ(names, others);
    for (const fs::path& name : names) {
      if (!fs::is_regular_file(one / name)) continue;
      std::string text = get_bytes(other / name);
      const std::string is = "shared = false", would_be = "shared = true";
      if (name.filename() == "checkpoint.json") {
        ASSERT_NE(text.find(is), text.npos);
        text.replace(text.find(is), is.size(), would_be);
      }
      EXPECT_TRUE(get_bytes(one / name) == text) << name;
    }
  }
};

TEST_F(Shared, CheckpointsMatchThoseOfACommonFolderAndResumeBitIdentically) {
  const std::pair<std::string, Words> meshes[] = {
      {"fsdp", {"--set", "parallel.dp_replicate=2"}},
      {"tp", {"--set", "parallel.tp=2"}},
      {"pp", {"--set", "parallel.pp=2", "--set", "train.micro_batches=2"}},
  };
  for (const auto& [name, mesh] : meshes) {
    const Words options = mesh + Words{"--set", "checkpoint.every=5",   "--set", "checkpoint.keep=0",
                                       "--set", "checkpoint.form=full", "--set", "eval.every=5"};
    train_together(name, options);
    fs::rename(run_folder(name), run_folder(name + "-common"));  // the files contain train.dir
    train_apart(name, options);
    expect_same_files(checkpoints(name + "-common"), checkpoints(name));

    const Words resuming = {"--resume=step-00000005", "--set", "checkpoint.keep=1", "--set",
                            "checkpoint.background=false"};
    train_apart(name, options + resuming);
    expect_same_checkpoint(name + "-common", name, "step-00000010");
    EXPECT_EQ(get_bytes(checkpoints(name) / "latest"), "step-00000010\n");
    EXPECT_FALSE(fs::exists(checkpoints(name) / "step-00000005")) << "one is kept";
    EXPECT_EQ(steps(name).size(), 10u);
  }
}

TEST_F(Shared, AutoStartsAndResumes) {
  for (const std::string last : {"4", "8"}) train_apart("run", {"--resume=auto", "--set", "train.steps=" + last});
  EXPECT_EQ(steps("run").size(), 8u);
}

TEST_F(Shared, SecondMachineNeedsOnlyTheConfigOfWeights) {
  ASSERT_EQ(train("first", dropout_).status, 0);
  const fs::path weights = checkpoints("first") / "step-00000010", config = elsewhere("weights");
  fs::create_directories(config);
  fs::copy(weights / "config.json", config / "config.json");
  const Words from = {"--set", "model.checkpoint=" + weights.string()};
  train_together("common", from);
  train_apart("apart", from, {"--set", "model.checkpoint=" + config.string()});
  expect_same_checkpoint("common", "apart", "step-00000010");
}

TEST_F(Shared, RestartedRanksContinue) {
  const auto [first, second] =
      start("run", Words{"--set", "train.steps=300", "--set", "checkpoint.every=20"} + not_shared_,
            {"--set", "train.dir=" + elsewhere("run").string()}, {"--max-restarts", "1"});
  testing::await(first, [&] { return fs::exists(run_folder("run")) && steps_so_far("run") >= 40; });
  kill(testing::child_processes(second.pid).front(), SIGKILL);
  for (const Started& machine : {first, second}) {
    const Ended ended = testing::end_of_program(machine);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("starting the ranks again (1 of 1 times)"));
  }
  EXPECT_EQ(steps("run").size(), 300u);
  EXPECT_FALSE(fs::exists(elsewhere("run")));
}

TEST_F(Shared, ReportsAnUnsharedFolderAtTheStart) {
  const Words there = {"--set", "train.dir=" + elsewhere("run").string()};
  for (const Words& of_first : {Words{}, not_shared_}) {  // the second machine does not get them
    const auto [first, second] = start("run", of_first, there + Words{"--set", "checkpoint.shared=true"});
    for (const Started& machine : {first, second}) {
      const Ended ended = testing::end_of_program(machine);
      EXPECT_EQ(ended.status, 1) << ended.output;
      EXPECT_THAT(ended.output, AllOf(HasSubstr("is not the same folder on all machines"),
                                      HasSubstr("set checkpoint.shared = false on each of them")));
    }
    EXPECT_FALSE(fs::exists(run_folder("run") / "metrics.jsonl")) << "no step was taken";
  }
}

TEST_F(Shared, SecondMachineSuggestsAnOptionIfItFindsNothingToResume) {
  const Words second = {"--nproc-per-node", "2",         "--nnodes",      "2", "--node-rank", "1",
                        "--master-addr",    "127.0.0.1", "--master-port", "1"};
  const auto rejected = train("run", {"--resume"}, second);
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("if only rank 0's machine has it, set checkpoint.shared = false"));
}

TEST_F(Shared, RejectsTracesOfRanksWithoutTheFolder) {
  const auto rejected = train("run", not_shared_ + Words{"--set", "metrics.trace=[1, 2]"}, {"--nproc-per-node", "2"});
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("metrics.trace has every rank write a file into train.dir"));
}

}  // namespace
}  // namespace modular
