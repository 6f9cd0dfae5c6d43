// Extreme numbers in a run's config.
#include <gtest/gtest.h>

#include <utility>

#include "runtime/config/config.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

RunConfig read(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"model.entry=llama"};
  all.insert(all.end(), settings.begin(), settings.end());
  return read_run_config({}, all);
}

std::string error(const std::vector<std::string>& settings) {
  return get_message<ConfigError>([&] { read(settings); });
}

TEST(RunConfigLimits, ModelOptionsHaveTheLimitsOfConfigJson) {
  EXPECT_EQ(error({"model.config.num_key_value_heads=0"}),
            "--set model.config.num_key_value_heads=0: model.config: \"num_key_value_heads\" is 0: write at least 1");
  EXPECT_EQ(
      error({"model.config.num_hidden_layers=1000000"}),
      "--set model.config.num_hidden_layers=1000000: model.config: \"num_hidden_layers\" is 1000000: write at most "
      "2048");
}

TEST(RunConfigLimits, AxesWhoseProductOverflowsMakeTooManyRanks) {
  const RunConfig config = read({"parallel.pp=4294967296", "parallel.tp=4294967296"});
  EXPECT_NE(get_message<ConfigError>([&] { config.parallel.mesh_shape(1); }).find("parallel.pp = 4294967296"),
            std::string::npos);
  const RunConfig batch = read({"parallel.dp_shard=1", "train.micro_batches=16777216"});
  EXPECT_NE(get_message<ConfigError>([&] { batch.batch_shape({.size = {1, 2, 1, 1, 1}}, 0); }).find("train.batch_size"),
            std::string::npos);
}

TEST(RunConfigLimits, RejectsNumbersWithWhichNoRunEnds) {
  for (const auto& [key, most] : {std::pair("train.steps", "9007199254740992"),
                                  {"train.batch_size", "16777216"},
                                  {"train.batch_size_per_rank", "16777216"},
                                  {"train.micro_batches", "16777216"},
                                  {"train.seq_len", "1073741824"},
                                  {"optim.ns_steps", "100"},
                                  {"parallel.dp_threads", "64"},
                                  {"parallel.prefetch", "1048576"},
                                  {"parallel.stages_per_rank", "2048"},
                                  {"parallel.timeout_minutes", "525600"},
                                  {"checkpoint.every_minutes", "525600"},
                                  {"eval.samples", "9007199254740992"},
                                  {"sample.tokens", "1048576"},
                                  {"sample.batch", "65536"}}) {
    const std::string setting = std::string(key) + "=9223372036854775807";
    EXPECT_EQ(error({setting}),
              "--set " + setting + ": " + key + " must be at most " + most + ", but is 9223372036854775807");
    read({"optim.name=muon", std::string(key) + "=" + most});
  }
  EXPECT_EQ(read({"train.steps=1099511627776"}).train.steps, int64_t{1} << 40);
}

TEST(RunConfigLimits, RejectsTemperaturesTooSmallToDivideBy) {
  for (const std::string value : {"1e-320", "9e-7", "inf"})
    EXPECT_NE(error({"sample.temperature=" + value}).find("sample.temperature must be 0, which"), std::string::npos);
  EXPECT_EQ(read({"sample.temperature=0"}).sample.temperature, 0.0);
  EXPECT_EQ(read({"sample.temperature=1e-6"}).sample.temperature, 1e-6);
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(RunConfigLimits, ReportsTheLineOfDeepToml) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& toml) {
    const auto file = folder.write("run.toml", toml);
    return get_message<ConfigError>([&] { read_run_config(file, {"model.entry=llama"}); });
  };
  const std::string expected = (folder.path() / "run.toml").string() + ":2: nests more than 100 levels deep";
  for (const std::string& deep :
       {repeated("a.", 40'000) + "a = 1", "[" + repeated("a . ", 40'000) + "a]", "a = " + repeated("[", 40'000),
        "a = " + repeated("{a.b = ", 40'000), repeated("\"a\".", 40'000) + "a = 1",
        "a = [0.5, " + repeated("[", 101) + repeated("]", 101) + "]"})
    EXPECT_EQ(message("[train]\n" + deep + "\n"), expected) << deep.substr(0, 20);
}

TEST(RunConfigLimits, DotsAndBracketsInStringsCommentsAndNumbersAreNotLevels) {
  const TemporaryFolder folder;
  const std::string dots = repeated(".[{", 200);
  const auto file =
      folder.write("run.toml", "# " + dots + "\n[model]\nentry = 'llama'\n[sample]\nprompt = \"\"\"\n\\\"" + dots +
                                   "\"\"\"\"\n[model.config.rope_parameters]\nlong_factor = [" +
                                   repeated("0.5, ", 200) + "]\n[train]\ndir = '" + dots + "'\n");
  const RunConfig config = read_run_config(file, {"sample.python=\"" + dots + "\""});
  EXPECT_EQ(config.sample.prompt, "\"" + dots + "\"");
  EXPECT_EQ(config.sample.python, dots);
  EXPECT_EQ(read({"sample.prompt=" + dots}).sample.prompt, dots) << "text as it was written";
}

TEST(RunConfigLimits, ReportsADeepOptionBriefly) {
  EXPECT_LT(error({repeated("a.", 40'000) + "a=1"}).size(), 3000u);
  EXPECT_NE(error({"data.sets={" + repeated("a.", 40'000) + "a=1}"}).find("data.sets must be a table of sets"),
            std::string::npos);
}

TEST(RunConfigLimits, DoesNotReadAFileThatIsNotAConfig) {
  const TemporaryFolder folder;
  const auto file = folder.write("run.toml", std::string((16U << 20U) + 1, '\n'));
  EXPECT_NE(get_message<ConfigError>([&] {
              read_run_config(file, {});
            }).find("run.toml has 16777217 bytes, more than the limit of 16777216"),
            std::string::npos);
}

TEST(RunConfigLimits, RejectsStringsWithNulCharacters) {
  const TemporaryFolder folder;
  for (const std::string key :
       {"train.dir", "data.paths", "model.checkpoint", "parallel.schedule", "data.sets.a.paths"}) {
    const auto file = folder.write("run.toml", "model.entry = 'llama'\n" + key + " = \"a\\u0000b\"\n");
    const std::string message = get_message<ConfigError>([&] { read_run_config(file, {}); });
    EXPECT_NE(message.find("run.toml:2:"), std::string::npos) << message;
    EXPECT_NE(message.find(key + " must be "), std::string::npos) << message;
    EXPECT_NE(message.find("a string without the character U+0000, but is the string \"a\\u0000b\""), std::string::npos)
        << message;
  }
}

TEST(RunConfigLimits, ModelConfigErrorsNameTheirOption) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("run.toml", "[model]\nentry = 'llama'\n[model.config]\nhidden_size = 32\nvocab_size = 256\n");
  const auto where = [&](const std::string& setting) {
    const std::string message = get_message<ConfigError>([&] { read_run_config(file, {setting}); });
    return message.substr(0, message.find(": model.config: "));
  };
  EXPECT_EQ(where("model.config.num_hidden_layers=1000000"), "--set model.config.num_hidden_layers=1000000");
  EXPECT_EQ(where("model.config.num_attention_heads=5"), "--set model.config.num_attention_heads=5");
  folder.write("run.toml", "[model]\nentry = 'llama'\n[model.config]\nvocab_size = 256\nnum_hidden_layers = 4000\n");
  EXPECT_EQ(where("model.config.hidden_size=32"), file.string() + ":5:1");
}

TEST(RunConfigLimits, AcceptsIntegersBeyondDoublePrecision) {
  EXPECT_EQ(read({"train.steps=9007199254740993"}).train.steps, 9007199254740993);
  EXPECT_EQ(read({"metrics.peak_tflops=9007199254740993"}).metrics.peak_tflops, 9007199254740992.0);
}

TEST(RunConfigLimits, ReportsPathsThatNoFileSystemAccepts) {
  EXPECT_EQ(error({"data.paths=['']"}).find("data.paths names \"\": "), 0u);
  EXPECT_EQ(error({"model.checkpoint=" + std::string(5000, 'x')}).find("model.checkpoint \"xxx"), 0u);
}

TEST(RunConfigLimits, ShortensALongOption) {
  EXPECT_LT(error({"train.steps=" + std::string(100'000, 'x')}).size(), 3000u);
}

TEST(RunConfigLimits, OptionsMustBeUtf8) {
  EXPECT_NE(error({"train.dir=\xff"}).find("it is not valid UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace modular
