// modrun bench measures each strategy in separate jobs: the reported traffic matches the closed form, losses do not
// depend on the strategy, and strategies that cannot run are listed with the reason.
#include <gmock/gmock.h>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

class Bench : public ModrunTest {
 protected:
  Finished bench(const std::string& strategies, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"bench",        config_.string(),
                                          "--ranks",      "2",
                                          "--steps",      "3",
                                          "--rounds",     "1",
                                          "--strategies", strategies,
                                          "--set",        "train.dir=" + run_folder("none").string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return modrun(arguments, 300);
  }
};

/// The JSON after the progress lines.
nlohmann::json to_json_value(const Finished& finished) {
  const size_t begin = finished.output.find("[\n");
  EXPECT_NE(begin, std::string::npos) << finished.output;
  return nlohmann::json::parse(finished.output.substr(begin));
}

TEST_F(Bench, ReportsTrafficAndTheSameLossForEachStrategy) {
  const auto finished = bench("none,dp,ddp,zero1,zero2,fsdp,tp,cp,pp", {"--format", "json"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto rows = to_json_value(finished);
  ASSERT_EQ(rows.size(), 9U);
  // Table and head; two layers of attention 4 x 32 x 32, MLP 3 x 32 x 48 and two norms; the final norm.
  const double parameters = 2 * 256 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 48 + 2 * 32) + 32;
  for (const auto& row : rows) {
    SCOPED_TRACE(row.dump());
    EXPECT_GT(row.at("samples_per_second"), 0.0);
    EXPECT_GT(row.at("memory_bytes"), 1e7);
    EXPECT_NEAR(row.at("loss"), rows[0].at("loss"), 1e-5);
    const std::string strategy = row.at("strategy");
    // The loss and the targets, the squared norm, and the strategy's own traffic.
    if (strategy == "none") {
      EXPECT_EQ(row.at("collectives_per_step"), 0.0);
    } else if (strategy == "dp") {
      EXPECT_EQ(row.at("collectives_per_step"), 5.0);  // rows, parameters, losses, their gradients, gradients
      EXPECT_NEAR(row.at("bytes_per_step").get<double>(), 2 * parameters * 4, parameters * 4 * 0.05);
    } else if (strategy == "ddp" || strategy == "zero1" || strategy == "zero2") {
      EXPECT_NEAR(row.at("bytes_per_step").get<double>(), parameters * 4, parameters * 4 * 0.02);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(run_folder("none"))) << "a bench leaves no run behind";
}

TEST_F(Bench, ReportsStrategiesThatDoNotRun) {
  const auto finished = bench("none,tp", {"--set", "model.config.intermediate_size=47"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("| none |"));
  EXPECT_THAT(finished.output, HasSubstr("tp does not run: "));
  EXPECT_THAT(finished.output, HasSubstr("intermediate_size"));
}

TEST_F(Bench, QuotesLaunchLinesForAShell) {
  const std::string setting = "sample.prompt='it is \"so\" $HOME'";
  const auto finished = bench("none", {"--format", "json", "--set", setting});
  ASSERT_EQ(finished.status, 0) << finished.output;
  const std::string line = to_json_value(finished)[0].at("launch");
  const auto words = testing::end_of_program(testing::start_program(
      {"/bin/sh", "-c", "for word in " + line + "; do printf '%s\\n' \"$word\"; done"}, folder_.path()));
  EXPECT_THAT(words.output, HasSubstr("\n" + setting + "\n")) << line;
}

TEST_F(Bench, CountsBytesThatAStageReceives) {
  const auto finished = bench("pp", {"--format", "json", "--set", "train.micro_batches=4"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  // Each stage receives one message per micro-batch; both reduce the loss and the norm.
  EXPECT_EQ(to_json_value(finished)[0].at("collectives_per_step"), 4.0 + 2.0);
}

TEST_F(Bench, ContinuesAfterANonFiniteLoss) {
  const auto finished = bench("none", {"--set", "model.config.rms_norm_eps=-10"});
  EXPECT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("nan"));
}

TEST_F(Bench, RejectsAnUnknownStrategy) {
  const auto finished = bench("none,fsdp2");
  EXPECT_EQ(finished.status, 2);
  EXPECT_THAT(
      finished.output,
      HasSubstr("--strategies has unknown \"fsdp2\": choose from none, dp, ddp, zero1, zero2, fsdp, tp, cp, pp"));
}

}  // namespace
}  // namespace modular
