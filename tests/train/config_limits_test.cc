// Numbers of a run's config that computing with it must not stumble over.
#include <gtest/gtest.h>

#include "generated/llama.h"
#include "runtime/train/config.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

RunConfig read(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"model.entry=llama"};
  all.insert(all.end(), settings.begin(), settings.end());
  return read_run_config({}, all);
}

std::string refusal(const std::vector<std::string>& settings) {
  return message_of<ConfigError>([&] { read(settings); });
}

TEST(RunConfigLimits, SettingsOfTheModelAreHeldToWhatItsConfigJsonIs) {
  EXPECT_EQ(refusal({"model.config.num_key_value_heads=0"}),
            "--set model.config.num_key_value_heads=0: model.config: \"num_key_value_heads\" is 0: write at least 1");
  EXPECT_EQ(
      refusal({"model.config.num_hidden_layers=1000000"}),
      "--set model.config.num_hidden_layers=1000000: model.config: \"num_hidden_layers\" is 1000000: write at most "
      "2048");
}

TEST(RunConfigLimits, AxesWhoseProductHasMoreThan63BitsMakeMoreRanksThanTheJobHas) {
  const RunConfig config = read({"parallel.pp=4294967296", "parallel.tp=4294967296"});
  EXPECT_NE(message_of<ConfigError>([&] { config.mesh_shape(1); }).find("parallel.pp = 4294967296"), std::string::npos);
  const RunConfig batch = read({"parallel.dp_shard=1", "train.micro_batches=9223372036854775807"});
  EXPECT_NE(
      message_of<ConfigError>([&] { batch.batch_shape({.size = {1, 2, 1, 1, 1, 1}}, 0); }).find("train.batch_size"),
      std::string::npos);
}

TEST(RunConfigLimits, ATimeoutIsAYearAtMost) {
  EXPECT_EQ(
      refusal({"parallel.timeout_minutes=9223372036854775807"}),
      "--set parallel.timeout_minutes=9223372036854775807: parallel.timeout_minutes must be at most 525600, a year");
}

TEST(RunConfigLimits, IntegersThatNoDoubleHoldsAreNumbers) {
  EXPECT_EQ(read({"train.steps=9007199254740993"}).train.steps, 9007199254740993);
  EXPECT_EQ(read({"metrics.peak_tflops=9007199254740993"}).metrics.peak_tflops, 9007199254740992.0);
}

TEST(RunConfigLimits, PathsThatNoFileSystemTakesAreNamed) {
  EXPECT_EQ(refusal({"data.paths=['']"}).find("data.paths names \"\": "), 0u);
  EXPECT_EQ(refusal({"model.checkpoint=" + std::string(5000, 'x')}).find("model.checkpoint \"xxx"), 0u);
}

TEST(RunConfigLimits, ALongSettingIsShortened) {
  EXPECT_LT(refusal({"train.steps=" + std::string(100'000, 'x')}).size(), 3000u);
}

TEST(RunConfigLimits, ASettingIsAText) {
  EXPECT_NE(refusal({"train.dir=\xff"}).find("it is no text in UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace modular
