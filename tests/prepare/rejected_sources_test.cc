// Errors of prepare for unsupported sources name the location and the fix; nothing is published.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Rejected : public PrepareCommand {
 protected:
  /// The error for a source with that name.
  std::string error(const std::string& name, const std::string& text, const Words& more = {},
                    const std::string& entry = "BertForSequenceClassification") const {
    return find_error(
        with({folder_.write(name, text).string(), "--tokenizer", tokenizer("wordpiece"), "--entry", entry}, more));
  }

  std::string find_error(const Words& arguments) const {
    const auto run = prepare(arguments);
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(std::filesystem::exists(out()));
    std::filesystem::remove_all(out() + ".partial");
    return run.output;
  }
};

const Words kLabel = {"--label", "label"};

TEST_F(Rejected, AMissingColumn) {
  EXPECT_THAT(error("a.csv", "txt,label\nx,1\n", kLabel), HasSubstr("a.csv has no column \"text\": it has txt, label"));
  EXPECT_THAT(error("a.jsonl", "{\"text\":\"x\",\"label\":1}\n{\"label\":1,\"txt\":\"\"}\n", kLabel),
              HasSubstr("a.jsonl:2 has no column \"text\": it has label, txt"));
  EXPECT_THAT(error("a.txt", "x", kLabel), HasSubstr("a.txt has no column \"label\": it has text"));
}

TEST_F(Rejected, ALineThatIsNotJson) {
  std::string text;
  for (int line = 0; line < 400; ++line) text += "{\"text\":\"some text\",\"label\":1}\n";
  EXPECT_THAT(error("a.jsonl", text + "{\"text\": oops}\n", kLabel), HasSubstr("a.jsonl:401 is not a JSON object: "));
  EXPECT_THAT(error("a.jsonl", text + "[1]\n" + text, kLabel), HasSubstr("a.jsonl:401 is not a JSON object"));
}

TEST_F(Rejected, TheFirstErrorIsReportedWhateverTheJobs) {
  std::string text;
  for (int line = 0; line < 4000; ++line)
    text += line % 1000 == 700 ? "oops\n" : "{\"text\":\"some text\",\"label\":1}\n";
  for (const char* jobs : {"1", "4"})
    EXPECT_THAT(error("a.jsonl", text, {"--label", "label", "--jobs", jobs}), HasSubstr("a.jsonl:701 is"));
}

TEST_F(Rejected, AMissingOrInvalidLabel) {
  EXPECT_THAT(error("a.csv", "text,label\nx,1\ny,\n", kLabel), HasSubstr("a.csv:3: its label, \"label\", is missing"));
  EXPECT_THAT(error("a.jsonl", "{\"text\":\"x\",\"label\":null}\n", kLabel),
              HasSubstr("a.jsonl:1: its label, \"label\", is missing"));
  EXPECT_THAT(error("a.jsonl", "{\"text\":\"x\",\"label\":0.5}\n", kLabel),
              HasSubstr("is 0.5: write an integer or a name"));
  EXPECT_THAT(error("a.csv", "text,label\nx,1\n"), HasSubstr("name the column of its labels with --label"));
}

TEST_F(Rejected, AValueThatIsNotAText) {
  EXPECT_THAT(error("a.jsonl", "{\"text\":5,\"label\":1}\n", kLabel),
              HasSubstr("a.jsonl:1: \"text\" is 5, which is not a text"));
  EXPECT_THAT(error("a.csv", "text,label\n\xFF,1\n", kLabel), HasSubstr("a.csv:2: \"text\" is not valid UTF-8"));
  EXPECT_THAT(error("a.jsonl", "{\"text\":\"x\",\"label\":1}\n", kLabel, "BertForTokenClassification"),
              HasSubstr("\"text\" is \"x\": write a list of words"));
}

TEST_F(Rejected, ATokenizerWithMoreIdsThanTheModel) {
  EXPECT_THAT(error("a.txt", "x", {"--set", "model.config.vocab_size=100"}, "LlamaForCausalLM"),
              AllOf(HasSubstr("has ids up to "), HasSubstr("and LlamaForCausalLM reads ids below 100: ")));
}

TEST_F(Rejected, RowsLongerThanTheModelsPositions) {
  const Words more = {"--label", "label", "--set", "model.config.max_position_embeddings=8"};
  EXPECT_THAT(error("a.csv", "text,label\nthe,1\nthe the the the the the the,1\n", more),
              HasSubstr("a.csv:3: has 9 ids, and the model has positions for 8: add --seq-len 8 to truncate"));
  EXPECT_THAT(error("a.csv", "text,label\nthe,1\n", with(more, {"--seq-len", "9"})), HasSubstr("has positions for 8"));
}

TEST_F(Rejected, OptionsThatTheTaskDoesNotRead) {
  EXPECT_THAT(error("a.txt", "x", {}, "ViTForImageClassification"),
              HasSubstr("which cannot be trained on texts alone"));
  EXPECT_THAT(error("a.txt", "x", {"--text", "a,b"}, "LlamaForCausalLM"), HasSubstr("--text names 2 columns"));
  EXPECT_THAT(error("a.txt", "x", {"--seq-len", "8"}, "LlamaForCausalLM"),
              HasSubstr("--seq-len is the length of examples"));
  EXPECT_THAT(error("a.txt", "x", {"--prompt", "a"}, "BertForMaskedLM"), HasSubstr("leave --prompt out"));
}

TEST_F(Rejected, AFolderThatHoldsSomethingElse) {
  folder_.write("out/mine.txt", "keep");
  const auto run =
      prepare({folder_.write("a.txt", "x").string(), "--tokenizer", tokenizer("wordpiece"), "--entry", "llama"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("out exists already and is not prepared data: name a new folder"));
  EXPECT_EQ(get_files(out()), (std::map<std::string, std::string>{{"mine.txt", "keep"}}));
}

TEST_F(Rejected, MissingSourcesAndUnknownKinds) {
  const Words more = {"--tokenizer", tokenizer("wordpiece"), "--entry", "llama"};
  EXPECT_THAT(find_error(with({"/no/such/file"}, more)), HasSubstr("/no/such/file does not exist"));
  EXPECT_THAT(error("a.docx", "x", {}, "llama"), HasSubstr("has none of the extensions .txt, .jsonl, .csv, .parquet"));
  EXPECT_THAT(error("a.jsonl", "\n", {}, "llama"), HasSubstr("the sources have no rows"));
}

TEST_F(Rejected, APythonWithoutThePackages) {
  const auto bare = folder_.path() / "bare";
  const auto made = testing::end_of_program(
      testing::start_program({PARITY_PYTHON, "-m", "venv", "--without-pip", bare.string()}, folder_.path()));
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string python = (bare / "bin/python3").string();
  EXPECT_THAT(error("a.txt", "x", {"--python", python}, "llama"),
              AllOf(HasSubstr("Python has no package tokenizers: "), HasSubstr(" -m pip install tokenizers")));
  EXPECT_THAT(error("a.parquet", "x", {"--python", python}, "llama"), HasSubstr(" -m pip install pyarrow"));
  EXPECT_THAT(error("a.parquet", "no Parquet", {}, "llama"), HasSubstr("a.parquet cannot be read: "));
  EXPECT_THAT(error("a.txt", "x", {"--python", "/no/such/python"}, "llama"), HasSubstr("cannot start /no/such/python"));
}

TEST_F(Rejected, AParquetColumnWithoutTexts) {
  const std::string source = (folder_.path() / "a.parquet").string();
  const auto made = testing::end_of_program(testing::start_program(
      {PARITY_PYTHON, "-c",
       "import datetime, decimal, sys, pyarrow, pyarrow.parquet as parquet\n"
       "day = datetime.datetime(2024, 1, 2)\n"
       "rows = [{'text': 'a', 'when': None, 'day': day.date(), 'bytes': b'x', 'sum': decimal.Decimal('1.5'), 'score': "
       "1.5}, {'text': 'b', 'when': day, 'day': day.date(), 'bytes': b'x', 'sum': decimal.Decimal('1.5'), 'score': "
       "float('nan')}]\n"
       "parquet.write_table(pyarrow.Table.from_pylist(rows), sys.argv[1])",
       source},
      folder_.path()));
  ASSERT_EQ(made.status, 0) << made.output;
  const auto rejected = [&](const std::string& column, const Words& more = {}) {
    return find_error(with({source, "--tokenizer", tokenizer("wordpiece"), "--text", column}, more));
  };
  const Words llama = {"--entry", "llama"};
  EXPECT_THAT(
      rejected("when", llama),
      HasSubstr("a.parquet cannot be read: row 2 of row group 1: column \"when\" has values of timestamp[us], and "
                "datetime.datetime(2024, 1, 2, 0, 0) is not a text, a number or a list of these: write the column as "
                "text"));
  EXPECT_THAT(rejected("day", llama), HasSubstr("column \"day\" has values of date32[day]"));
  EXPECT_THAT(rejected("bytes", llama), HasSubstr("column \"bytes\" has values of binary"));
  EXPECT_THAT(rejected("sum", llama), HasSubstr("column \"sum\" has values of decimal128"));
  EXPECT_THAT(rejected("text", {"--entry", "BertForSequenceClassification", "--label", "score"}),
              HasSubstr("row 2 of row group 1: column \"score\" has values of double, and nan is not a text"));
}

TEST_F(Rejected, ConfigFilesThatAreNotJsonObjectsOrTooLarge) {
  const auto folder = folder_.path() / "configs";
  std::filesystem::copy(tokenizer("wordpiece"), folder, std::filesystem::copy_options::recursive);
  const Words arguments = {folder_.write("a.csv", "text\nx\n").string(), "--entry", "BertModel", "--tokenizer",
                           folder.string()};
  for (const char* name : {"config_sentence_transformers.json", "sentence_bert_config.json"}) {
    const std::string path = folder_.write("configs/" + std::string(name), "[]").string();
    EXPECT_THAT(find_error(arguments), HasSubstr(path + " is not a JSON object"));
    folder_.write("configs/" + std::string(name), "{}" + std::string(size_t{16} << 20, ' '));
    EXPECT_THAT(find_error(arguments), HasSubstr(path + " has 16777218 bytes, more than the limit of 16777216"));
    std::filesystem::remove(path);
  }
}

TEST_F(Rejected, AnInvalidTokenizer) {
  const auto tokenizer = folder_.write("tok/tokenizer.json", "{\"model\":{}}").parent_path().string();
  const std::string source = folder_.write("a.txt", "x").string();
  EXPECT_THAT(find_error({source, "--entry", "llama", "--tokenizer", tokenizer}), HasSubstr("cannot be read: "));
  EXPECT_THAT(find_error({source, "--entry", "llama", "--tokenizer", folder_.path().string()}),
              HasSubstr("holds neither tokenizer.json nor a SentencePiece model"));
  EXPECT_THAT(find_error({source, "--entry", "llama", "--tokenizer", "/no/such/tokenizer.json"}),
              HasSubstr("the tokenizer /no/such/tokenizer.json does not exist"));
  EXPECT_THAT(find_error({source, "--entry", "llama"}), HasSubstr("name its folder with --tokenizer"));
}

}  // namespace
}  // namespace modular
