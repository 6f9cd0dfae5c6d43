#include "runtime/checkpoint/model_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "generated/llama.h"
#include "runtime/checkpoint/config_json.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using llama::LlamaConfig;
using nlohmann::json;

ModelConfig parse(const json& object) { return parse_config(object.dump(), "config.json"); }

LlamaConfig read_llama(json object) {
  object["model_type"] = "llama";
  return dynamic_cast<const ConfigOf<LlamaConfig>&>(*parse(object).config).value;
}

std::string error(json object) {
  if (!object.contains("model_type")) object["model_type"] = "llama";
  return get_message<ConfigError>([&] { parse(object); });
}

TEST(ModelConfig, MissingFieldsKeepTheFamilysDefaults) {
  const LlamaConfig config = read_llama({{"hidden_size", 64}, {"num_attention_heads", 4}, {"head_dim", nullptr}});
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.vocab_size, 32000);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
}

TEST(ModelConfig, FindsTheEntryByArchitectureOrModelType) {
  EXPECT_EQ(parse({{"architectures", {"LlamaForCausalLM"}}}).entry->architecture, "LlamaForCausalLM");
  EXPECT_EQ(parse({{"architectures", {"LlamaModel"}}, {"model_type", "llama"}}).entry->architecture,
            "LlamaForCausalLM");
  EXPECT_EQ(error({{"architectures", {"NoneForCausalLM"}}, {"model_type", "none"}})
                .find("config.json: \"architectures\" names \"NoneForCausalLM\" and \"model_type\" is \"none\": this "
                      "program has "),
            0);
}

TEST(ModelConfig, ReadsRopeParametersOfEveryRelease) {
  EXPECT_EQ(read_llama({{"rope_theta", 5e5}}).rope_parameters.rope_theta, 5e5);
  EXPECT_EQ(read_llama({{"rope_theta", 5e5}, {"rope_scaling", nullptr}}).rope_parameters.rope_type, "default");

  const auto old = read_llama({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}).rope_parameters;
  EXPECT_EQ(old.rope_type, "linear");
  EXPECT_EQ(old.factor, 2.0);
  EXPECT_EQ(old.rope_theta, 10000.0);

  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 8192}};
  const auto middle = read_llama({{"rope_theta", 500000}, {"rope_scaling", llama3}}).rope_parameters;
  EXPECT_EQ(middle.rope_theta, 500000.0);
  EXPECT_EQ(middle.original_max_position_embeddings, 8192);

  json united = llama3;
  united["rope_theta"] = 500000.0;
  EXPECT_EQ(read_llama({{"rope_parameters", united}}).rope_parameters.factor, 8.0);
  EXPECT_EQ(read_llama({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                        {"rope_scaling", {{"type", "linear"}, {"factor", 3.0}}}})
                .rope_parameters.factor,
            3.0);
}

TEST(ModelConfig, ReadsSpecialFloatingPointValues) {
  EXPECT_EQ(read_llama({{"rms_norm_eps", {{"__float__", "Infinity"}}}}).rms_norm_eps,
            std::numeric_limits<double>::infinity());
  const std::string python = R"({"model_type": "llama", "rms_norm_eps": Infinity, "of": "NaN, \"Infinity"})";
  const ModelConfig model = parse_config(python, "config.json");
  EXPECT_EQ(fields_as_json(*model.config)["rms_norm_eps"], json({{"__float__", "Infinity"}}));
  EXPECT_EQ(json::parse(model.other_keys), json({{"of", "NaN, \"Infinity"}}));
}

TEST(ModelConfig, AutoIsANumberDerivedFromOtherFields) {
  EXPECT_EQ(read_llama({{"hidden_size", 64}, {"num_attention_heads", 4}, {"head_dim", "auto"}}).head_dim, 16);
}

TEST(ModelConfig, UnknownKeysAreKeptAndReportedButMetadataIsNot) {
  const ModelConfig model = parse({{"model_type", "llama"},
                                   {"transformers_version", "4.31.0"},
                                   {"bos_token_id", 1},
                                   {"use_cache", true},
                                   {"torch_dtype", "bfloat16"},
                                   {"my_key", {1, 2}},
                                   {"rope_parameters", {{"rope_theta", 1e4}, {"my_setting", 7}}}});
  EXPECT_EQ(model.unknown_keys, (std::vector<std::string>{"my_key", "rope_parameters.my_setting"}));
  EXPECT_NE(unknown_keys_note(model).find("my_key, rope_parameters.my_setting"), std::string::npos);
  const json written = json::parse(format_config(model, "float32"));
  EXPECT_EQ(written["my_key"], json({1, 2}));
  EXPECT_EQ(written["bos_token_id"], 1);
  EXPECT_EQ(written["rope_parameters"]["my_setting"], 7);
  EXPECT_EQ(written["rope_parameters"]["rope_theta"], 1e4);
  EXPECT_EQ(written["dtype"], "float32");
  EXPECT_FALSE(written.contains("torch_dtype"));
  EXPECT_EQ(written["architectures"], json({"LlamaForCausalLM"}));
}

TEST(ModelConfig, RoundTrips) {
  const ModelConfig model = parse({{"model_type", "llama"},
                                   {"hidden_size", 64},
                                   {"num_attention_heads", 4},
                                   {"pad_token_id", nullptr},
                                   {"rms_norm_eps", 1e-5},
                                   {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}});
  const ModelConfig again = parse_config(format_config(model, "bfloat16"), "config.json");
  EXPECT_EQ(config_difference(model, again), "");
}

TEST(ModelConfig, ReportsWhichFieldDiffers) {
  const auto of_size = [](int64_t size) { return parse({{"model_type", "llama"}, {"hidden_size", size}}); };
  EXPECT_EQ(config_difference(of_size(64), of_size(128)), "its \"head_dim\" is 2 and the run's is 4");
}

TEST(ModelConfig, RejectsWrongTypesNamingKeyValueAndFix) {
  EXPECT_EQ(error({{"hidden_size", "64"}}), "config.json: \"hidden_size\" is \"64\": write an integer");
  EXPECT_EQ(error({{"hidden_size", 64.5}}), "config.json: \"hidden_size\" is 64.5: write an integer");
  EXPECT_EQ(error({{"rms_norm_eps", true}}), "config.json: \"rms_norm_eps\" is true: write a number");
  EXPECT_EQ(error({{"attention_bias", 1}}), "config.json: \"attention_bias\" is 1: write true or false");
  EXPECT_EQ(error({{"hidden_act", 3}}), "config.json: \"hidden_act\" is 3: write a string");
  EXPECT_EQ(error({{"rope_scaling", {{"rope_type", "linear"}, {"factor", "2"}}}}),
            "config.json: \"rope_parameters.factor\" is \"2\": write a number");
  EXPECT_EQ(error({{"rope_scaling", 2}}),
            "config.json: \"rope_scaling\" is 2: write an object with rope_type and rope_theta");
}

TEST(ModelConfig, TruncatesLongValuesAtACharacterBoundary) {
  const std::string name(54, 'x');
  EXPECT_EQ(error({{"architectures", {name + "ü" + name, 1}}}),
            "config.json: \"architectures\" is [\"" + name + "…: write a list with a model's name");
}

TEST(ModelConfig, RejectsWrongValues) {
  EXPECT_EQ(error({{"vocab_size", 0}}), "config.json: \"vocab_size\" is 0: write at least 1");
  EXPECT_EQ(error({{"num_key_value_heads", 0}}), "config.json: \"num_key_value_heads\" is 0: write at least 1");
  EXPECT_EQ(error({{"pad_token_id", 32000}}),
            "config.json: \"pad_token_id\" is 32000: write null or an id below vocab_size, 32000");
  EXPECT_NE(error({{"num_key_value_heads", 5}}).find("config.json: num_attention_heads must be a multiple"),
            std::string::npos);
  EXPECT_NE(error({{"hidden_act", "swash"}}).find("config.json: \"hidden_act\": unknown activation \"swash\""),
            std::string::npos);
  EXPECT_EQ(error({{"rope_scaling", {{"type", "linear"}}}}),
            "config.json: rope_parameters of rope_type \"linear\" need \"factor\": write it next to rope_type");
  EXPECT_EQ(error({{"rope_scaling", {{"type", "round"}, {"factor", 2}}}}),
            "config.json: rope_type is \"round\": write default, linear, dynamic, yarn, longrope or llama3");
  EXPECT_EQ(error({{"rope_scaling",
                    {{"type", "su"}, {"short_factor", {1.0}}, {"long_factor", std::vector<double>(64, 2.0)}}}}),
            "config.json: short_factor of rope_parameters has 1 numbers: write 64, one for each pair of a head's "
            "rotated features");
  EXPECT_NE(error({{"quantization_config", {{"bits", 4}}}}).find("use the unquantized checkpoint"), std::string::npos);
  EXPECT_NE(get_message<ConfigError>([] { parse_config("{", "config.json"); }).find("config.json is not JSON"),
            std::string::npos);
}

}  // namespace
}  // namespace modular
