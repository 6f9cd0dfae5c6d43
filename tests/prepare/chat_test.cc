// Conversations: ids and spans of the assistant match transformers' apply_chat_template; a model answers with the same
// template until an id ends its text; errors for unsupported rows name the row.
#include <gmock/gmock.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Chat : public PrepareCommand {
 protected:
  testing::Ended chat_reference(const Words& arguments) const {
    return testing::end_of_program(
        testing::start_program(with({PARITY_PYTHON, CHAT_REFERENCE}, arguments), folder_.path()));
  }

  Finished prepare_chats(const std::string& source, const std::string& kind, const Words& more = {}) const {
    return prepare(
        with({source, "--tokenizer", tokenizer(kind), "--entry", "LlamaForCausalLM", "--chat", "messages"}, more));
  }

  std::string error(const std::string& rows, const std::string& kind, const Words& more = {}) const {
    const auto run = prepare_chats(folder_.write("a.jsonl", rows).string(), kind, more);
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(fs::exists(out()));
    fs::remove_all(out() + ".partial");
    return run.output;
  }
};

TEST_F(Chat, IdsAndTheAssistantsSpansMatchTransformers) {
  // A template, the same template with generation marks, and the maximum length of a row.
  const std::vector<std::array<std::string, 4>> cases = {{"chatml", "chatml-marked", "chats.jsonl", "0"},
                                                         {"chatml-marked", "chatml-marked", "chats.jsonl", "0"},
                                                         {"content-marked", "content-marked", "chats.jsonl", "24"},
                                                         {"instruct", "instruct-marked", "chats.parquet", "0"},
                                                         {"instruct-marked", "instruct-marked", "chats.parquet", "0"},
                                                         {"system", "system-marked", "chats.jsonl", "0"},
                                                         {"system-marked", "system-marked", "answers.jsonl", "0"}};
  for (const auto& [kind, marked, source, length] : cases) {
    const std::string path = (made() / source).string();
    const auto run = prepare_chats(path, kind, length == "0" ? Words{} : Words{"--seq-len", length});
    ASSERT_EQ(run.status, 0) << kind << run.output;
    const auto same = chat_reference({"check", out(), tokenizer(kind), tokenizer(marked), path, length});
    EXPECT_EQ(same.status, 0) << kind << same.output;
    fs::remove_all(out());
  }
}

TEST_F(Chat, AModelAnswersWithTheTemplateUntilAnIdEndsTheText) {
  const std::string one =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"the quick\"}, {\"role\": \"assistant\", \"content\": "
      "\"brown "
      "fox jumps\"}]}\n";
  std::string rows;
  for (int row = 0; row < 32; ++row) rows += one;
  ASSERT_EQ(prepare_chats(folder_.write("a.jsonl", rows).string(), "chatml").status, 0);
  const std::string run = (folder_.path() / "run").string(), exported = (folder_.path() / "exported").string();
  Words training = {"train"};
  for (const std::string setting :
       {"model.entry=LlamaForCausalLM", "data.format=examples", "model.config.vocab_size=402",
        "model.config.hidden_size=32", "model.config.intermediate_size=48", "model.config.num_hidden_layers=1",
        "model.config.num_attention_heads=4", "train.batch_size=8", "train.steps=40", "train.seq_len=64",
        "optim.lr=0.02", "optim.warmup_steps=2", "sample.tokens=40", "sample.temperature=0", "sample.chat=true",
        "sample.prompt=the quick"})
    training = with(training, {"--set", setting});
  training = with(training, {"--set", "train.dir=" + run, "--set", "data.paths=['" + out() + "']", "--set",
                             "sample.python=" + std::string(PARITY_PYTHON)});
  const auto trained = modrun(training);
  ASSERT_EQ(trained.status, 0) << trained.output;
  ASSERT_EQ(modrun({"export", run + "/checkpoints", exported}).status, 0);
  EXPECT_EQ(get_files(exported).at("chat_template.jinja"), get_files(tokenizer("chatml")).at("chat_template.jinja"));

  const json expected = json::parse(chat_reference({"answer", exported, "the quick", "40"}).last(0));
  const std::string text = expected["text"];
  EXPECT_EQ(text, "brown fox jumps");
  EXPECT_LT(expected["tokens"], 40);
  for (const Words& launcher : {Words{}, Words{"--nproc-per-node", "2"}}) {
    const auto sampled = modrun(with(
        launcher, {"sample", run, "--chat", "--trust-folder", "--prompt", "the quick", "--set", "sample.chat=false"}));
    EXPECT_EQ(sampled.status, 0) << sampled.output;
    EXPECT_TRUE(sampled.output.ends_with("the quick\n" + text + "\n")) << sampled.output;
  }
  std::ifstream metrics(run + "/metrics.jsonl");
  std::string at_end;
  for (std::string line; std::getline(metrics, line);)
    if (const json event = json::parse(line); event.value("event", "") == "sample") at_end = event["text"];
  EXPECT_EQ(at_end, "the quick\n" + text);

  // Another id that ends a text, from the folder's generation_config.json: the second one that the model generates.
  const auto ids = json::parse(reference({"encode", exported, "brown fox jumps"}).last(0));
  std::ofstream(run + "/tokenizer/generation_config.json") << json{{"eos_token_id", {399, ids.at(1)}}};
  const json sooner =
      json::parse(chat_reference({"answer", exported, "the quick", "40", "399", ids.at(1).dump()}).last(0));
  const auto sampled = modrun({"sample", run, "--trust-folder", "--prompt", "the quick"});
  EXPECT_EQ(sooner["tokens"], 1);
  EXPECT_TRUE(sampled.output.ends_with("the quick\n" + sooner["text"].get<std::string>() + "\n")) << sampled.output;
}

const std::string kRow =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n";

TEST_F(Chat, RejectsARowThatTheTemplateCannotRender) {
  const std::string twice =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}, {\"role\": "
      "\"assistant\", \"content\": \"c\"}]}\n";
  EXPECT_THAT(error(kRow + twice, "instruct"),
              HasSubstr("a.jsonl:2: the chat template cannot render it: TemplateError: roles must alternate"));
  const std::string thoughts =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\", "
      "\"reasoning_content\": \"hm\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", "
      "\"content\": "
      "\"d\", \"reasoning_content\": \"so\"}]}\n";
  EXPECT_THAT(error(kRow + kRow + thoughts, "forgetful"),
              AllOf(HasSubstr("a.jsonl:3: the chat template renders the assistant's message 2, or the text before it, "
                              "differently within the full conversation"),
                    HasSubstr("put {% generation %} and {% endgeneration %} around")));
  EXPECT_THAT(error("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "chatml"),
              HasSubstr("a.jsonl:1: no message is the assistant's"));
  EXPECT_THAT(error("{\"messages\": \"hello\"}\n", "chatml"),
              HasSubstr("a.jsonl:1: \"messages\" is \"hello\": write a list of messages like {\"role\": \"user\", "));
  EXPECT_THAT(error("{\"messages\": [{\"content\": \"a\"}]}\n", "chatml"), HasSubstr("write a list of messages like"));
  // transformers' mask does not support this either.
  EXPECT_THAT(error("{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}]}\n", "system"),
              AllOf(HasSubstr("a.jsonl:1: it begins with the assistant, and the chat template cannot render the text "
                              "before a first message"),
                    HasSubstr("put {% generation %} and {% endgeneration %} around")));
  // The current day would change the data of the same rows tomorrow.
  EXPECT_THAT(error(kRow, "dated"),
              HasSubstr("a.jsonl:1: the chat template cannot render it: UndefinedError: 'strftime_now' is undefined"));
}

TEST_F(Chat, RejectsATokenizerWithoutASupportedTemplate) {
  EXPECT_THAT(error(kRow, "byte-level"), HasSubstr("has no chat template: write chat_template.jinja there"));
  EXPECT_THAT(error(kRow, "broken"), HasSubstr("the tokenizer's chat template cannot be read: "));
  EXPECT_THAT(error(kRow, "llama-model"), HasSubstr("chat templates need a tokenizer.json"));
  folder_.write("none/jinja2.py", "raise ImportError('none', name='jinja2')\n");
  const auto python = folder_.write(
      "python", "#!/bin/sh\nPYTHONPATH=" + (folder_.path() / "none").string() + " exec " PARITY_PYTHON " \"$@\"\n");
  fs::permissions(python, fs::perms::owner_all);
  EXPECT_THAT(error(kRow, "chatml", {"--python", python.string()}),
              AllOf(HasSubstr("chat templates need the package jinja2: "), HasSubstr(" -m pip install jinja2")));
}

TEST_F(Chat, RejectsOptionsThatConflictWithConversations) {
  EXPECT_THAT(error(kRow, "chatml", {"--text", "messages"}), HasSubstr("leave --text, --label and --prompt out"));
  const auto run = prepare({folder_.write("a.jsonl", kRow).string(), "--tokenizer", tokenizer("chatml"), "--entry",
                            "BertForMaskedLM", "--chat", "messages"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("BertForMaskedLM is for masked-lm, which reads no conversations"));
}

}  // namespace
}  // namespace modular
