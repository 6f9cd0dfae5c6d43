// Runs that are told to end, or that lose a rank, at any moment: their checkpoints continue as if nothing had happened.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>

#include "runtime/files/open_file.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

/// A mesh on which runs are disturbed.
struct OnMesh {
  std::string name;
  std::vector<std::string> launcher, settings;
};

void PrintTo(const OnMesh& one, std::ostream* out) { *out << one.name; }

class Save : public ModrunTest, public ::testing::WithParamInterface<OnMesh> {
 protected:
  static constexpr int64_t kSteps = 160;

  std::vector<std::string> settings() const {
    std::vector<std::string> all = {"train.steps=" + std::to_string(kSteps), "train.batch_size=12",
                                    "checkpoint.every=50", "checkpoint.keep=0"};
    all.insert(all.end(), GetParam().settings.begin(), GetParam().settings.end());
    return all;
  }

  std::vector<std::string> command(const std::string& name, const std::vector<std::string>& options = {},
                                   const std::vector<std::string>& launcher = {}) const {
    std::vector<std::string> flags = GetParam().launcher, all;
    flags.insert(flags.end(), launcher.begin(), launcher.end());
    for (const std::string& setting : settings()) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), options.begin(), options.end());
    std::vector<std::string> words = training(name, all, flags);
    words.insert(words.begin(), MODRUN);
    return words;
  }

  /// Makes the run "whole", which nothing disturbs: once per mesh, and a copy for each test.
  void make_whole() const {
    static std::map<std::string, TemporaryFolder> runs;
    const auto [kept, is_first] = runs.try_emplace(GetParam().name);
    if (is_first) {
      const auto ended = run(command("whole"));
      ASSERT_EQ(ended.status, 0) << ended.output;
      std::filesystem::copy(run_folder("whole"), kept->second.path(), std::filesystem::copy_options::recursive);
    } else {
      std::filesystem::create_directories(run_folder("whole"));
      std::filesystem::copy(kept->second.path(), run_folder("whole"), std::filesystem::copy_options::recursive);
    }
  }

  testing::Ended run(const std::vector<std::string>& command) const {
    return testing::end_of_program(testing::start_program(command, folder_.path()));
  }

  /// Starts a run and waits until it has completed `step` steps.
  testing::Started started(const std::string& name, int64_t step, const std::vector<std::string>& options = {},
                           const std::vector<std::string>& launcher = {}) const {
    const auto run = testing::start_program(command(name, options, launcher), folder_.path());
    testing::await(run, [&] { return lines(name) > step; });  // the first line is not a step
    return run;
  }

  int64_t lines(const std::string& name) const {
    const std::filesystem::path file = run_folder(name) / "metrics.jsonl";
    return is_there(file) ? std::ranges::count(read_file(file), '\n') : 0;
  }

  /// Expects the last checkpoint and the loss of every step to equal those of another run.
  void expect_same(const std::string& one, const std::string& other) const {
    expect_same_checkpoint(one, other, "step-00000" + std::to_string(kSteps));
    const auto expected = steps(one), found = steps(other);
    ASSERT_EQ(expected.size(), static_cast<size_t>(kSteps));
    ASSERT_EQ(found.size(), static_cast<size_t>(kSteps));
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i]["loss"], expected[i]["loss"]) << "step " << i + 1;
  }

  /// Steps after which the signal is sent. MODULAR_LONG_TESTS tries a hundred.
  static std::vector<int64_t> moments() {
    const int count = std::getenv("MODULAR_LONG_TESTS") ? 100 : 2;
    std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same moments each time
    std::vector<int64_t> steps;
    for (int i = 0; i < count; ++i) steps.push_back(static_cast<int64_t>(random() % 60));
    return steps;
  }
};

TEST_P(Save, SignalSavesAndEndsAndTheRunResumesIdentically) {
  ASSERT_NO_FATAL_FAILURE(make_whole());
  int number = 0;
  for (const int64_t step : moments()) {
    const int signal = std::array{SIGTERM, SIGINT}[static_cast<size_t>(number % 2)];
    const std::string name = "stopped" + std::to_string(number++);
    SCOPED_TRACE(::testing::Message() << "SIG" << sigabbrev_np(signal) << " after step " << step);
    const auto stopped = started(name, step);
    // As a scheduler that signals a process group: each process gets it, and the ranks again from their launcher.
    for (const pid_t rank : testing::child_processes(stopped.pid)) kill(rank, signal);
    kill(stopped.pid, signal);
    const auto ended = testing::end_of_program(stopped);
    ASSERT_EQ(ended.status, 128 + signal) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(std::string("stopped by SIG") + sigabbrev_np(signal) + " after step"));
    const auto resumed = run(command(name, {"--resume"}));
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    expect_same("whole", name);
    std::filesystem::remove_all(run_folder(name));
  }
}

TEST_P(Save, Sigusr1SavesAndTheRunContinues) {
  ASSERT_NO_FATAL_FAILURE(make_whole());
  const auto asked = started("asked", 5, {"--set", "checkpoint.every=0"});
  // One request, which each rank receives twice, perhaps in different steps.
  for (const pid_t rank : testing::child_processes(asked.pid)) kill(rank, SIGUSR1);
  testing::await(asked, [&, heard = lines("asked")] { return lines("asked") > heard; });
  kill(asked.pid, SIGUSR1);
  ASSERT_EQ(testing::end_of_program(asked).status, 0);
  expect_same("whole", "asked");
  const std::filesystem::directory_iterator entries(run_folder("asked") / "checkpoints");
  EXPECT_EQ(std::distance(entries, {}), 3) << "latest, the checkpoint that was asked for, and the last";
}

TEST_P(Save, KilledRankRestartsFromTheNewestCheckpoint) {
  if (GetParam().launcher.empty()) return;  // nothing restarts it
  ASSERT_NO_FATAL_FAILURE(make_whole());
  int number = 0;
  std::mt19937 random(11);  // NOLINT(cert-msc51-cpp): the same ranks each time
  for (const int64_t step : moments()) {
    const std::string name = "killed" + std::to_string(number++);
    const auto disturbed = started(name, step, {}, {"--max-restarts", "1"});
    const auto ranks = testing::child_processes(disturbed.pid);
    ASSERT_FALSE(ranks.empty());
    const size_t rank = random() % ranks.size();
    SCOPED_TRACE(::testing::Message() << "rank " << rank << " after step " << step);
    kill(ranks[rank], SIGKILL);
    const auto ended = testing::end_of_program(disturbed);
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("why:   killed by SIGKILL")) << ended.output;
    EXPECT_THAT(ended.output, HasSubstr("starting the ranks again (1 of 1 times)"));
    expect_same("whole", name);
    std::filesystem::remove_all(run_folder(name));
  }
}

TEST_P(Save, ResumeAutoStartsOrResumes) {
  ASSERT_NO_FATAL_FAILURE(make_whole());
  const auto stopped = started("auto", 40, {"--resume=auto"});
  kill(stopped.pid, SIGTERM);
  ASSERT_EQ(testing::end_of_program(stopped).status, 128 + SIGTERM);
  const auto resumed = run(command("auto", {"--resume=auto"}));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  expect_same("whole", "auto");
}

INSTANTIATE_TEST_SUITE_P(Meshes, Save,
                         ::testing::Values(OnMesh{"alone", {}, {}}, OnMesh{"fsdp", {"--nproc-per-node", "3"}, {}}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Release, Save,
    ::testing::Values(OnMesh{"ddp", {"--nproc-per-node", "3"}, {"parallel.dp_replicate=3"}},
                      OnMesh{"pp", {"--nproc-per-node", "2"}, {"parallel.pp=2", "train.micro_batches=2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace modular
