// SentencePiece models are read without Python, travel with the weights trained on their ids, and are rejected with an
// error if they are damaged or of a kind whose ids cannot be reproduced. rows_test.cc compares the ids with
// transformers.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SentencePieceModel : public PrepareCommand {
 protected:
  testing::Ended models(const Words& arguments) const {
    return testing::end_of_program(
        testing::start_program(with({PARITY_PYTHON, SENTENCEPIECE_MODELS}, arguments), folder_.path()));
  }

  /// The error of prepare for a folder with a file of that name and tokenizer_config.json.
  std::string error(const std::string& model, const std::string& name, const std::string& config) const {
    const fs::path folder = folder_.path() / "tok";
    fs::remove_all(folder);
    fs::create_directory(folder);
    fs::copy_file(made() / model, folder / name);
    folder_.write("tok/tokenizer_config.json", config);
    const auto run =
        prepare({folder_.write("a.txt", "x").string(), "--entry", "llama", "--tokenizer", folder.string()});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(fs::exists(out()));
    fs::remove_all(out() + ".partial");
    return run.output;
  }
};

TEST_F(SentencePieceModel, NeedsNoPythonAndTravelsFromTheDataIntoTheExportedFolder) {
  const auto data = prepare(
      {hard(), "--tokenizer", tokenizer("llama-model"), "--entry", "LlamaForCausalLM", "--python", "/no/such/python"});
  ASSERT_EQ(data.status, 0) << data.output;
  const std::string run = (folder_.path() / "run").string(), exported = (folder_.path() / "exported").string();
  Words training = {"train"};
  for (const std::string& setting :
       {"train.dir=" + run, "data.paths=['" + out() + "']", std::string("model.entry=LlamaForCausalLM"),
        std::string("data.format=tokens"), std::string("model.config.vocab_size=900"),
        std::string("model.config.hidden_size=32"), std::string("model.config.intermediate_size=48"),
        std::string("model.config.num_hidden_layers=1"), std::string("model.config.num_attention_heads=4"),
        std::string("train.batch_size=4"), std::string("train.steps=30"), std::string("train.seq_len=16"),
        std::string("optim.lr=0.01"), std::string("sample.python=/no/such/python"),
        std::string("sample.prompt=the fox"), std::string("sample.tokens=12"), std::string("sample.temperature=0")})
    training = with(training, {"--set", setting});
  const auto trained = modrun(training);
  ASSERT_EQ(trained.status, 0) << trained.output;
  ASSERT_EQ(modrun({"export", run + "/checkpoints", exported}).status, 0);
  for (const auto& [name, bytes] : get_files(tokenizer("llama-model"))) EXPECT_EQ(get_files(exported).at(name), bytes);
  const auto expected = reference({"greedy", exported, "the fox", "12"});
  const auto sampled = modrun({"sample", run, "--prompt", "the fox"});
  EXPECT_EQ(sampled.status, 0) << sampled.output;
  EXPECT_THAT(sampled.output, HasSubstr(nlohmann::json::parse(expected.last(0)).get<std::string>()));

  training = with(training, {"--set", "model.config.vocab_size=899", "--overwrite"});
  const auto rejected = modrun(training);
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("has ids up to 899, and model.config.vocab_size is 899: "));
}

TEST_F(SentencePieceModel, AFileAloneIsReadLikeLlamaTokenizer) {
  const auto run = prepare({hard(), "--tokenizer", (made() / "bare.model").string(), "--entry", "LlamaForCausalLM"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(get_files(out() + "/tokenizer"), ::testing::ElementsAre(::testing::Key("tokenizer.model")));
  const auto same = reference({"running", out(), out() + "/tokenizer", hard(), "text"});
  EXPECT_EQ(same.status, 0) << same.output;
}

TEST_F(SentencePieceModel, TokenizerJsonWinsUnlessTheModelIsNamed) {
  const fs::path both = folder_.path() / "both";
  fs::create_directory(both);
  fs::copy_file(tokenizer("byte-level") + "/tokenizer.json", both / "tokenizer.json");
  fs::copy_file(tokenizer("llama-model") + "/tokenizer.model", both / "tokenizer.model");
  for (const auto& [named, kept] : {std::pair(both, "tokenizer.json"), {both / "tokenizer.model", "tokenizer.model"}}) {
    const auto run = prepare({texts(".jsonl"), "--tokenizer", named.string(), "--entry", "LlamaForCausalLM"});
    ASSERT_EQ(run.status, 0) << run.output;
    const auto same = reference({"running", out(), out() + "/tokenizer", texts(".jsonl"), "text"});
    EXPECT_EQ(same.status, 0) << same.output;
    EXPECT_TRUE(fs::exists(out() + "/tokenizer/" + kept));
    EXPECT_EQ(fs::exists(out() + "/tokenizer/tokenizer.json"), named == both);
    fs::remove_all(out());
  }
}

TEST_F(SentencePieceModel, ADamagedFileIsRejectedWithoutACrash) {
  for (const std::string model : {"llama-model/tokenizer.model", "t5-model/spiece.model"}) {
    const auto run = models({"damaged", SENTENCEPIECE, tokenizer(model)});
    EXPECT_EQ(run.status, 0) << run.output;
  }
  folder_.write("empty/spiece.model", "");
  const auto run = prepare(
      {folder_.write("a.txt", "x").string(), "--entry", "llama", "--tokenizer", (folder_.path() / "empty").string()});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("spiece.model is not a SentencePiece model, or was cut off"));
}

TEST_F(SentencePieceModel, RejectsModelsWhoseIdsCannotBeReproduced) {
  EXPECT_THAT(error("words.model", "tokenizer.model", "{\"tokenizer_class\": \"LlamaTokenizer\"}"),
              HasSubstr("is not a BPE model, which LlamaTokenizer needs"));
  EXPECT_THAT(error("words.model", "tokenizer.model", "{}"), HasSubstr("does not follow from its name"));
  EXPECT_THAT(error("no-bytes.model", "tokenizer.model", "{}"), HasSubstr("does not fall back to bytes"));
  EXPECT_THAT(error("phrases.model", "spiece.model", "{}"), HasSubstr("has pieces of several words"));
  EXPECT_THAT(
      error("symbols.model", "spiece.model", "{\"extra_ids\": 1, \"additional_special_tokens\": [\"<extra_id_0>\"]}"),
      HasSubstr("lack the tokenizer's own \"modrun\""));
  EXPECT_THAT(error("t5-model/spiece.model", "spiece.model", "{\"additional_special_tokens\": [\"<a>\"]}"),
              HasSubstr("lack the tokenizer's own \"<extra_id_99>\""));
  EXPECT_THAT(
      error("llama-model/tokenizer.model", "tokenizer.model", "{\"tokenizer_class\": \"GemmaTokenizer\"}"),
      HasSubstr("is for GemmaTokenizer, and SentencePiece models are supported for LlamaTokenizer, T5Tokenizer, "));
  EXPECT_THAT(error("llama-model/tokenizer.model", "tokenizer.model", "{\"add_bos_token\": \"yes\"}"),
              HasSubstr("has a type that transformers does not write"));
  EXPECT_THAT(error("llama-model/tokenizer.model", "tokenizer.model", "{"),
              HasSubstr("tokenizer_config.json is not a JSON object"));
}

}  // namespace
}  // namespace modular
