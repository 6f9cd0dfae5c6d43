// Ids, masks, types and labels of prepare equal those of transformers' AutoTokenizer for the same folder, for five
// kinds of tokenizers in tokenizer.json, six in SentencePiece models, and each form of rows.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

class PreparedBy : public PrepareCommand, public ::testing::WithParamInterface<const char*> {
 protected:
  /// Prepares `source`; reference.py compares the result with transformers.
  void add(const Words& arguments, const std::string& form, const std::string& source, const Words& further) {
    const std::string folder = form + std::to_string(checks_.size());
    const auto run = prepare(with({source, "--tokenizer", tokenizer(GetParam())}, arguments), folder);
    ASSERT_EQ(run.status, 0) << run.output;
    checks_.push_back(with({form, out(folder), tokenizer(GetParam()), source}, further));
  }

  nlohmann::json checks_ = nlohmann::json::array();
};

TEST_P(PreparedBy, EachFormOfRowsMatchesTransformers) {
  // All documents, each with its end-of-text id.
  for (const char* suffix : {".jsonl", ".csv", ".parquet"})
    add({"--entry", "LlamaForCausalLM"}, "running", texts(suffix), {"text"});
  // One text, padded to the longest one.
  add({"--entry", "BertForSequenceClassification", "--label", "label"}, "rows", texts(".jsonl"), {"0", "text"});
  // Pairs that are encoded together and truncated.
  add({"--entry", "BertForSequenceClassification", "--label", "class", "--text", "text,other", "--seq-len", "20"},
      "rows", texts(".csv"), {"20", "text", "other"});
  // Several texts, each encoded separately, with a score.
  add({"--entry", "BertModel", "--text", "text,other", "--label", "score"}, "texts-of-rows", texts(".csv"),
      {"text", "other"});
  // Target texts.
  add({"--entry", "T5ForConditionalGeneration", "--label", "other"}, "targets", texts(".parquet"), {"text", "other"});
  // Words; the label of a word is at its first id.
  std::string rows;
  for (int row = 0; row < 30; ++row)
    rows += "{\"tokens\": [\"Jumping\", \"fox\", \"東京\", \"x=" + std::to_string(row) +
            "\"], \"tags\": [\"O\", \"B\", \"" + (row % 2 ? "I" : "B") + "\", \"O\"]}\n";
  add({"--entry", "BertForTokenClassification", "--text", "tokens", "--label", "tags"}, "words",
      folder_.write("words.jsonl", rows).string(), {"tokens", "tags"});
  // Spaces, control characters, normalization forms, tokens within texts.
  add({"--entry", "LlamaForCausalLM"}, "running", hard(), {"text"});
  add({"--entry", "BertForSequenceClassification", "--label", "label", "--text", "text,other", "--seq-len", "20"},
      "rows", hard(), {"20", "text", "other"});
  const auto same = reference({"all", checks_.dump()});
  EXPECT_EQ(same.status, 0) << same.output;
}

std::string get_name(const ::testing::TestParamInfo<const char*>& kind) {
  std::string name = kind.param;
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, PreparedBy,
                         ::testing::Values("byte-level", "wordpiece", "unigram", "llama-model", "t5-model"), get_name);
INSTANTIATE_TEST_SUITE_P(Release, PreparedBy,
                         ::testing::Values("byte-fallback", "word-level", "llama-legacy", "llama-marks", "t5-few-marks",
                                           "xlm-roberta-model"),
                         get_name);

TEST_F(PrepareCommand, ContinuationsHaveLabelsOnlyAfterTheirPrompts) {
  for (const char* kind : {"byte-level", "unigram", "byte-fallback"}) {
    const auto run = prepare({texts(".jsonl"), "--tokenizer", tokenizer(kind), "--entry", "LlamaForCausalLM",
                              "--prompt", "other", "--text", "text"},
                             kind);
    ASSERT_EQ(run.status, 0) << run.output;
    const auto same = reference({"continuations", out(kind), tokenizer(kind), texts(".jsonl"), "other", "text"});
    EXPECT_EQ(same.status, 0) << same.output;
  }
}

TEST_F(PrepareCommand, LabelNamesAreNumberedInSortedOrder) {
  const auto source = folder_.write("a.csv", "text,label\na,pos\nb,neg\nc,7\nd,pos\n");
  const auto run = prepare({source.string(), "--tokenizer", tokenizer("wordpiece"), "--entry",
                            "BertForSequenceClassification", "--label", "label"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(reference({"labels", out()}).last(0), "[2, 1, 0, 2]");
  EXPECT_EQ(nlohmann::json::parse(get_files(out()).at("labels.json")),
            nlohmann::json({{"7", 0}, {"neg", 1}, {"pos", 2}}));
  EXPECT_THAT(run.output, HasSubstr("--set model.config.num_labels=3"));
}

TEST_F(PrepareCommand, IntegerLabelsStay) {
  const auto source = folder_.write(
      "a.jsonl", "{\"text\":\"a\",\"label\":3}\n\n{\"text\":\"b\",\"label\":true}\r\n{\"text\":\"c\",\"label\":0}");
  const auto run = prepare({source.string(), "--tokenizer", tokenizer("wordpiece"), "--entry",
                            "BertForSequenceClassification", "--label", "label"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(reference({"labels", out()}).last(0), "[3, 1, 0]");
  EXPECT_FALSE(get_files(out()).contains("labels.json"));
}

TEST_F(PrepareCommand, NumbersOutsideJsonAreReadLikePyarrow) {
  // pyarrow's names, also within texts and keys, and texts that it does not read as numbers.
  const std::vector<std::string> numbers = {"NaN", "-NaN", "Infinity",       "-Infinity",
                                            "Inf", "-Inf", "[1, NaN, -Inf]", "{\"a\": NaN}"};
  std::string rows, expected;
  for (const std::string& number : numbers) {
    const std::string text = "\"text\": \"NaN \\\"Inf\\\\ -Infinity " + std::to_string(rows.size()) + "\"";
    rows += "{\"score\": " + number + ", \"NaN\": \"\\\\\", " + text + "}\n";
    expected += "{" + text + "}\n";
  }
  const std::string source = folder_.write("a.jsonl", rows).string(),
                    same = folder_.write("b.jsonl", expected).string();
  const auto with_tokenizer = [&](const std::string& path, const std::string& name) {
    return prepare({path, "--tokenizer", tokenizer("byte-level"), "--entry", "LlamaForCausalLM"}, name);
  };
  for (const auto& [path, name] : {std::pair(source, "a"), {same, "b"}}) {
    const auto run = with_tokenizer(path, name);
    ASSERT_EQ(run.status, 0) << run.output;
  }
  EXPECT_EQ(get_files(out("a")).at("part-00000.tokens"), get_files(out("b")).at("part-00000.tokens"));
  const auto read = testing::end_of_program(
      testing::start_program({PARITY_PYTHON, "-c",
                              "import sys, pyarrow, pyarrow.json as json\n"
                              "for line in open(sys.argv[1], 'rb'): json.read_json(pyarrow.BufferReader(line))",
                              source},
                             folder_.path()));
  EXPECT_EQ(read.status, 0) << read.output;
  const auto label = prepare(
      {source, "--tokenizer", tokenizer("wordpiece"), "--entry", "BertForSequenceClassification", "--label", "score"});
  EXPECT_EQ(label.status, 2);
  EXPECT_THAT(label.output, HasSubstr("a.jsonl:1: \"score\" has NaN or an infinite number: leave the row out"));
  for (const std::string number : {"nan", "NAN", "+Inf", "NaNs", "-", "Infinit", "NaN NaN"}) {
    const auto rejected = with_tokenizer(
        folder_.write("c.jsonl", "{\"text\": \"x\"}\n{\"text\": \"x\", \"score\": " + number + "}\n").string(), "c");
    EXPECT_EQ(rejected.status, 2) << number;
    EXPECT_THAT(rejected.output, HasSubstr("c.jsonl:2 is not a JSON object: "));
  }
}

TEST_F(PrepareCommand, TextFilesAreADocumentEachOrALineEach) {
  folder_.write("texts/b.txt", "fox jumps\nover\n");
  folder_.write("texts/a.txt", "the quick\r\n\nbrown");
  folder_.write("texts/notes.md", "no text of the data");
  const std::string source = (folder_.path() / "texts").string();
  folder_.write("files.jsonl", "{\"text\":\"the quick\\r\\n\\nbrown\"}\n{\"text\":\"fox jumps\\nover\\n\"}\n");
  folder_.write("lines.jsonl",
                "{\"text\":\"the quick\"}\n{\"text\":\"brown\"}\n{\"text\":\"fox jumps\"}\n{\"text\":\"over\"}\n");
  for (const std::string documents : {"files", "lines"}) {
    const auto run = prepare(
        {source, "--tokenizer", tokenizer("byte-level"), "--entry", "LlamaForCausalLM", "--documents", documents},
        documents);
    ASSERT_EQ(run.status, 0) << run.output;
    const auto same = reference({"running", out(documents), tokenizer("byte-level"),
                                 (folder_.path() / (documents + ".jsonl")).string(), "text"});
    EXPECT_EQ(same.status, 0) << same.output;
  }
}

}  // namespace
}  // namespace modular
