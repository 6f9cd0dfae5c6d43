// The ids, masks, types and labels that prepare writes are those that transformers' AutoTokenizer gives for the same
// folder, for five kinds of tokenizers and each form of rows.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

class PreparedBy : public PrepareCommand, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string kind() const { return GetParam(); }

  void expect_as_transformers(const Words& arguments, const std::string& form, const std::string& source,
                              const Words& further) {
    std::filesystem::remove_all(out());
    const auto run = prepare(with({source, "--tokenizer", tokenizer(kind())}, arguments));
    ASSERT_EQ(run.status, 0) << run.output;
    const auto same = reference(with({form, out(), tokenizer(kind()), source}, further));
    EXPECT_EQ(same.status, 0) << same.output;
  }
};

TEST_P(PreparedBy, RunningTextIsAllDocumentsEachWithItsEnd) {
  for (const char* suffix : {".jsonl", ".csv", ".parquet"})
    expect_as_transformers({"--entry", "LlamaForCausalLM"}, "running", texts(suffix), {"text"});
}

TEST_P(PreparedBy, OneTextIsPaddedToTheLongestOfAll) {
  expect_as_transformers({"--entry", "BertForSequenceClassification", "--label", "label"}, "rows", texts(".jsonl"),
                         {"0", "text"});
}

TEST_P(PreparedBy, PairsAreEncodedTogetherAndTruncated) {
  expect_as_transformers(
      {"--entry", "BertForSequenceClassification", "--label", "class", "--text", "text,other", "--seq-len", "20"},
      "rows", texts(".csv"), {"20", "text", "other"});
}

TEST_P(PreparedBy, SeveralTextsOfARowAreEncodedEachByItselfWithAScore) {
  expect_as_transformers({"--entry", "BertModel", "--text", "text,other", "--label", "score"}, "texts-of-rows",
                         texts(".csv"), {"text", "other"});
}

TEST_P(PreparedBy, TargetTextsAreLabels) {
  expect_as_transformers({"--entry", "T5ForConditionalGeneration", "--label", "other"}, "targets", texts(".parquet"),
                         {"text", "other"});
}

TEST_P(PreparedBy, AWordsLabelIsThatOfItsFirstId) {
  std::string rows;
  for (int row = 0; row < 30; ++row)
    rows += "{\"tokens\": [\"Jumping\", \"fox\", \"東京\", \"x=" + std::to_string(row) +
            "\"], \"tags\": [\"O\", \"B\", \"" + (row % 2 ? "I" : "B") + "\", \"O\"]}\n";
  const auto source = folder_.write("words.jsonl", rows);
  expect_as_transformers({"--entry", "BertForTokenClassification", "--text", "tokens", "--label", "tags"}, "words",
                         source.string(), {"tokens", "tags"});
}

INSTANTIATE_TEST_SUITE_P(Kinds, PreparedBy,
                         ::testing::Values("byte-level", "wordpiece", "unigram", "byte-fallback", "word-level"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(PrepareCommand, ContinuationsAreLearnedAfterTheirPrompts) {
  for (const char* kind : {"byte-level", "unigram", "byte-fallback"}) {
    const auto run = prepare({texts(".jsonl"), "--tokenizer", tokenizer(kind), "--entry", "LlamaForCausalLM",
                              "--prompt", "other", "--text", "text"},
                             kind);
    ASSERT_EQ(run.status, 0) << run.output;
    const auto same = reference({"continuations", out(kind), tokenizer(kind), texts(".jsonl"), "other", "text"});
    EXPECT_EQ(same.status, 0) << same.output;
  }
}

TEST_F(PrepareCommand, LabelsThatAreNamesAreNumberedInTheirOrder) {
  const auto source = folder_.write("a.csv", "text,label\na,pos\nb,neg\nc,7\nd,pos\n");
  const auto run = prepare({source.string(), "--tokenizer", tokenizer("wordpiece"), "--entry",
                            "BertForSequenceClassification", "--label", "label"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(reference({"labels", out()}).last(0), "[2, 1, 0, 2]");
  EXPECT_EQ(nlohmann::json::parse(files_of(out()).at("labels.json")),
            nlohmann::json({{"7", 0}, {"neg", 1}, {"pos", 2}}));
  EXPECT_THAT(run.output, HasSubstr("--set model.config.num_labels=3"));
}

TEST_F(PrepareCommand, LabelsThatAreIntegersStay) {
  const auto source = folder_.write(
      "a.jsonl", "{\"text\":\"a\",\"label\":3}\n\n{\"text\":\"b\",\"label\":true}\r\n{\"text\":\"c\",\"label\":0}");
  const auto run = prepare({source.string(), "--tokenizer", tokenizer("wordpiece"), "--entry",
                            "BertForSequenceClassification", "--label", "label"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(reference({"labels", out()}).last(0), "[3, 1, 0]");
  EXPECT_FALSE(files_of(out()).contains("labels.json"));
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
