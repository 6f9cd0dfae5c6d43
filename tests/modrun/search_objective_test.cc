// Trials evaluated by a command and by a function of a user's own program.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/modrun/search_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class SearchObjective : public SearchCommand {};

TEST_F(SearchObjective, CommandDecidesWhichTrialIsBest) {
  const auto run = search(
      std::string(
          "trials = 3\ndirection = 'maximize'\n"
          "objective_command = 'test -s $MODULAR_TRIAL_DIR/metrics.jsonl && echo judged && echo $MODULAR_TRIAL.5'\n") +
          kSpace,
      {}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  for (const json& one : trials()) EXPECT_EQ(one["values"]["command"], one["trial"].get<double>() + 0.5);
  EXPECT_THAT(run.output, HasSubstr("the best is trial 2: "));
}

TEST_F(SearchObjective, FailingCommandFailsTheTrialWithItsMessage) {
  const auto run =
      search(std::string(
                 "trials = 2\nobjective = ['val_loss', 'command']\ndirection = ['minimize', 'minimize']\n"
                 "objective_command = 'test $MODULAR_TRIAL = 1 || { echo no reference file >&2; exit 3; }; echo 8'\n") +
                 kSpace,
             {}, 1);
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(trials().size(), 2u);
  EXPECT_EQ(trials()[0]["failure"], "search.objective_command ended with status 3: no reference file");
  EXPECT_EQ(trials()[1]["values"]["command"], 8.0);
  EXPECT_TRUE(fs::exists(study() / "pareto/0001.toml"));
}

TEST_F(SearchObjective, SignalEndsTheCommandAndInterruptsTheTrial) {
  const fs::path mark = folder_.path() / "mark";
  const std::string text = "trials = 1\ndirection = 'minimize'\nobjective_command = 'test -e " + mark.string() +
                           " || { echo $$ > " + mark.string() + "; exec sleep 1000; }; echo 3'\n" + kSpace;
  const auto started = start(config(text));
  testing::await(started, [&] { return fs::exists(mark) && fs::file_size(mark) > 0; });
  const auto sleeping = static_cast<pid_t>(std::stol(get_bytes(mark)));
  ::kill(started.pid, SIGINT);
  const auto ended = testing::end_of_program(started);
  EXPECT_EQ(ended.status, 128 + SIGINT) << ended.output;
  EXPECT_NE(::kill(sleeping, 0), 0) << "the command still runs";
  EXPECT_TRUE(trials().empty());
  const auto run = search(text, {"--resume"});
  ASSERT_EQ(run.status, 0) << run.output;
  ASSERT_EQ(trials().size(), 1u);
  EXPECT_EQ(trials()[0]["values"]["command"], 3.0);
}

TEST_F(SearchObjective, UserFunctionIsAnObjective) {
  const auto of_hooked = [&](const std::string& text, const std::vector<std::string>& variables) {
    return testing::end_of_program(testing::start_program(
        {HOOKED_MODRUN, "search", config("trials = 2\nobjective = 'twice'\n" + text + kSpace).string(), "--set",
         "train.steps=3"},
        folder_.path(), with({"MODULAR_HOOKS=" + (folder_.path() / "hooks").string()}, variables)));
  };
  const auto failing = of_hooked("", {"MODULAR_OBJECTIVE_FAILS=1"});
  EXPECT_EQ(failing.status, 1) << failing.output;
  for (const json& one : trials()) EXPECT_EQ(one["failure"], "the objective has had enough");
  fs::remove_all(study());
  const auto run = of_hooked("", {});
  ASSERT_EQ(run.status, 0) << run.output;
  for (const json& one : trials())
    EXPECT_EQ(one["values"]["twice"], 2.0 * val_loss(trial_folder(one["trial"].get<int64_t>())));
  const json head =
      json::parse(get_bytes(study() / "trials.jsonl").substr(0, get_bytes(study() / "trials.jsonl").find('\n')));
  EXPECT_EQ(head["study"]["objectives"][0]["minimize"], false) << "as it was registered";
  EXPECT_THAT(search(std::string("objective = 'twice'\n") + kSpace).output,
              HasSubstr("search.objective is twice, which no trial has"))
      << "of a program that has not registered it";
}

TEST_F(SearchObjective, RejectsAPrunerForObjectivesAtTheEnd) {
  const auto run = search("backend = 'optuna'\npruner = 'median'\npython = '" PARITY_PYTHON
                          "'\ndirection = 'minimize'\nobjective_command = 'echo 1'\n" +
                          std::string(kSpace));
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output, HasSubstr("search.objective is command, which is only known after a trial"));
}

}  // namespace
}  // namespace modular
