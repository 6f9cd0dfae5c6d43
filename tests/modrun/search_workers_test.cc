// modrun search --workers: several trials at a time try what one at a time would, end together, and are not lost.
#include <gmock/gmock.h>

#include "runtime/launch/launcher.h"
#include "runtime/train/machine_memory.h"
#include "tests/modrun/search_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class SearchWorkers : public SearchCommand {
 protected:
  /// Whether a trial has written a step.
  bool has_begun(int64_t number) const {
    const fs::path file = trial_folder(number) / "metrics.jsonl";
    return fs::exists(file) && get_bytes(file).find("\"step\":2,") != std::string::npos;
  }
};

TEST_F(SearchWorkers, TryWhatOneAtATimeTriesAndFindTheSame) {
  const std::string text = std::string("trials = 5\n") + kSpace;
  ASSERT_EQ(search(text, {}, 1).status, 0);
  const auto one_by_one = trials();
  fs::remove_all(study());
  const auto run = search(text, {"--workers", "3"}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials_by_number();
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["trial"], i);
    EXPECT_EQ(all[i]["settings"], one_by_one[i]["settings"]);
    EXPECT_EQ(all[i]["values"], one_by_one[i]["values"]) << "bit by bit";
  }
  EXPECT_LT(run.output.find("trial 2 (3 of 5)"), run.output.find("held_out_loss")) << "they began together";
  const bool is_said = run.output.find("3 trials of one rank at a time share") != std::string::npos;
  EXPECT_EQ(is_said, threads_per_rank(1) < 3) << run.output;
}

TEST_F(SearchWorkers, ATrialThatFailsLeavesTheOthersAlone) {
  const auto run = search(
      "backend = 'grid'\n[search.space]\noptim.lr = [1e30, 1e-3, 1e-2]\noptim.max_grad_norm = [0]\n"
      "optim.warmup_steps = [0]\n",
      {"--workers", "2"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials_by_number();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(all[0]["failure"], ::testing::StartsWith("its run failed with status 1, see "));
  EXPECT_TRUE(all[1].contains("values"));
  EXPECT_TRUE(all[2].contains("values"));
  EXPECT_THAT(run.output, HasSubstr("modrun: rank ")) << "what its launcher said";
}

TEST_F(SearchWorkers, ASignalEndsAllTrialsInOrderAndResumeGoesOnWithEach) {
  const Words more = {"--workers", "2", "--set", "train.steps=600", "--set", "checkpoint.every=0", "--trials", "2"};
  const auto started = start(config(kSpace), more);
  testing::await(started, [&] { return has_begun(0) && has_begun(1); });
  ::kill(started.pid, SIGTERM);
  const auto ended = testing::end_of_program(started);
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("forwarded SIGTERM to the trials"));
  EXPECT_THAT(ended.output, HasSubstr("modrun search --resume continues with these 2 trials"));
  EXPECT_TRUE(trials().empty());
  for (const int64_t number : {0, 1}) {
    const json end = events_in(trial_folder(number), "end").back();
    EXPECT_EQ(end["stopped_by"], "SIGTERM");
    EXPECT_LT(end["steps"], 600);
  }
  const auto run = search(kSpace, with(more, {"--resume"}));
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(trials().size(), 2u);
  for (const int64_t number : {0, 1}) {
    const auto starts = events_in(trial_folder(number), "start");
    ASSERT_EQ(starts.size(), 2u);
    EXPECT_GT(starts[1]["step"], 0) << "from its checkpoint";
  }
}

TEST_F(SearchWorkers, AfterAKillAllThatRanAreRunAgainAndNoneThatEndedIsLost) {
  const std::string text = std::string("trials = 6\n") + kSpace;
  ASSERT_EQ(search(text).status, 0);
  const auto undisturbed = trials();
  fs::remove_all(study());
  kill_after_two_trials(config(text), {"--workers", "2"});
  const auto before = trials();
  const auto run = search(text, {"--workers", "2", "--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials_by_number();
  ASSERT_EQ(all.size(), 6u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["settings"], undisturbed[i]["settings"]);
    EXPECT_EQ(all[i]["values"], undisturbed[i]["values"]) << "bit by bit";
  }
  for (const json& one : before) EXPECT_THAT(all, ::testing::Contains(one)) << "as it was";
}

TEST_F(SearchWorkers, EachTrialHasItsOwnVerdict) {
  const auto run = search(
      "backend = 'optuna'\nsampler = 'random'\npruner = 'median'\npython = '" PARITY_PYTHON
      "'\ntrials = 9\nseed = 1\n[search.space]\noptim.lr = [3e-3, 2e-3, 1e-9]\n",
      {"--workers", "2", "--set", "train.steps=300", "--set", "eval.every=50", "--set", "optim.schedule=constant"}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  int pruned = 0;
  for (const json& trial : trials()) {
    const json end = events_in(trial_folder(trial["trial"].get<int64_t>()), "end").back();
    pruned += trial.contains("pruned");
    EXPECT_EQ(end["steps"] < 300, trial.contains("pruned")) << trial;
  }
  EXPECT_EQ(trials().size(), 9u);
  EXPECT_GT(pruned, 0) << run.output;
}

TEST_F(SearchWorkers, ShareTheCores) {
  unsetenv("OMP_NUM_THREADS");
  const std::string text = "objective_command = 'echo $OMP_NUM_THREADS'\ndirection = 'minimize'\ntrials = 2\n";
  for (const int64_t workers : {1, 2}) {
    fs::remove_all(study());
    const auto run = search(text + kSpace, {"--workers", std::to_string(workers)}, 1);
    ASSERT_EQ(run.status, 0) << run.output;
    const auto expected = static_cast<double>(std::max<int64_t>(1, threads_per_rank(1) / workers));
    for (const json& trial : trials()) EXPECT_EQ(trial["values"]["command"], expected);
  }
}

TEST_F(SearchWorkers, CountTogetherForTheMachinesMemory) {
  // Parameters, gradients and AdamW's state take 8 bytes of each parameter on one of two shards. The tables before and
  // after the model have 64 for a token.
  const double parameters = 1.2 * static_cast<double>(machine_memory()) / (4 * 8);
  const auto vocab = std::to_string(static_cast<int64_t>(parameters / 64.0));
  const auto run = search("trials = 1\n[search.space]\noptim.lr = [1e-3]\n",
                          {"--workers", "2", "--set", "model.config.vocab_size=" + vocab});
  EXPECT_EQ(run.status, 1) << run.output;
  ASSERT_EQ(trials().size(), 1u);
  EXPECT_THAT(trials()[0]["failure"], HasSubstr("on the 4 ranks of this machine"));
}

}  // namespace
}  // namespace modular
