// What modules.json and its files say of an embedding, as older and newer releases of Sentence Transformers write them,
// and what of them is not supported.
#include "runtime/checkpoint/sentence_transformers.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

json module(const std::string& type, const std::string& path) {
  return {{"idx", 0}, {"name", "0"}, {"path", path}, {"type", type}};
}

const std::string kOlder = "sentence_transformers.models.";

class SentenceModules : public testing::Test {
 protected:
  SentenceModules() {
    modules_ = {module(kOlder + "Transformer", ""), module(kOlder + "Pooling", "1_Pooling")};
    write("1_Pooling/config.json", {{"word_embedding_dimension", 32}, {"pooling_mode_cls_token", true}});
  }

  void write(const std::string& name, const json& value) const {
    fs::create_directories((folder_.path() / name).parent_path());
    folder_.write(name, value.dump());
  }

  EmbeddingHeadConfig read() const {
    write("modules.json", modules_);
    return read_embedding_head(folder_.path()).value();
  }

  std::string pooling(const json& settings) const {
    write("1_Pooling/config.json", settings);
    return read().pooling;
  }

  std::string error() const {
    return get_message<ConfigError>([&] { read(); });
  }
  std::string error_of_pooling(const json& settings) const {
    return get_message<ConfigError>([&] { pooling(settings); });
  }
  /// With a Dense of these settings, which are complete without them.
  std::string error_of_dense(const json& settings) {
    json complete = {{"in_features", 32}, {"out_features", 8}};
    complete.update(settings);
    write("2_Dense/config.json", complete);
    modules_.push_back(module(kOlder + "Dense", "2_Dense"));
    const std::string found = error();
    modules_.erase(modules_.size() - 1);
    return found;
  }
  std::string error_with(const json& third) {
    modules_.push_back(third);
    const std::string found = error();
    modules_.erase(modules_.size() - 1);
    return found;
  }

  TemporaryFolder folder_;
  json modules_;
};

TEST_F(SentenceModules, PoolsAsTheSettingsOfEveryReleaseSay) {
  EXPECT_EQ(pooling({{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", false}}), "cls");
  EXPECT_EQ(pooling({{"pooling_mode_mean_tokens", true}, {"pooling_mode_max_tokens", true}}), "max+mean");
  EXPECT_EQ(pooling({{"pooling_mode_lasttoken", true}, {"pooling_mode_weightedmean_tokens", true}}),
            "weightedmean+lasttoken");
  EXPECT_EQ(pooling({{"pooling_mode_mean_tokens", false}}), "mean");
  EXPECT_EQ(pooling({{"pooling_mode", "lasttoken"}, {"embedding_dimension", 32}}), "lasttoken");
  EXPECT_EQ(pooling({{"pooling_mode", {"mean", "cls"}}, {"pooling_mode_max_tokens", true}}), "mean+cls");
  EXPECT_EQ(pooling({{"pooling_mode", {"mean_sqrt_len_tokens"}}, {"include_prompt", true}}), "mean_sqrt_len_tokens");
}

TEST_F(SentenceModules, LayersAreThoseThatModulesNameInTheirOrder) {
  EXPECT_THAT(read().embedding_layers, IsEmpty());
  write("head/config.json", {{"in_features", 32}, {"out_features", 8}});
  write("other/config.json", {{"in_features", 8},
                              {"out_features", 4},
                              {"bias", false},
                              {"activation_function", "torch.nn.modules.linear.Identity"}});
  modules_.push_back(module("sentence_transformers.base.modules.normalize.Normalize", "norm"));
  modules_.push_back(module("sentence_transformers.base.modules.dense.Dense", "head"));
  modules_.push_back(module(kOlder + "Dense", "other"));
  EXPECT_THAT(read().embedding_layers, ElementsAre("normalize", "dense 8 tanh", "dense 4 identity no-bias"));
  EXPECT_THAT(get_message<ConfigError>([&] { dense_weights(folder_.path()); }),
              HasSubstr("head/model.safetensors is not there: load the folder with Sentence Transformers and save it"));
  folder_.write("head/pytorch_model.bin", "");
  EXPECT_THAT(get_message<ConfigError>([&] { dense_weights(folder_.path()); }),
              HasSubstr("is not there, and pytorch_model.bin is not read: load the folder"));
}

// The library normalizes what is there: tokens before pooling, and the embedding after it.
TEST_F(SentenceModules, NormalizeAndDropoutAreReadByWhereTheyStand) {
  write("tokens/config.json", {{"module_input_name", "token_embeddings"}});
  write("drop/config.json", {{"dropout", 0.05}});
  const std::string normalize = kOlder + "Normalize", dropout = kOlder + "Dropout";
  modules_.insert(modules_.begin() + 1, module(normalize, "tokens"));
  modules_.insert(modules_.begin() + 1, module(normalize, "none"));
  modules_.insert(modules_.begin() + 1, module(normalize, "tokens"));
  modules_.push_back(module(normalize, "tokens"));
  modules_.push_back(module(dropout, "drop"));
  modules_.push_back(module(dropout, "usual"));
  modules_.push_back(module(normalize, "none"));
  EXPECT_THAT(read().embedding_layers, ElementsAre("normalize-tokens", "dropout 0.05", "dropout 0.2", "normalize"));
  EXPECT_TRUE(read().include_prompt);
  write("1_Pooling/config.json", {{"pooling_mode_cls_token", true}, {"include_prompt", false}});
  EXPECT_FALSE(read().include_prompt);
}

TEST_F(SentenceModules, AnOlderFolderIsReadWhereModulesSay) {
  write("0_BERT/config.json", {{"architectures", {"BertForMaskedLM"}}, {"model_type", "bert"}, {"hidden_size", 24}});
  modules_[0]["path"] = "0_BERT";
  write("modules.json", modules_);
  EXPECT_EQ(transformer_folder(folder_.path()), folder_.path() / "0_BERT");
  const ModelConfig model = read_config(folder_.path());
  EXPECT_EQ(model.entry->architecture, "BertModel");
  const json read = json::parse(format_config(model, "float32"));
  EXPECT_EQ(read["pooling"], "cls");
  EXPECT_EQ(read["hidden_size"], 24);

  const fs::path alone = folder_.path() / "0_BERT";
  EXPECT_EQ(read_config(alone).entry->architecture, "BertForMaskedLM");
  for (const fs::path& name : {alone, alone / ""})
    EXPECT_THAT(get_message<ConfigError>([&] { read_config(name, model.entry); }),
                HasSubstr("is the Transformer of " + folder_.path().string() + ", which says in modules.json"));
  // Other files of that name are none of its business.
  for (const json& other : {json::object(), json::array({1}), json::array({module("a.Transformer", "other")})}) {
    write("modules.json", other);
    EXPECT_EQ(read_config(alone, model.entry).entry->architecture, "BertModel");
  }
  modules_[0]["path"] = "gone";
  write("modules.json", modules_);
  EXPECT_THAT(get_message<ConfigError>([&] { read_config(folder_.path()); }),
              HasSubstr("gone/config.json cannot be read"));
}

TEST_F(SentenceModules, WhatIsNotSupportedIsAnErrorThatNamesItsFile) {
  for (const char* type : {"LayerNorm", "CNN", "LSTM", "WordEmbeddings", "Router", "StaticEmbedding",
                           "WeightedLayerPooling", "SpladePooling"})
    EXPECT_THAT(error_with(module(kOlder + type, "2_It")),
                HasSubstr(std::string("modules.json has the module \"") + type + "\" in 2_It, which is not supported"));
  EXPECT_THAT(error_with(module("custom_st.Transformer", "")),
              HasSubstr("modules.json has the module \"custom_st.Transformer\", which is not supported"));
  EXPECT_THAT(
      error_with(module(kOlder + "Pooling", "2_Pooling")),
      HasSubstr(
          "modules.json lists Transformer, Pooling, Pooling: a Transformer, then Normalize where wanted, a Pooling, "
          "and then"));
  EXPECT_THAT(error_with(module(kOlder + "Dense", "../elsewhere")),
              HasSubstr("names the path \"../elsewhere\" for a module: write one of the folder"));
  EXPECT_THAT(error_with({{"type", 3}}), HasSubstr("in which \"type\" is not a string"));

  EXPECT_THAT(error_of_pooling({{"include_prompt", 0}}),
              HasSubstr("1_Pooling/config.json: \"include_prompt\" is 0: write true or false"));
  EXPECT_THAT(error_of_pooling({{"pooling_mode", "first"}}),
              HasSubstr("\"pooling_mode\" is \"first\": write one of cls, max, mean"));
  EXPECT_THAT(error_of_pooling({{"pooling_mode", {3}}}), HasSubstr("\"pooling_mode\" is [3]"));
  EXPECT_THAT(error_of_pooling({{"pooling_mode_cls_token", 1}}), HasSubstr("is 1: write true or false"));
  EXPECT_THAT(error_of_pooling({{"pooling_mode_entropy", true}}),
              HasSubstr("\"pooling_mode_entropy\" is a way of pooling that is not known"));
  EXPECT_EQ(pooling({{"pooling_mode", "mean"}}), "mean");

  EXPECT_THAT(error_of_dense({{"activation_function", "my.Swiglu"}}),
              HasSubstr("2_Dense/config.json: \"activation_function\" is \"my.Swiglu\", which is not supported: write "
                        "one of torch.nn.modules.linear.Identity, "));
  EXPECT_THAT(error_of_dense({{"use_residual", true}}), HasSubstr("\"use_residual\" is true"));
  EXPECT_THAT(error_of_dense({{"module_input_name", "token_embeddings"}}), HasSubstr("\"module_input_name\""));
  EXPECT_THAT(error_of_dense({{"out_features", 0}}), HasSubstr("\"out_features\" is 0: write the size"));

  write("3_It/config.json", {{"dropout", 1.0}});
  EXPECT_THAT(error_with(module(kOlder + "Dropout", "3_It")),
              HasSubstr("3_It/config.json: \"dropout\" is 1.0: write a probability of at least 0 and less than 1"));
  write("3_It/config.json", {{"dropout", "0.1"}});
  EXPECT_THAT(error_with(module(kOlder + "Dropout", "3_It")), HasSubstr("\"dropout\" is \"0.1\""));
  write("3_It/config.json", {{"module_input_name", "cls_token_embeddings"}});
  EXPECT_THAT(error_with(module(kOlder + "Normalize", "3_It")),
              HasSubstr("3_It/config.json: \"module_input_name\" is \"cls_token_embeddings\""));
  write("3_It/config.json", {{"module_input_name", "token_embeddings"}, {"module_output_name", "sentence_embedding"}});
  EXPECT_THAT(error_with(module(kOlder + "Normalize", "3_It")),
              HasSubstr("\"module_output_name\" is \"sentence_embedding\", what normalization makes"));
  for (const char* type : {"Dense", "Dropout"}) {
    modules_.insert(modules_.begin() + 1, module(kOlder + type, "3_It"));
    EXPECT_THAT(error(),
                HasSubstr(std::string("modules.json lists Transformer, ") + type + ", Pooling: a Transformer"));
    modules_.erase(1);
  }
  modules_ = json::object();
  EXPECT_THAT(error(), HasSubstr("modules.json is not a JSON list"));
}

TEST_F(SentenceModules, AFolderThatEmbedsIsReadAsAnEntryForSentences) {
  write("config.json", {{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}});
  EXPECT_EQ(read_config(folder_.path()).entry->architecture, "Qwen3ForCausalLM");
  write("modules.json", modules_);
  const ModelConfig model = read_config(folder_.path());
  EXPECT_EQ(model.entry->architecture, "Qwen3Model");
  // A checkpoint's config says by itself what it embeds; a plain folder of a decoder's base model is a decoder.
  const std::string written = format_config(model, "float32");
  const ModelConfig again = parse_config(written, "config.json");
  EXPECT_EQ(again.entry->architecture, "Qwen3Model");
  EXPECT_EQ(json::parse(format_config(again, "float32"))["pooling"], "cls");
  EXPECT_EQ(parse_config(without_embedding_head(written), "config.json").entry->architecture, "Qwen3ForCausalLM");
  write("config.json", {{"architectures", {"BertModel"}}, {"model_type", "bert"}});
  EXPECT_EQ(json::parse(format_config(read_config(folder_.path()), "float32"))["pooling"], "cls");
}

TEST_F(SentenceModules, FieldsThatMakeNoEmbeddingAreErrors) {
  const auto get_error = [](json fields) {
    fields.update({{"architectures", {"BertModel"}}});
    return get_message<ConfigError>([&] { parse_config(fields.dump(), "config.json"); });
  };
  EXPECT_THAT(get_error({{"pooling", "first"}}), HasSubstr("pooling is \"first\": write one of cls, max, mean, "));
  EXPECT_THAT(get_error({{"pooling", "cls+"}}), HasSubstr("pooling is \"cls+\""));
  for (const char* layer : {"dense", "dense 0 tanh", "dense 8", "dense 8x tanh", "dense 8 softmax", "dense 8 tanh bias",
                            "normalise", "", "dense 99999999999999999999 tanh", "dropout", "dropout 1", "dropout -0.1",
                            "dropout 0.1x", "dropout nan", "normalize-tokens 2"})
    EXPECT_THAT(get_error({{"embedding_layers", {layer}}}),
                HasSubstr(std::string("embedding_layers has \"") + layer + "\": write \"normalize\", or \"dense\""));
  EXPECT_THAT(get_error({{"embedding_layers", {"normalize", "normalize-tokens"}}}),
              HasSubstr("embedding_layers has \"normalize-tokens\" after \"normalize\": write it first"));
  json pairs = {
      {"architectures", {"BertForSentencePairClassification"}}, {"model_type", "bert"}, {"pooling", "cls+max"}};
  EXPECT_THAT(get_message<ConfigError>([&] { parse_config(pairs.dump(), "config.json"); }),
              HasSubstr("produce embeddings of 1536 features, but the pair classifier needs 768"));
}

}  // namespace
}  // namespace modular
