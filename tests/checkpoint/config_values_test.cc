// Impossible values in config.json are rejected before a model is built.
#include "runtime/checkpoint/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "tests/data/temporary_folder.h"
#include "tests/generator/golden/config_ranges/generated/ranges.h"

namespace modular {
namespace {

using nlohmann::json;

ModelConfig parse(json object) {
  if (!object.contains("model_type")) object["model_type"] = "llama";
  return parse_config(object.dump(), "config.json");
}

std::string error(const json& object) {
  return get_message<ConfigError>([&] { parse(object); });
}

TEST(ConfigValues, RejectsImpossibleNumbers) {
  EXPECT_EQ(error({{"num_hidden_layers", 1'000'000}}),
            "config.json: \"num_hidden_layers\" is 1000000: write at most 2048");
  EXPECT_EQ(error({{"model_type", "gemma3_text"}, {"num_hidden_layers", int64_t{1} << 40}}),
            "config.json: \"num_hidden_layers\" is 1099511627776: write at most 2048");
  EXPECT_EQ(error({{"max_position_embeddings", INT64_MAX}}),
            "config.json: \"max_position_embeddings\" is 9223372036854775807: write a number from -2147483647 to "
            "2147483647");
  EXPECT_EQ(error({{"model_type", "gemma3_text"}, {"sliding_window_pattern", 0}}),
            "config.json: \"sliding_window_pattern\" is 0: write at least 1");
}

TEST(ConfigValues, RangesFollowFromUsesNotFromNames) {
  const auto of = [](const char* key, json value) {
    return error({{"model_type", "ranges"}, {key, std::move(value)}});
  };
  EXPECT_EQ(of("every", 0), "config.json: \"every\" is 0: write at least 1") << "a divisor";
  EXPECT_EQ(of("inner", 0), "config.json: \"inner\" is 0: write at least 1") << "a size, if it is given";
  EXPECT_EQ(of("depth", 2049), "config.json: \"depth\" is 2049: write at most 2048") << "a number of layers";
  EXPECT_EQ(of("mixtures", 2049), "config.json: \"mixtures\" is 2049: write at most 2048") << "a number of experts";
  EXPECT_EQ(of("table_sizes", {3, 0}), "config.json: \"table_sizes\" is 0: write at least 1");
  EXPECT_NO_THROW(parse({{"model_type", "ranges"}, {"type_vocab_size", 0}})) << "the table is left out";
  EXPECT_NO_THROW(parse({{"model_type", "ranges"}, {"num_unused", -1}}));
}

TEST(ConfigValues, RejectsIntegersOfMoreThan63Bits) {
  EXPECT_EQ(error({{"vocab_size", uint64_t{1} << 63}}),
            "config.json: \"vocab_size\" is 9223372036854775808: write an integer");
}

TEST(ConfigValues, RopeParametersAreFiniteAndTheHeadIsShort) {
  const json nan = {{"__float__", "NaN"}};
  EXPECT_EQ(error({{"rope_theta", nan}}), "config.json: \"rope_theta\" is nan: write a number above 0");
  EXPECT_NE(error({{"partial_rotary_factor", nan}}).find("\"partial_rotary_factor\" is nan"), std::string::npos);
  EXPECT_EQ(error({{"head_dim", 1 << 20}}), "config.json: \"head_dim\" is 1048576: write at most 65536");
  EXPECT_EQ(
      error({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 0}}}}),
      "config.json: \"original_max_position_embeddings\" is 0: write a number from 1 to 2147483647");
}

TEST(ConfigValues, SizesThatOverflowATensorAreErrorsThatNameTheFile) {
  const ModelConfig model = parse({{"hidden_size", 2048 * 1048575}, {"num_attention_heads", 1048575}});
  const auto message = get_message<ConfigError>([&] { model_parameters(model); });
  EXPECT_EQ(message.find("config.json: cannot build LlamaForCausalLM from its config: "), 0u) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace
}  // namespace modular
