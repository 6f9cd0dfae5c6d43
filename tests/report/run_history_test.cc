// Reading a run's folder: repeated steps replace earlier ones, and errors name invalid lines.
#include "runtime/report/run_history.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "runtime/config/config.h"
#include "runtime/data/files.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string step(int64_t number, const std::string& loss) {
  return fmt::format("{{\"step\":{},\"loss\":{},\"seconds\":2.0,\"data_wait\":0.5}}\n", number, loss);
}

std::string start(int64_t number) {
  return fmt::format(
      "{{\"event\":\"start\",\"step\":{},\"ranks\":2,\"mesh\":\"dp_shard "
      "2\",\"parameters\":99,\"start_to_first_step\":3.0}}\n",
      number);
}

std::string evaluation(int64_t number, double loss) {
  return fmt::format(
      "{{\"event\":\"evaluation\",\"step\":{},\"val_loss\":{},\"targets\":8,\"metrics\":{{\"accuracy\":{}}}}}\n",
      number, loss, loss / 10);
}

class History : public testing::Test {
 protected:
  RunHistory read(const std::string& lines) const {
    folder_.write("metrics.jsonl", lines);
    return read_run_history(folder_.path());
  }

  std::string problem(const std::string& lines) const {
    try {
      read(lines);
    } catch (const DataError& error) {
      return error.what();
    }
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(History, ReadsRunsOfEarlierVersions) {
  folder_.write("config.toml", "[data]\nheld_out_every = 4\n");
  const RunHistory run =
      read(start(0) +
           R"({"event":"evaluation","step":1,"held_out_loss":2.5,"targets":8,"metrics":{"held_out_loss/web":3}})"
           "\n" +
           evaluation(2, 2.0));
  EXPECT_EQ(run.config.at("data.validation_every"), "4");
  ASSERT_EQ(run.evaluations.size(), 3u);
  EXPECT_EQ(run.evaluations[0].name, "val_loss");
  EXPECT_EQ(run.evaluations[0].values, (std::vector<double>{2.5, 2.0}));
  EXPECT_EQ(run.evaluations[1].name, "val_loss/web");
}

TEST_F(History, HasEveryNumberOfStepsAndEvaluations) {
  folder_.write("config.toml", "[optim]\nlr = 0.1\n[model]\nentry = 'llama'\n");
  const RunHistory run = read(start(0) + step(1, "4.5") + evaluation(1, 3.0) + step(2, "null") +
                              "{\"event\":\"sample\",\"step\":2,\"text\":\"abc\"}\n"
                              "{\"event\":\"end\",\"step\":2,\"seconds\":7.5,\"stopped_by\":\"SIGTERM\"}\n");
  ASSERT_EQ(run.steps.size(), 3u);
  EXPECT_EQ(run.steps[0].name, "loss");
  EXPECT_THAT(run.find_steps("loss")->steps, ElementsAre(1, 2));
  EXPECT_EQ(run.find_steps("loss")->values[0], 4.5);
  EXPECT_TRUE(std::isnan(run.find_steps("loss")->values[1])) << "null in JSON";
  ASSERT_EQ(run.evaluations.size(), 2u);
  EXPECT_EQ(run.evaluations[0].name, "val_loss");
  EXPECT_THAT(run.evaluations[0].values, ElementsAre(3.0));
  EXPECT_EQ(run.evaluations[1].name, "accuracy");
  EXPECT_THAT(run.evaluations[1].values, ElementsAre(0.3));
  EXPECT_EQ(run.samples.at(0).text, "abc");
  EXPECT_EQ(run.config.at("optim.lr"), "0.1");
  EXPECT_EQ(run.config.at("model.entry"), "'llama'");
  EXPECT_EQ(run.mesh, "dp_shard 2");
  EXPECT_EQ(run.parameters, 99);
  EXPECT_TRUE(run.has_ended);
  EXPECT_EQ(run.stopped_by, "SIGTERM");
  EXPECT_EQ(run.time.before_steps, 3.0);
  EXPECT_EQ(run.time.computing, 3.0);
  EXPECT_EQ(run.time.waiting, 1.0);
  EXPECT_EQ(run.time.between, 3.5) << "total time minus the steps";
  EXPECT_TRUE(run.events.empty());
}

TEST_F(History, StepsAndEvaluationsWithoutTargetsHaveNoLoss) {
  const RunHistory run = read(start(0) + step(1, "4.5") + evaluation(1, 3.0) +
                              "{\"step\":2,\"grad_norm\":0.0,\"seconds\":2.0,\"data_wait\":0.5}\n"
                              "{\"event\":\"evaluation\",\"step\":2,\"targets\":0}\n" +
                              step(3, "3.5"));
  EXPECT_THAT(run.find_steps("loss")->steps, ElementsAre(1, 3));
  EXPECT_THAT(run.find_steps("grad_norm")->steps, ElementsAre(2));
  EXPECT_THAT(run.evaluations[0].steps, ElementsAre(1));
  EXPECT_NE(problem(start(0) + "{\"event\":\"evaluation\",\"step\":2,\"targets\":8}\n"), "")
      << "with 8 targets a loss is required";
}

TEST_F(History, StepsAfterARollbackReplaceEarlierOnes) {
  const RunHistory run =
      read(start(0) + step(1, "1") + step(2, "2") + evaluation(2, 9.0) + step(3, "3") + evaluation(3, 8.0) +
           "{\"event\":\"rollback\",\"step\":1,\"failed_step\":4}\n" + step(2, "22") + evaluation(2, 7.0));
  EXPECT_THAT(run.find_steps("loss")->steps, ElementsAre(1, 2));
  EXPECT_THAT(run.find_steps("loss")->values, ElementsAre(1.0, 22.0));
  EXPECT_THAT(run.evaluations[0].steps, ElementsAre(2));
  EXPECT_THAT(run.evaluations[0].values, ElementsAre(7.0));
  ASSERT_EQ(run.events.size(), 1u);
  EXPECT_EQ(run.events[0].text, "rolled back to step 1 from step 4");
  EXPECT_EQ(run.time.computing, 6.0) << "sum over all four executed steps";
  EXPECT_FALSE(run.has_ended);
}

TEST_F(History, ARollbackRemovesStepsBeforeTheyAreRepeated) {
  const RunHistory run = read(start(0) + step(1, "1") + step(2, "2") + evaluation(2, 9.0) +
                              "{\"event\":\"rollback\",\"step\":1,\"failed_step\":3}\n");
  EXPECT_THAT(run.find_steps("loss")->steps, ElementsAre(1));
  EXPECT_TRUE(run.evaluations[0].steps.empty());
}

TEST_F(History, AResumedPartContinuesFromItsFirstStep) {
  const RunHistory run = read(start(0) + step(1, "1") + step(2, "2") + step(3, "3") +
                              "{\"event\":\"end\",\"step\":3,\"seconds\":6.0,\"stopped_by\":\"SIGINT\"}\n" + start(2) +
                              step(3, "33") + step(4, "44"));
  EXPECT_THAT(run.find_steps("loss")->values, ElementsAre(1.0, 2.0, 33.0, 44.0));
  ASSERT_EQ(run.events.size(), 1u);
  EXPECT_EQ(run.events[0].step, 2);
  EXPECT_EQ(run.events[0].text, "resumed after step 2 on dp_shard 2");
  EXPECT_FALSE(run.has_ended) << "the last part has not ended";
  EXPECT_EQ(run.stopped_by, "");
  EXPECT_EQ(run.time.before_steps, 6.0);
}

TEST_F(History, ResumingFromAnEarlierStepRemovesLaterSteps) {
  EXPECT_THAT(read(start(0) + step(1, "1") + step(2, "2") + start(1)).find_steps("loss")->steps, ElementsAre(1));
}

TEST_F(History, ARepeatedStepReplacesEarlierOnesWithoutARollback) {
  const RunHistory run = read(step(1, "1") + step(2, "2") + evaluation(2, 9.0) + step(2, "22"));
  EXPECT_THAT(run.find_steps("loss")->values, ElementsAre(1.0, 22.0));
  EXPECT_TRUE(run.evaluations[0].values.empty());
}

TEST_F(History, IgnoresAnIncompleteLastLine) {
  const std::string lines = step(1, "1") + step(2, "2");
  EXPECT_THAT(read(lines.substr(0, lines.size() - 9)).find_steps("loss")->values, ElementsAre(1.0));
  EXPECT_TRUE(read("").steps.empty());
}

TEST_F(History, ErrorsNameInvalidLines) {
  const std::string file = (folder_.path() / "metrics.jsonl").string();
  EXPECT_THAT(problem(step(1, "1") + "{\"step\":2,\"loss\n" + step(3, "3")),
              StartsWith(file + ":2: invalid line of a run's metrics (parse error"));
  EXPECT_THAT(problem(step(1, "'one'")), StartsWith(file + ":1: "));
  EXPECT_THAT(problem(step(1, "\"one\"")), HasSubstr(":1: invalid line of a run's metrics (loss is not a number)"));
  EXPECT_THAT(problem("[1]\n"), HasSubstr("(it is not an object)"));
  EXPECT_THAT(problem("\n"), HasSubstr(":1: "));
  EXPECT_THAT(problem("{\"loss\":1}\n"), HasSubstr("(it has no step)"));
  EXPECT_THAT(problem("{\"step\":-1}\n"), HasSubstr("(it has no step)"));
  EXPECT_THAT(problem("{\"step\":9223372036854775807}\n"), HasSubstr("(it has no step)"));
  EXPECT_THAT(problem("{\"step\":1,\"loss\":2}\n"), HasSubstr("(it has no seconds)"));
  EXPECT_THAT(problem("{\"event\":\"evaluation\",\"step\":1}\n"), HasSubstr("(it has no val_loss)"));
  EXPECT_THAT(problem("{\"event\":7,\"step\":1}\n"), HasSubstr("(event is not a string)"));
  EXPECT_THAT(problem(std::string(100000, '[') + "\n"), HasSubstr(":1: "));
}

TEST_F(History, NumbersKeepTheirOrderAndExcludeTheTrainingSetsName) {
  const RunHistory run = read(R"({"step":1,"loss":1,"grad_norm":2,"set":"web","seconds":3,"loss":4})"
                              "\n"
                              R"({"event":"evaluation","step":1,"val_loss":1,"metrics":{"ndcg":2,"accuracy":3}})"
                              "\n");
  const auto names = [](const std::vector<Series>& all) {
    std::vector<std::string> result;
    for (const Series& series : all) result.push_back(series.name);
    return result;
  };
  EXPECT_THAT(names(run.steps), ElementsAre("loss", "grad_norm", "seconds"));
  EXPECT_THAT(run.find_steps("loss")->values, ElementsAre(4.0)) << "the last of duplicate keys";
  EXPECT_THAT(names(run.evaluations), ElementsAre("val_loss", "ndcg", "accuracy"));
}

TEST_F(History, ReadsOrRejectsALineWithManyKeysInSeconds) {
  std::string keys;
  for (int key = 0; key < 300'000; ++key) keys += fmt::format(",\"{}\":1", key);
  EXPECT_TRUE(read("{\"event\":\"other\",\"step\":1" + keys + "}\n").steps.empty());
  EXPECT_THAT(problem("{\"step\":1" + keys + "}\n"),
              HasSubstr(":1: invalid line of a run's metrics (the run has more than 1000 distinct metric names)"));
}

TEST_F(History, ReadsSamplesThatAreRepeatedManyTimesInSeconds) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i)
    lines += "{\"event\":\"sample\",\"step\":1,\"text\":\"\"}\n{\"event\":\"rollback\",\"step\":1}\n";
  EXPECT_EQ(read(lines).samples.size(), 100'000u);
}

TEST_F(History, RejectsAConfigThatIsNotToml) {
  folder_.write("config.toml", "[optim]\nlr = \n");
  EXPECT_THAT([&] { read(step(1, "1")); },
              ::testing::ThrowsMessage<ConfigError>(StartsWith((folder_.path() / "config.toml").string() + ":2:6: ")));
}

}  // namespace
}  // namespace modular
