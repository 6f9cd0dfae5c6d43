// Configs within configs, in config.json and back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "generated/llava.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using llava::LlavaConfig;
using nlohmann::json;

ModelConfig parse(json object) {
  object["model_type"] = "llava";
  return parse_config(object.dump(), "config.json");
}

LlavaConfig read_llava(const json& object) {
  return dynamic_cast<const ConfigOf<LlavaConfig>&>(*parse(object).config).value;
}

std::string error(const json& object) {
  return get_message<ConfigError>([&] { parse(object); });
}

TEST(NestedConfig, WhatIsNotGivenAtAllHasTheOutersDefaults) {
  for (const json& given : {json::object(), json{{"vision_config", nullptr}}}) {
    const LlavaConfig config = read_llava(given);
    EXPECT_EQ(config.vision_config.hidden_size, 1024);
    EXPECT_EQ(config.text_config.hidden_size, 4096);
    EXPECT_EQ(config.text_config.head_dim, 128);
  }
}

TEST(NestedConfig, APartThatIsGivenHasItsOwnTypesDefaults) {
  const LlavaConfig config = read_llava({{"vision_config", {{"image_size", 112}}}});
  EXPECT_EQ(config.vision_config.image_size, 112);
  EXPECT_EQ(config.vision_config.hidden_size, 768);
}

TEST(NestedConfig, TheFirstReleasesKeyWinsWithAllThatItImplies) {
  const LlavaConfig config = read_llava(
      {{"text_config", {{"hidden_size", 64}, {"vocab_size", 99}}}, {"text_config_dict", {{"hidden_size", 256}}}});
  EXPECT_EQ(config.text_config.hidden_size, 256);
  EXPECT_EQ(config.text_config.vocab_size, 32000);
}

TEST(NestedConfig, RotarySettingsAreReadInsideToo) {
  EXPECT_EQ(read_llava({{"text_config", {{"rope_theta", 5e5}}}}).text_config.rope_parameters.rope_theta, 5e5);
}

TEST(NestedConfig, UnknownKeysAreNamedWithTheirPlaceAndKept) {
  const json given = {{"text_config", {{"swing", 1}, {"_name_or_path", "x"}, {"torch_dtype", "float16"}}},
                      {"ignore_index", -100}};
  const ModelConfig model = parse(given);
  EXPECT_EQ(model.unknown_keys, (std::vector<std::string>{"ignore_index", "text_config.swing"}));
  const json written = json::parse(format_config(model, "float32"));
  EXPECT_EQ(written["text_config"]["swing"], 1);
  EXPECT_EQ(written["text_config"]["hidden_size"], 4096);
  EXPECT_EQ(written["text_config"]["dtype"], "float32");
  EXPECT_FALSE(written["text_config"].contains("torch_dtype"));
}

TEST(NestedConfig, WhatIsWrittenReadsAsTheSameConfig) {
  const ModelConfig model = parse({{"vision_config", {{"hidden_size", 96}}}, {"image_token_id", 7}});
  const ModelConfig again = parse_config(format_config(model, "float32"), "config.json");
  EXPECT_EQ(config_difference(model, again), "");
  EXPECT_EQ(dynamic_cast<const ConfigOf<LlavaConfig>&>(*again.config).value.image_token_index, 7);
}

TEST(NestedConfig, IntegersAreNamedByTheirPath) {
  const ConfigIntegers integers = config_integers(*parse(json::object()).config);
  EXPECT_EQ(integers.find("vision_config.hidden_size")->second, 1024);
  EXPECT_EQ(integers.find("hidden_size"), integers.end());
}

TEST(NestedConfig, ErrorsNameThePlace) {
  EXPECT_EQ(error({{"text_config", {{"hidden_size", 0}}}}),
            "config.json: text_config: \"hidden_size\" is 0: write at least 1");
  EXPECT_EQ(error({{"text_config", {{"hidden_size", "wide"}}}}),
            "config.json: text_config: \"hidden_size\" is \"wide\": write an integer");
  EXPECT_EQ(error({{"text_config", 3}}), "config.json: \"text_config\" is 3: write an object, the config of that part");
  EXPECT_NE(error({{"vision_config", {{"hidden_act", "swoosh"}}}}).find("config.json: vision_config: \"hidden_act\""),
            std::string::npos);
  EXPECT_NE(error({{"text_config", {{"quantization_config", {{"bits", 4}}}}}}).find("config.json: text_config: "),
            std::string::npos);
}

TEST(NestedConfig, OtherTowersAreRejected) {
  EXPECT_EQ(error({{"vision_config", {{"model_type", "siglip_vision_model"}}}}),
            "config.json: vision_config: model_type is siglip_vision_model, and only clip_vision_model is supported as "
            "the vision tower");
  EXPECT_EQ(error({{"text_config", {{"model_type", "mistral"}}}}),
            "config.json: text_config: model_type is mistral, and only llama is supported as the language model");
}

}  // namespace
}  // namespace modular
