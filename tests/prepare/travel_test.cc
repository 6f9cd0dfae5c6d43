// A tokenizer travels with its data into the run, with the run into the exported folder, which transformers uses, and
// back; with it a model continues texts.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class Travel : public PrepareCommand {
 protected:
  /// Prepares the tests' texts as `out`, and trains on them as `run`.
  void train(const std::string& kind, const Words& preparation, const Words& options) const {
    const auto data = prepare(with({texts(".jsonl"), "--tokenizer", tokenizer(kind)}, preparation));
    ASSERT_EQ(data.status, 0) << data.output;
    const auto run = modrun(training(options));
    ASSERT_EQ(run.status, 0) << run.output;
  }

  Words training(const Words& options) const {
    Words words = {"train"};
    for (const auto& setting :
         with({"train.dir=" + run_, "train.batch_size=4", "train.steps=5", "train.seq_len=16", "optim.lr=0.01",
               "sample.python=" + std::string(PARITY_PYTHON), "data.paths=['" + out() + "']",
               "model.config.hidden_size=32", "model.config.intermediate_size=48", "model.config.num_hidden_layers=2",
               "model.config.num_attention_heads=4"},
              options))
      words = with(words, {"--set", setting});
    return words;
  }

  const std::string run_ = (folder_.path() / "run").string(), exported_ = (folder_.path() / "exported").string();
};

const Words kClassifier = {"model.entry=BertForSequenceClassification", "data.format=examples",
                           "model.config.vocab_size=300", "model.config.num_labels=3"};
const Words kLanguageModel = {"model.entry=LlamaForCausalLM", "data.format=tokens", "model.config.vocab_size=400"};

TEST_F(Travel, AnExportedClassifierGivesTheScoresOfForwardInTransformers) {
  train("wordpiece", {"--entry", "BertForSequenceClassification", "--label", "label"}, kClassifier);
  const auto resumed = modrun({"train", run_, "--resume", "--set", "train.steps=7"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  const auto exported = modrun({"export", run_ + "/checkpoints", exported_});
  ASSERT_EQ(exported.status, 0) << exported.output;
  const std::string logits = (folder_.path() / "logits.safetensors").string();
  const auto forward =
      modrun({"forward", "--checkpoint", run_ + "/checkpoints", "--inputs", out() + "/part-00000.safetensors",
              "--outputs", logits, "--set", "model.entry=BertForSequenceClassification"});
  ASSERT_EQ(forward.status, 0) << forward.output;
  const auto same = reference({"pipeline", exported_, logits, texts(".jsonl"), "text"});
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_EQ(same.last(0), "{\"0\": \"neg\", \"1\": \"none\", \"2\": \"pos\"}");
}

TEST_F(Travel, TheFilesAreTheSameFromTheDataToAnImportedCheckpoint) {
  train("unigram", {"--entry", "BertForSequenceClassification", "--label", "label"}, kClassifier);
  const auto files = get_files(tokenizer("unigram"));
  const auto imported = folder_.path() / "imported", again = folder_.path() / "again";
  ASSERT_EQ(modrun({"export", run_ + "/checkpoints", exported_}).status, 0);
  ASSERT_EQ(modrun({"import", exported_, imported.string()}).status, 0);
  ASSERT_EQ(modrun({"export", imported.string(), again.string()}).status, 0);
  EXPECT_EQ(get_files(out() + "/tokenizer"), files);
  EXPECT_EQ(get_files(run_ + "/tokenizer"), files);
  auto with_class = files;
  with_class["config.json"] = "{\n  \"model_type\": \"bert\"\n}\n";  // by which transformers selects the class
  EXPECT_EQ(get_files(imported / "tokenizer"), with_class);
  for (const auto& [name, bytes] : files)
    for (const auto& folder : {fs::path(exported_), again}) EXPECT_EQ(get_files(folder).at(name), bytes) << name;
}

TEST_F(Travel, AModelContinuesAPromptLikeTransformersOnEveryMesh) {
  for (const std::string kind : {"byte-level", "byte-fallback"}) {
    const Words options = with(kLanguageModel, {"model.config.vocab_size=460", "train.steps=30"});
    train(kind, {"--entry", "LlamaForCausalLM"},
          with(options, {"sample.prompt=the quick", "sample.tokens=12", "sample.temperature=0"}));
    ASSERT_EQ(modrun({"export", run_ + "/checkpoints", exported_}).status, 0);
    fs::remove_all(out());  // the run has everything it needs
    const json expected = json::parse(reference({"greedy", exported_, "the quick", "12"}).last(0));
    for (const Words& launcher : {Words{}, Words{"--nproc-per-node", "2"}}) {
      const auto sampled = modrun(with(launcher, {"sample", run_, "--trust-folder", "--prompt", "the quick"}));
      EXPECT_EQ(sampled.status, 0) << sampled.output;
      EXPECT_THAT(sampled.output, HasSubstr(expected.get<std::string>()));
    }
    std::ifstream metrics(run_ + "/metrics.jsonl");
    std::string text;
    for (std::string line; std::getline(metrics, line);)
      if (const json event = json::parse(line); event.value("event", "") == "sample") text = event["text"];
    EXPECT_EQ(text, expected.get<std::string>()) << "at the run's end";
    fs::remove_all(run_), fs::remove_all(exported_);
  }
}

TEST_F(Travel, RejectsASampleWithoutATokenizer) {
  train("byte-level", {"--entry", "LlamaForCausalLM"}, kLanguageModel);
  fs::remove_all(out() + "/tokenizer"), fs::remove_all(run_ + "/tokenizer");
  const auto rejected = modrun({"sample", run_, "--prompt", "x"});
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output, HasSubstr("there is no tokenizer to write text with"));
  const auto named = modrun(
      {"sample", run_, "--trust-folder", "--prompt", "x", "--set", "model.tokenizer=" + tokenizer("byte-level")});
  EXPECT_EQ(named.status, 0) << named.output;
}

TEST_F(Travel, RejectsATokenizerWithMoreIdsThanTheModel) {
  ASSERT_EQ(prepare({texts(".jsonl"), "--tokenizer", tokenizer("byte-level"), "--entry", "LlamaForCausalLM"}).status,
            0);
  const auto run = modrun(training(with(kLanguageModel, {"model.config.vocab_size=399"})));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("has ids up to 399, and model.config.vocab_size is 399: "));
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(Travel, RejectsMoreLabelsThanTheModelHas) {
  const Words options = {"--tokenizer", tokenizer("wordpiece"), "--entry", "BertForSequenceClassification", "--label",
                         "label"};
  ASSERT_EQ(prepare(with({texts(".jsonl")}, options)).status, 0);
  const auto few = modrun(training(with(kClassifier, {"model.config.num_labels=2"})));
  EXPECT_EQ(few.status, 2);
  EXPECT_THAT(few.output, HasSubstr("labels.json names 3 labels, and model.config.num_labels is 2: set it to 3"));
  ASSERT_EQ(prepare(with({folder_.write("b.csv", "text,label\na,fourth\nb,neg\n").string()}, options), "other").status,
            0);
  const auto two = modrun(training(with(kClassifier, {"data.paths=['" + out() + "', '" + out("other") + "']"})));
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.output, HasSubstr("the sets of data name 4 labels, and model.config.num_labels is 3: set it to 4"));
}

TEST_F(Travel, TheCommandThatPreparePrintsTrains) {
  for (const Words& options :
       {Words{"--entry", "BertForMaskedLM"}, Words{"--entry", "LlamaForSequenceClassification", "--label", "label"}}) {
    fs::remove_all(out()), fs::remove_all(run_);
    const auto data = prepare(with({texts(".jsonl"), "--tokenizer", tokenizer("wordpiece")}, options));
    ASSERT_EQ(data.status, 0) << data.output;
    const std::string command = data.output.substr(data.output.rfind("modrun train") + 7);
    const auto run = testing::end_of_program(testing::start_program(
        {"sh", "-c",
         std::string(MODRUN) + " " + command.substr(0, command.find('\n')) +
             " --set train.steps=2 --set train.seq_len=16 --set model.config.hidden_size=32 --set "
             "model.config.intermediate_size=48 --set model.config.num_hidden_layers=1 --set "
             "model.config.num_attention_heads=4 --set train.dir=" +
             run_},
        folder_.path()));
    EXPECT_EQ(run.status, 0) << data.output << run.output;
  }
}

TEST_F(Travel, RejectsADataFolderThatLostAFile) {
  ASSERT_EQ(prepare({texts(".jsonl"), "--tokenizer", tokenizer("byte-level"), "--entry", "LlamaForCausalLM"}).status,
            0);
  fs::remove(out() + "/part-00001.tokens");
  const auto run = modrun(training(kLanguageModel));
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("part-00001.tokens: No such file or directory"));
}

}  // namespace
}  // namespace modular
