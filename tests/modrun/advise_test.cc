// modrun advise: what it prints, that the config which it writes trains, and what it refuses.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Advise : public ModrunTest {
 protected:
  Finished advise(std::vector<std::string> options) const {
    std::vector<std::string> arguments = {
        "advise", config_.string(), "--per-node", "2",    "--memory", "1GiB",
        "--link", "1GB/s",          "--flops",    "1e11", "--set",    "train.dir=" + run_folder("best").string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return modrun(arguments);
  }
};

TEST_F(Advise, WritesAConfigThatTrains) {
  const auto best = folder_.path() / "best.toml";
  const auto finished = advise({"--out", best.string(), "--cost", "2.5", "--top", "3"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("The model fits one device"));
  EXPECT_THAT(finished.output, HasSubstr("--nproc-per-node 2 train " + best.string()));
  const auto trained = modrun({"--nproc-per-node", "2", "train", best.string(), "--set", "train.steps=2"});
  EXPECT_EQ(trained.status, 0) << trained.output;
  EXPECT_EQ(steps("best").size(), 2U);
}

TEST_F(Advise, TellsTheConfigsOwnMesh) {
  const auto finished =
      advise({"--as-is", "--format", "json", "--set", "parallel.tp=2", "--set", "train.micro_batches=2"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto json = nlohmann::json::parse(finished.output);
  ASSERT_EQ(json["choices"].size(), 1U);
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["mesh"]["tp"], 2);
  EXPECT_EQ(choice["micro_batches"], 2);
  EXPECT_EQ(choice["rows"], 4.0);
  EXPECT_GT(choice["exchanged"]["tp"]["bytes"], 0.0);
  EXPECT_GT(choice["seconds"]["step"], choice["seconds"]["compute"]);
  const auto plan = nlohmann::json::parse(modrun({"plan", config_.string(), "--ranks", "2", "--format", "json", "--set",
                                                  "parallel.tp=2", "--set", "train.micro_batches=2"})
                                              .output);
  EXPECT_EQ(choice["memory"], plan["ranks"][0]["peak"]);
}

TEST_F(Advise, RefusesInOneSentence) {
  const auto refusal = [&](const std::vector<std::string>& options) {
    const auto finished = advise(options);
    EXPECT_EQ(finished.status, 2) << finished.output;
    EXPECT_THAT(finished.output, StartsWith("modrun: "));
    EXPECT_EQ(finished.output.find('\n'), finished.output.size() - 1) << finished.output;
    return finished.output;
  };
  EXPECT_THAT(refusal({"--nodes", "0"}), HasSubstr("--nodes is 0"));
  EXPECT_THAT(refusal({"--nodes", "2"}), HasSubstr("--between is not given"));
  EXPECT_THAT(refusal({"--nodes", "2", "--between", "25GB"}), HasSubstr("--between is \"25GB\": give a number"));
  EXPECT_THAT(refusal({"--set", "train.batch_size_per_rank=2"}), HasSubstr("train.batch_size_per_rank"));
  EXPECT_THAT(refusal({"--out", (folder_.path() / "missing" / "best.toml").string()}), HasSubstr("cannot be written"));
  const auto small = modrun(
      {"advise", config_.string(), "--per-node", "2", "--memory", "100KiB", "--link", "1GB/s", "--flops", "1e11"});
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.output, HasSubstr("nothing fits"));
}

}  // namespace
}  // namespace modular
