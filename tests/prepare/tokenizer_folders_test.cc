// A folder's tokenizer gives the ids of transformers' AutoTokenizer, whatever its tokenizer_config.json, config.json,
// special_tokens_map.json and added_tokens.json contain, for all of transformers' classes.
#include "runtime/tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/model/config.h"
#include "tests/prepare/prepared.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json read(const fs::path& path) { return json::parse(std::ifstream(path)); }

template <class Number>
json by_text(const std::vector<Number>& values, const std::vector<int64_t>& lengths) {
  json texts = json::array();
  auto value = values.begin();
  for (const int64_t length : lengths) {
    texts.push_back(std::vector<Number>(value, value + length));
    value += length;
  }
  return texts;
}

json part(const json& values, size_t begin, size_t end) {
  return {values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end)};
}

class TokenizerFolders : public PrepareCommand {
 protected:
  static fs::path classes() { return made() / "classes"; }

  /// The parts of a folder's reference in which Tokenizer differs.
  static std::vector<std::string> differences(const std::string& name, const json& texts) {
    const json expected = read(classes() / (name + ".json"));
    Tokenizer tokenizer(classes() / name, PARITY_PYTHON);
    const EncodedTexts all = tokenizer.encode({.texts = texts});
    const EncodedTexts pairs =
        tokenizer.encode({.texts = part(texts, 0, 60), .pairs = part(texts, 60, 120), .wants_types = true});
    const EncodedTexts words = tokenizer.encode({.texts = expected.at("split"), .words = true});
    const EncodedTexts targets = tokenizer.encode({.texts = part(texts, 180, 240), .target = true});
    const auto id = [](const std::optional<int64_t>& value) { return value ? json(*value) : json(); };
    const json found = {{"ids", by_text(all.ids, all.lengths)},
                        {"pairs", by_text(pairs.ids, pairs.lengths)},
                        {"types", by_text(pairs.types, pairs.lengths)},
                        {"words", by_text(words.ids, words.lengths)},
                        {"targets", by_text(targets.ids, targets.lengths)},
                        {"padding", id(tokenizer.padding())},
                        {"end", id(tokenizer.end_of_text())},
                        {"mask", id(tokenizer.mask())},
                        {"pads_left", tokenizer.pads_left()},
                        {"gives_types", tokenizer.gives_types()},
                        {"vocabulary", tokenizer.vocabulary()}};
    std::vector<std::string> names;
    for (const auto& [key, value] : found.items())
      if (expected.at(key) != value) names.push_back(key);
    return names;
  }

  std::string error(const std::string& name, const json& config, const json& model = json()) const {
    const fs::path folder = folder_.path() / "tok";
    fs::remove_all(folder);
    fs::copy(classes() / name, folder);
    json changed = read(folder / "tokenizer_config.json");
    changed.update(config);
    std::ofstream(folder / "tokenizer_config.json") << changed;
    if (!model.is_null()) std::ofstream(folder / "config.json") << model;
    try {
      Tokenizer(folder, PARITY_PYTHON);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "it is read";
  }
};

TEST_F(TokenizerFolders, OfAllClassesGiveTheIdsOfAutoTokenizer) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(classes()))
    // One folder per class here; all folders are compared in one process.
    if (entry.is_directory() && entry.path().filename().string().find('-') == std::string::npos)
      names.push_back(entry.path().filename());
  ASSERT_GE(names.size(), 45);
  const json texts = read(classes() / "texts.json");
  ASSERT_EQ(texts.size(), 500);
  std::atomic<size_t> next = 0;
  std::vector<std::string> wrong(names.size());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread)
    threads.emplace_back([&] {
      for (size_t at; (at = next++) < names.size();) try {
          for (const std::string& difference : differences(names[at], texts)) wrong[at] += " " + difference;
        } catch (const std::exception& error) {
          wrong[at] = error.what();
        }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t at = 0; at < names.size(); ++at) EXPECT_EQ(wrong[at], "") << names[at];
  const auto same = testing::end_of_program(testing::start_program(
      {PARITY_PYTHON, TOKENIZER_FOLDERS, "same", classes().string(), TOKENIZER_SOURCES}, folder_.path()));
  EXPECT_EQ(same.status, 0) << same.output;
}

TEST_F(TokenizerFolders, PrepareWritesTheseIds) {
  const Words names = {"BertTokenizer-all",         "BertTokenizer-model-type", "BertTokenizer-older",
                       "GPT2Tokenizer-granite",     "LlamaTokenizer-phi3",      "RobertaTokenizer-prefix",
                       "XLMRobertaTokenizer-added", "T5Tokenizer-mt5"};
  std::string rows;
  for (const json& text : read(classes() / "texts.json")) rows += json{{"text", text}}.dump() + "\n";
  const std::string source = folder_.write("texts.jsonl", rows).string();
  json checks = json::array();
  for (const std::string& name : names) {
    const std::string tokenizer = (classes() / name).string();
    const auto run = prepare({source, "--tokenizer", tokenizer, "--entry", "LlamaForCausalLM"}, name);
    ASSERT_EQ(run.status, 0) << run.output;
    // Also the copy that travels with the data.
    for (const std::string& folder : {tokenizer, out(name) + "/tokenizer"})
      checks.push_back({"running", out(name), folder, source, "text"});
  }
  const auto same = reference({"all", checks.dump()});
  EXPECT_EQ(same.status, 0) << same.output;
}

TEST_F(TokenizerFolders, WithoutAClassIsReadTheSameNextToAModelOfAnotherTokenizer) {
  const fs::path from = folder_.path() / "from", to = folder_.path() / "to";
  for (const fs::path& folder : {from, to}) fs::create_directory(folder);
  json tokenizer = read(classes() / "BertTokenizer/tokenizer.json");
  tokenizer["normalizer"] = nullptr;  // which BertTokenizer would reject
  std::ofstream(from / "tokenizer.json") << tokenizer;
  copy_tokenizer(from, to);
  std::ofstream(to / "config.json") << json{{"model_type", "bert"}};
  const std::string text = "Brown FOX naïve ÉCOLE";
  const json ids = Tokenizer(from, PARITY_PYTHON).encode({.texts = {text}, .special = false}).ids;
  EXPECT_EQ(json(Tokenizer(to, PARITY_PYTHON).encode({.texts = {text}, .special = false}).ids), ids);
  EXPECT_EQ(json::parse(reference({"encode", to.string(), text}).last(0)), ids);
}

TEST_F(TokenizerFolders, UnsupportedOptionsAndClassesAreErrorsThatNameThem) {
  EXPECT_THAT(
      error("BertTokenizer", {{"do_lower_case", "yes"}}),
      HasSubstr("\"do_lower_case\" in tokenizer_config.json is \"yes\", and BertTokenizer takes true or false"));
  EXPECT_THAT(error("T5Tokenizer", {{"extra_ids", 2.5}}), HasSubstr("\"extra_ids\" in tokenizer_config.json is 2.5"));
  EXPECT_THAT(error("BertTokenizer", {{"cls_token", {{"content", "[CLS]"}}}}),
              HasSubstr("\"cls_token\" in tokenizer_config.json is {\"content\": \"[CLS]\"}, and must be a text, or "
                        "an object with \"__type\": \"AddedToken\""));
  EXPECT_THAT(error("BertTokenizer", {{"vocab", {{"a", 0}}}}),
              HasSubstr("\"vocab\" in tokenizer_config.json is not supported"));
  EXPECT_THAT(error("BertTokenizer", {{"padding_side", "both"}}),
              HasSubstr("\"padding_side\" in tokenizer_config.json is \"both\""));
  EXPECT_THAT(error("BertTokenizer", {{"added_tokens_decoder", {{"one", "[CLS]"}}}}),
              HasSubstr("\"added_tokens_decoder\" in tokenizer_config.json has {\"one\": \"[CLS]\"}"));
  EXPECT_THAT(error("BertTokenizer", {{"extra_special_tokens", 3}}),
              HasSubstr("\"extra_special_tokens\" in tokenizer_config.json is 3, and must be a list"));
  EXPECT_THAT(error("WhisperTokenizer", {{"language", "english"}}),
              HasSubstr("\"language\" in tokenizer_config.json is not supported"));
  for (const char* name : {"LayoutLMv3Tokenizer", "SiglipTokenizer", "BertJapaneseTokenizer"})
    EXPECT_THAT(error("BertTokenizer", {{"tokenizer_class", name}}),
                AllOf(HasSubstr("is of the class " + std::string(name) + ", which is not supported"),
                      HasSubstr("set \"tokenizer_class\" there to \"TokenizersBackend\"")));
  EXPECT_THAT(error("BertTokenizer",
                    {{"tokenizer_class", "MyTokenizer"}, {"auto_map", {{"AutoTokenizer", {"my.T", nullptr}}}}}),
              HasSubstr("\"auto_map\" in tokenizer_config.json names Python code of the folder, which is not run"));
  EXPECT_THAT(error("T5Tokenizer", {{"tokenizer_class", "MyTokenizer"}}), HasSubstr("it is read"));
  EXPECT_THAT(error("BertTokenizer", {{"tokenizer_class", nullptr}}, {{"model_type", "siglip"}}),
              HasSubstr("is of the class SiglipTokenizer"));
  EXPECT_THAT(
      error("BertTokenizer", {{"tokenizer_class", "T5Tokenizer"}}),
      HasSubstr("it is of the class T5Tokenizer, which cannot be built from tokenizer.json's WordPiece vocabulary"));
}

TEST_F(TokenizerFolders, ClassesAndModelTypesMatchTransformers) {
  const auto same = testing::end_of_program(
      testing::start_program({PARITY_PYTHON, TOKENIZER_FOLDERS, "classes", TOKENIZER_SOURCES}, folder_.path()));
  EXPECT_EQ(same.status, 0) << same.output;
}

}  // namespace
}  // namespace modular
