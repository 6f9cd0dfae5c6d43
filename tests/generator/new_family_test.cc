// modgen --new: the new spec generates unchanged, and so does the redefinition in its example.
#include "generator/source/families.h"
#include "tests/generator/command_line.h"

namespace modgen {
namespace {

class NewFamily : public CommandLine {
 protected:
  Outcome make(const std::string& arguments) { return modgen(in_root + "--new " + arguments); }
  std::string spec(const std::string& family) { return read_file(root / "modular" / (family + ".h")); }
};

/// The spec with its example moved from the comment to the namespace.
std::string with_example(std::string spec) {
  const std::string introduction = "changes nothing yet:\n", mark = "//   ";
  const size_t begin = spec.find(introduction);
  if (begin == std::string::npos) return spec;
  std::string example;
  for (size_t at = begin + introduction.size(); spec.compare(at, mark.size(), mark) == 0;) {
    const size_t end = spec.find('\n', at) + 1;
    example += spec.substr(at + mark.size(), end - at - mark.size());
    at = end;
  }
  return spec.insert(spec.find("using ", spec.find("MODULAR_FAMILY")), example + "\n");
}

TEST_F(NewFamily, OfEveryFamilyOfTheCatalogueGenerates) {
  std::vector<std::string> made;
  for (const std::string& base : families_in(MODULAR_SOURCE_DIR)) {
    const Outcome outcome = make("my_" + base + " --from " + base);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    made.push_back("my_" + base);
  }
  ASSERT_GT(made.size(), 20u);
  const Outcome unchanged = modgen(in_root + "--all");
  EXPECT_EQ(unchanged.exit_code, 0) << unchanged.output;
  for (const std::string& family : made) {
    write_file(root / "modular" / (family + ".h"), with_example(spec(family)));
    EXPECT_EQ(read_file(generated / (family + ".h")).find("smallest redefinition"), std::string::npos)
        << "advice to the author is not part of the model";
  }
  const Outcome with_examples = modgen(in_root + "--all");
  EXPECT_EQ(with_examples.exit_code, 0) << with_examples.output;
}

TEST_F(NewFamily, HasTheBasesEntriesUnderItsOwnNames) {
  EXPECT_EQ(make("my_llama --from llama").exit_code, 0);
  const std::string text = spec("my_llama");
  for (const char* line : {"namespace modular::my_llama {\n", "MODULAR_FAMILY(MyLlama);\n",
                           "struct MyLlamaConfig : llama::LlamaConfig {};\n",
                           "using MyLlamaForCausalLM MODEL_ENTRY(\"causal-lm\") = llama::LlamaForCausalLM;\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(make("own --from llama --prefix OWN").exit_code, 0);
  EXPECT_NE(spec("own").find("using OWNForCausalLM "), std::string::npos) << spec("own");
}

TEST_F(NewFamily, FollowsTheNamesOfTheOriginal) {
  EXPECT_EQ(make("electra --from bert").exit_code, 0);
  const std::string text = spec("electra");
  for (const char* line : {"MODULAR_FAMILY(Electra, .members = {{\"bert\", \"electra\"}});\n",
                           "using ElectraForSentenceEmbedding MODEL_ENTRY(\"sentence-embedding\", \"ElectraModel\") = "
                           "bert::BertForSentenceEmbedding;\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  const Outcome outcome = modgen(in_root + "electra");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::string made = read_file(generated / "electra.h");
  EXPECT_NE(made.find("electra(register_module(\"electra\", ElectraModel(config"), std::string::npos);
  EXPECT_NE(made.find("electra_model_plan.under(\"electra\")"), std::string::npos);
  // A family whose own members were renamed passes their names on.
  EXPECT_EQ(make("mine --from roberta").exit_code, 0);
  EXPECT_NE(spec("mine").find(".members = {{\"roberta\", \"mine\"}}"), std::string::npos) << spec("mine");
}

TEST_F(NewFamily, MayDeriveFromSeveral) {
  use("golden/with_an_entry");
  EXPECT_EQ(make("pair --from beta,llama").exit_code, 0);
  EXPECT_NE(spec("pair").find("#include \"modular/beta.h\"\n#include \"modular/llama.h\"\n"), std::string::npos);
  EXPECT_NE(spec("pair").find("using PairForCausalLM MODEL_ENTRY(\"causal-lm\") = beta::BetaForCausalLM;"),
            std::string::npos)
      << spec("pair");
  const Outcome outcome = modgen(in_root + "pair");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

/// The first block of code in `language` after `heading` in the tutorial.
std::string tutorial_block(const std::string& heading, const std::string& language) {
  const std::string text = read_file(MODULAR_SOURCE_DIR "/docs/tutorial/add-a-family.md");
  const std::string fence = "```" + language + "\n";
  const size_t begin = text.find(fence, text.find(heading)) + fence.size();
  return text.substr(begin, text.find("```\n", begin) - begin);
}

TEST_F(NewFamily, OfTheTutorialGenerates) {
  ASSERT_EQ(make("granite --from llama").exit_code, 0);
  const std::string start = spec("granite"), family = "MODULAR_FAMILY(Granite);\n";
  write_file(root / "modular/granite.h", start.substr(0, start.find(family) + family.size()) +
                                             tutorial_block("## Write the differences", "cpp") +
                                             "}  // namespace modular::granite\n");
  const Outcome outcome = modgen(in_root + "granite");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::string text = read_file(generated / "granite.h");
  EXPECT_NE(text.find("residual + mlp(post_attention_layernorm(residual)) * residual_multiplier"), std::string::npos);
}

TEST_F(NewFamily, DoesNotReplaceFiles) {
  EXPECT_EQ(make("mine --from llama").exit_code, 0);
  write_file(root / "modular/mine.h", "// mine\n");
  const Outcome again = make("mine --from llama");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(says(again, "modular/mine.h exists already")) << again.output;
  EXPECT_EQ(spec("mine"), "// mine\n");
  EXPECT_TRUE(says(make("gemma --from llama"), "modular/gemma.h exists already"))
      << "the name of a shipped family is taken, too";
}

TEST_F(NewFamily, RejectsInvalidArguments) {
  for (const auto& [arguments, message] :
       {std::pair{"Mine --from llama", "'Mine' cannot be a family"},
        std::pair{"9th --from llama", "cannot be a family"}, std::pair{"class --from llama", "cannot be a family"},
        std::pair{"a/b --from llama", "cannot be a family"},
        std::pair{"torch --from llama", "'torch' cannot be a family: its code uses a namespace or macro of that name"},
        std::pair{"errno --from llama", "take another, as in my_errno"},
        std::pair{"mine --from llama --prefix mine", "'mine' cannot begin the names of classes"},
        std::pair{"mine", "--new needs a family to derive from"}, std::pair{"mine --from nothing", "there is no spec"},
        std::pair{"mine --from llama --watch",
                  "--new, --suggest, --watch and --compile-commands cannot be combined with each other"}}) {
    const Outcome outcome = make(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_TRUE(says(outcome, message)) << outcome.output;
  }
  EXPECT_TRUE(says(modgen(in_root + "--from llama mine"), "--from and --prefix require --new"));
  EXPECT_FALSE(fs::exists(root / "modular"));
}

}  // namespace
}  // namespace modgen
