// Objectives of a trial: from its run's metrics, from a registered function, and from a command.
#include "runtime/search/trial_values.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "runtime/model/config.h"
#include "runtime/search/own_objective.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;

std::vector<double> values(const std::filesystem::path& run, std::vector<Objective> objectives,
                           const std::string& command = "") {
  std::filesystem::create_directories(run / "logs");
  SearchConfig config;
  config.objectives = std::move(objectives);
  config.objective_command = command;
  return compute_trial_values(config, {.number = 7, .settings = {}, .failure = "", .values = {}}, run);
}

std::string failure(const std::filesystem::path& run, const std::string& command) {
  return get_message<std::runtime_error>([&] { values(run, {{"command"}}, command); });
}

TEST(Values, ComeFromTheEndEventAndTheLastEvaluation) {
  TemporaryFolder folder;
  folder.write(
      "metrics.jsonl",
      "{\"step\":1,\"loss\":9.0}\n"
      "{\"event\":\"evaluation\",\"step\":1,\"targets\":3,\"held_out_loss\":3.0,\"metrics\":{\"accuracy\":0.1}}\n"
      "{\"event\":\"evaluation\",\"step\":2,\"targets\":3,\"held_out_loss\":2.0,\"metrics\":{\"accuracy\":0.2}}\n"
      "{\"event\":\"end\",\"step\":2,\"samples\":30,\"seconds\":2.0,\"memory_peak\":77}\n");
  EXPECT_THAT(values(folder.path(), {{"held_out_loss"}, {"accuracy"}, {"memory_peak"}, {"samples_per_second"}}),
              ElementsAre(2.0, 0.2, 77.0, 15.0));
  EXPECT_EQ(get_message<std::runtime_error>([&] { values(folder.path(), {{"f1"}}); }),
            "the run has no finite value of f1");
}

TEST(Values, AccumulateOverThePartsOfARun) {
  TemporaryFolder folder;
  folder.write(
      "metrics.jsonl",
      "{\"event\":\"end\",\"step\":1,\"samples\":10,\"tokens\":40,\"seconds\":1.0,\"memory_peak\":90}\n"
      "{\"event\":\"evaluation\",\"step\":2,\"targets\":3,\"held_out_loss\":800.0,\"metrics\":{\"perplexity\":null}}\n"
      "{\"event\":\"end\",\"step\":2,\"samples\":30,\"tokens\":120,\"seconds\":3.0,\"memory_peak\":77}\n");
  EXPECT_THAT(values(folder.path(), {{"seconds"}, {"memory_peak"}, {"samples_per_second"}, {"tokens_per_second"}}),
              ElementsAre(4.0, 90.0, 10.0, 40.0));
  EXPECT_EQ(get_message<std::runtime_error>([&] { values(folder.path(), {{"perplexity"}}); }),
            "the run has no finite value of perplexity");
}

TEST(Values, OfACommandAreItsLastLine) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", "{\"event\":\"end\",\"step\":2,\"samples\":30,\"seconds\":2.0,\"memory_peak\":77}\n");
  EXPECT_THAT(
      values(folder.path(), {{"seconds"}, {"command"}}, "echo scores:; echo $MODULAR_TRIAL.25; echo; echo 9 >&2"),
      ElementsAre(2.0, 7.25));
  EXPECT_THAT(values(folder.path(), {{"command"}}, "wc -l < \"$MODULAR_TRIAL_DIR\"/metrics.jsonl"), ElementsAre(1.0));
}

TEST(Values, ReportTheErrorOfAFailedCommand) {
  const TemporaryFolder folder;
  EXPECT_EQ(failure(folder.path(), "echo 3; echo trace >&2; echo no such file >&2; exit 4"),
            "search.objective_command ended with status 4: no such file");
  EXPECT_EQ(failure(folder.path(), "kill -SEGV $$"), "search.objective_command was ended by SIGSEGV");
  EXPECT_EQ(failure(folder.path(), "echo 3; echo good"),
            "search.objective_command must print a finite number as its last line, but that is \"good\"");
  EXPECT_EQ(failure(folder.path(), "echo 3 apples"),
            "search.objective_command must print a finite number as its last line, but that is \"3 apples\"");
  EXPECT_EQ(failure(folder.path(), "echo nan"),
            "search.objective_command must print a finite number as its last line, but that is \"nan\"");
  EXPECT_EQ(failure(folder.path(), "true"),
            "search.objective_command must print a finite number as its last line, but printed nothing");
}

TEST(Values, ComeFromARegisteredFunctionOfNumbersAndFolder) {
  TemporaryFolder folder;
  folder.write("metrics.jsonl", "{\"event\":\"end\",\"step\":2,\"samples\":30,\"seconds\":2.0,\"memory_peak\":77}\n");
  folder.write("extra", "0.5");
  register_objective({.name = "own", .minimize = true, .value = [](const EndedRun& run) {
                        double extra = 0.0;
                        std::ifstream(run.folder / "extra") >> extra;
                        return run.numbers.at("seconds") + extra;
                      }});
  EXPECT_THAT(values(folder.path(), {{"own"}}), ElementsAre(2.5));
  register_objective({.name = "none", .minimize = true, .value = [](const EndedRun&) { return NAN; }});
  EXPECT_EQ(get_message<std::runtime_error>([&] { values(folder.path(), {{"none"}}); }),
            "the run has no finite value of none");
}

}  // namespace
}  // namespace modular
