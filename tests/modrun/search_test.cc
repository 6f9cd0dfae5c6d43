// modrun search: trials on two ranks, whose best trains again to the same loss; continues where it was killed.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/modrun/search_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST_F(SearchCommand, TheBestOfItsTrialsTrainsAgainToTheSameLoss) {
  const auto run = search(std::string("trials = 4\n") + kSpace);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  const auto best =
      std::ranges::min_element(all, {}, [](const json& one) { return one["values"]["held_out_loss"].get<double>(); });
  for (const json& one : all)
    EXPECT_EQ(held_out_loss(study() / fmt::format("trials/{:04}", one["trial"].get<int64_t>())),
              one["values"]["held_out_loss"]);
  EXPECT_THAT(run.output, HasSubstr(fmt::format("the best is trial {}", (*best)["trial"].get<int64_t>())));
  const auto again = modrun({"--nproc-per-node", "2", "train", (study() / "best.toml").string()});
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(held_out_loss(study() / "best"), (*best)["values"]["held_out_loss"]) << "bit by bit";
}

TEST_F(SearchCommand, ATrialThatFailsIsRecordedAndTheStudyGoesOn) {
  const auto run = search(
      "trials = 3\nbackend = 'grid'\n[search.space]\noptim.lr = [1e30, 1e-3, 1e-2]\noptim.max_grad_norm = [0]\n"
      "optim.warmup_steps = [0]\n");
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_THAT(all[0]["failure"], ::testing::StartsWith("its run failed with status 1, see "));
  EXPECT_TRUE(all[1].contains("values"));
  EXPECT_TRUE(all[2].contains("values"));
}

TEST_F(SearchCommand, GoesOnAfterAKillWithWhatItWouldHaveDrawn) {
  ASSERT_EQ(search(std::string("trials = 5\n") + kSpace).status, 0);
  const auto undisturbed = trials();
  fs::remove_all(study());
  kill_after_two_trials(config(std::string("trials = 5\n") + kSpace));
  const auto rejected = search(std::string("trials = 5\n") + kSpace);
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("resume it with --resume"));
  const auto run = search(std::string("trials = 5\n") + kSpace, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 5u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["settings"], undisturbed[i]["settings"]);
    EXPECT_EQ(all[i]["values"], undisturbed[i]["values"]) << "bit by bit";
  }
}

TEST_F(SearchCommand, OptunaDrawsAndKnowsWhatTheTrialsFound) {
  const std::string text = std::string("trials = 4\nbackend = 'optuna'\npython = '") + PARITY_PYTHON + "'\n" + kSpace;
  const auto run = search(text);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  // As a user of Optuna reads it.
  const std::string read = "import json, optuna; study = optuna.load_study(study_name='study', storage='sqlite:///" +
                           (study() / "study.db").string() +
                           "'); print(json.dumps([study.best_trial.number, study.best_value, [[t.params, t.value, "
                           "t.state.name] for t in study.trials]]))";
  const auto shown = testing::end_of_program(testing::start_program({PARITY_PYTHON, "-c", read}, folder_.path()));
  ASSERT_EQ(shown.status, 0) << shown.output;
  const json of_optuna = json::parse(shown.lines.back());
  ASSERT_EQ(of_optuna[2].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(of_optuna[2][i][0]["optim.lr"].get<double>(),
              std::stod(all[i]["settings"]["optim.lr"].get<std::string>()));
    EXPECT_EQ(of_optuna[2][i][0]["train.batch_size"].get<int64_t>(),
              std::stoll(all[i]["settings"]["train.batch_size"].get<std::string>()));
    EXPECT_EQ(of_optuna[2][i][1], all[i]["values"]["held_out_loss"]);
    EXPECT_EQ(of_optuna[2][i][2], "COMPLETE");
  }
  EXPECT_THAT(run.output, HasSubstr(fmt::format("the best is trial {}", of_optuna[0].get<int64_t>())));
}

TEST_F(SearchCommand, OptunaThatWasKilledGoesOnWithTheTrialThatWasRunning) {
  const std::string text = std::string("trials = 4\nbackend = 'optuna'\npython = '") + PARITY_PYTHON + "'\n" + kSpace;
  kill_after_two_trials(config(text));
  const auto before = trials();
  const auto run = search(text, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  std::set<std::string> rates;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i]["trial"], i);
    rates.insert(all[i]["settings"]["optim.lr"].get<std::string>());
  }
  EXPECT_EQ(rates.size(), 4u) << "nothing is drawn again";
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 2), before);
}

// Optuna writes a trial down first, and then value by value: what is left where it is killed between is such a trial.
TEST_F(SearchCommand, OptunaThatWasKilledBeforeATrialHadItsValuesDrawsThem) {
  const std::string text = std::string("trials = 4\nbackend = 'optuna'\npython = '") + PARITY_PYTHON + "'\n" + kSpace;
  kill_after_two_trials(config(text));
  const std::string begin = "import optuna; optuna.load_study(study_name='study', storage='sqlite:///" +
                            (study() / "study.db").string() + "').ask()";
  const auto begun = testing::end_of_program(testing::start_program({PARITY_PYTHON, "-c", begin}, folder_.path()));
  ASSERT_EQ(begun.status, 0) << begun.output;
  const auto run = search(text, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  const auto all = trials();
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(all[i]["trial"], i);
    EXPECT_TRUE(all[i]["settings"].contains("optim.lr") && all[i].contains("values")) << all[i];
  }
}

TEST_F(SearchCommand, ATrialThatIsPrunedEndsOnAllRanksAndHasNoValues) {
  constexpr int64_t kSteps = 300;  // more than a trial has taken when the verdict reaches it
  const auto run = search(
      "backend = 'optuna'\nsampler = 'random'\npruner = 'median'\npython = '" PARITY_PYTHON
      "'\ntrials = 7\nseed = 1\n[search.space]\noptim.lr = [3e-3, 2e-3, 1e-9]\n",
      {"--set", "train.steps=" + std::to_string(kSteps), "--set", "eval.every=50", "--set", "optim.schedule=constant"});
  ASSERT_EQ(run.status, 0) << run.output;
  int pruned = 0, hopeless = 0;
  for (const json& trial : trials()) {
    const fs::path folder = study() / "trials" / fmt::format("{:04}", trial["trial"].get<int>());
    const json end = events_in(folder, "end").back();
    if (!trial.contains("pruned")) {
      EXPECT_EQ(end["steps"], kSteps);
      continue;
    }
    ++pruned;
    EXPECT_THAT(trial["failure"].get<std::string>(), ::testing::StartsWith("pruned after step "));
    EXPECT_FALSE(trial.contains("values"));
    hopeless += trial["settings"]["optim.lr"] == "1e-09";
    EXPECT_LT(end["steps"], kSteps);
    EXPECT_EQ(end["stopped_by"], "SIGTERM");
  }
  EXPECT_EQ(hopeless, 1) << run.output;  // the seventh, after five with which to compare
  const std::string count = "'" PARITY_PYTHON
                            "' -c \"import optuna, sys; study = optuna.load_study(study_name='study', "
                            "storage='sqlite:///" +
                            (study() / "study.db").string() +
                            "'); sys.exit(sum(trial.state.name == 'PRUNED' for trial in study.trials))\"";
  EXPECT_EQ(WEXITSTATUS(std::system(count.c_str())), pruned);
}

TEST_F(SearchCommand, APrunerThatHasNothingToCompareIsRejected) {
  const auto error = [&](const std::string& text, const Words& more = {}) {
    const auto run = search(text + kSpace, more);
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  };
  const std::string optuna = "backend = 'optuna'\npruner = 'median'\npython = '" PARITY_PYTHON "'\n";
  EXPECT_THAT(error("pruner = 'median'\n"), HasSubstr("search.pruner is \"median\", and search.backend random has no "
                                                      "pruners: set search.backend to optuna or ray"));
  EXPECT_THAT(error("backend = 'optuna'\npruner = 'best'\n"),
              HasSubstr("it must be median or hyperband with search.backend = \"optuna\""));
  EXPECT_THAT(error(optuna + "objective = ['held_out_loss', 'seconds']\n"),
              HasSubstr("search.objective has 2 entries: pruners support one objective"));
  EXPECT_THAT(error(optuna + "objective = 'seconds'\n"), HasSubstr("which is known when a trial has ended"));
  EXPECT_THAT(error(optuna), HasSubstr("and eval.every 0: set it to a number of steps"));
}

TEST_F(SearchCommand, WithoutOptunaIsRejectedWithTheCommandThatInstallsIt) {
  const auto bare = folder_.write("python", std::string("#!/bin/sh\nexec ") + PARITY_PYTHON + " -I -S \"$@\"\n");
  fs::permissions(bare, fs::perms::owner_all);
  const auto rejected = search("backend = 'optuna'\npython = '" + bare.string() + "'\n" + kSpace);
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("search.backend is optuna: Python has no package optuna: "));
  EXPECT_THAT(rejected.output, HasSubstr(" -m pip install optuna"));
  EXPECT_FALSE(fs::exists(study()));
  const auto none = search(std::string("backend = 'optuna'\npython = '/no/such/python'\n") + kSpace);
  EXPECT_EQ(none.status, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("search.backend is optuna, which runs in Python: cannot start /no/such/python"));
}

TEST_F(SearchCommand, OfSeveralObjectivesEachThatIsNotBeatenIsAConfig) {
  const auto run = search(std::string("trials = 3\nobjective = ['held_out_loss', 'memory_peak']\n") + kSpace, {}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(study() / "pareto")) {
    ++files;
    EXPECT_EQ(modrun({"settings", entry.path().string()}).status, 0);
  }
  EXPECT_GT(files, 0);
  EXPECT_FALSE(fs::exists(study() / "best.toml"));
}

TEST_F(SearchCommand, GoesOnWhereItsTrialsHaveOtherShapes) {
  const std::string shapes = "[search.space]\nmodel.config.num_hidden_layers = { low = 1, high = 3 }\n";
  const Words saves = {"--set", "checkpoint.every=0", "--set", "train.steps=3"};
  ASSERT_EQ(search(shapes, with(saves, {"--trials", "2"}), 1).status, 0);
  const auto run = search(shapes, with(saves, {"--trials", "4", "--resume"}), 1);
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(trials().size(), 4u);
  const auto other = search(shapes, with(saves, {"--resume", "--set", "train.seed=9"}), 1);
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("objective or base config"));
}

TEST_F(SearchCommand, ATrialWhosePerplexityIsNoNumberHasFailed) {
  const auto run = search(
      "objective = 'perplexity'\nbackend = 'grid'\n[search.space]\noptim.lr = [1e-3, 30.0]\n"
      "train.steps = [1]\noptim.warmup_steps = [0]\noptim.max_grad_norm = [0]\n",
      {}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(trials().size(), 2u);
  EXPECT_EQ(trials()[1]["failure"], "the run has no finite value of perplexity");
}

TEST_F(SearchCommand, ValuesThatGoTogetherAreTakenThoughNoneGoesAlone) {
  const auto run = search("trials = 2\n[search.space]\noptim.schedule = ['wsd']\noptim.decay_steps = [3]\n", {}, 1);
  EXPECT_EQ(run.status, 0) << run.output;
}

TEST_F(SearchCommand, AnObjectiveThatNoTrialHasIsRejectedBeforeATrial) {
  const auto typo = search(std::string("objective = 'acuracy'\n") + kSpace);
  EXPECT_EQ(typo.status, 2) << typo.output;
  EXPECT_THAT(typo.output, HasSubstr("search.objective is acuracy, which no trial has: it may be samples_per_second, "
                                     "tokens_per_second, memory_peak, seconds, held_out_loss, perplexity"));
  const auto none = search(kSpace, {"--set", "data.held_out_every=0"});
  EXPECT_EQ(none.status, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("search.objective is held_out_loss, which no trial has, as no file is held out"));
  const auto base = search(kSpace, {"--set", "data.paths=['/nope']"});
  EXPECT_THAT(base.output, HasSubstr("modrun: /nope: No such file or directory"));
}

TEST_F(SearchCommand, ValuesThatCannotBeAreRejectedBeforeATrial) {
  const auto rejected = search("[search.space]\noptim.name = ['adamw', 'adam']\n");
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("search.space has optim.name = 'adam'"));
  EXPECT_THAT(rejected.output, HasSubstr("it must be one of adamw"));
  EXPECT_FALSE(fs::exists(study()));
}

}  // namespace
}  // namespace modular
