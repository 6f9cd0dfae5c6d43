// Executed generated files: a mistake that modgen did not make is reported with its entry, config, mesh and line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "checks/execute.h"
#include "checks/regenerate.h"
#include "checks/traced_text.h"
#include "checks/written_text.h"
#include "generator/source/files.h"

namespace modgen {
namespace {

namespace fs = std::filesystem;

TEST(TracedText, MarksWhatStatementsComputeWithTheirLine) {
  EXPECT_EQ(traced_text("Tensor f(const Tensor& x) {\n"
                        "  const Tensor y = g(x, 1);\n"
                        "  y_.z = h(y,\n"
                        "         2);\n"
                        "  return y;\n"
                        "}\n"),
            "Tensor f(const Tensor& x) {\n"
            "  const Tensor y = modular::execute::traced(2, g(x, 1));\n"
            "  y_.z = modular::execute::traced(3, h(y,\n"
            "         2));\n"
            "  return modular::execute::traced(5, y);\n"
            "}\n");
}

TEST(TracedText, LeavesOtherDeclarationsAndBracesAlone) {
  const std::string text =
      "  int64_t heads = 4;\n  auto [a, b] = f();\n  Tensor a = f(), b = g();\n  return {a, b};\n  const char* s = "
      "\";\";\n";
  EXPECT_EQ(traced_text(text), text);
}

TEST(ComparedStrings, AreValuesThatTheFileTreatsDifferently) {
  EXPECT_EQ(compared_strings("if (a == \"b\" || c != \"a-b\") d = \"e\"; f.starts_with(\"b\"); visit(\"g\");"),
            (std::vector<std::string>{"a-b", "b"}));
}

TEST(WrittenText, HasEntriesThatReachNothingRedefined) {
  const std::string spec =
      "#include \"modular/modular.h\"\n"
      "namespace modular::tiny {\n"
      "struct TinyConfig : Config {\n  int64_t size = 1;\n};\n"
      "class TinyNormImpl : public Module {\n public:\n"
      "  Tensor forward(const Tensor& x) { return scaled(x); }\n\n"
      "  Tensor scaled(const Tensor& x) { return x; }\n};\n"
      "class TinyTwiceImpl : public TinyNormImpl {\n public:\n"
      "  Tensor scaled(const Tensor& x) { return x * 2; }\n};\n"
      "class TinyMoreImpl : public TinyNormImpl {\n public:\n"
      "  Tensor more(const Tensor& x) { return x * 2; }\n};\n"
      "class TinyAImpl : public Module {\n public:\n  TinyMore norm;\n};\n"
      "class TinyBImpl : public Module {\n public:\n  TinyTwice norm;\n};\n"
      "}  // namespace modular::tiny\n";
  const std::string generated =
      "class TinyAImpl : public Module {\n public:\n  TinyMore norm;\n};\n"
      "TORCH_MODULE(TinyA);\n"
      "register_entry<TinyA, TinyConfig>(\"tiny\", \"TinyA\", \"causal-lm\", \"tiny\", plan);\n"
      "register_entry<TinyB, TinyConfig>(\"tiny\", \"TinyB\", \"causal-lm\", \"tiny\", plan);\n";
  const WrittenText written = written_text("tiny", spec, generated);
  EXPECT_NE(written.spec.find("namespace modular::written_tiny {"), std::string::npos);
  EXPECT_NE(written.before.find("class TinyA : public EarlyHolder<TinyAImpl>"), std::string::npos);
  EXPECT_NE(written.entries.find("written_tiny::TinyAImpl>(\"TinyA\", \"causal-lm\")"), std::string::npos);
  EXPECT_NE(written.entries.find("adopt(to.norm, from.norm, adopted)"), std::string::npos);
  EXPECT_EQ(written.entries.find("TinyBImpl>"), std::string::npos);
  EXPECT_EQ(written_text("tiny", "#include \"modular/llama.h\"\n" + spec, generated).entries, "");
}

/// A project of one generated file of the catalogue with a change.
class Executed : public testing::Test {
 protected:
  /// Replaces `from`, which the file has, and executes it. Returns what is printed; empty if all is the same.
  std::string execute_with(const std::string& family, const std::string& from, const std::string& to) {
    const fs::path source = MODULAR_SOURCE_DIR;
    std::string text = read_file(source / "generated" / (family + ".h"));
    const size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error("the file does not have " + from);
    // The line on which the statement begins.
    const size_t begin = text.find_first_not_of(" \n", text.find_last_of(";{}", at) + 1);
    line_ = std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
    write_file(folder_.path() / "generated" / (family + ".h"), text.replace(at, from.size(), to));
    testing::internal::CaptureStdout();
    const bool same = execute({{folder_.path(), source}, {family}, MODULAR_EXECUTE_FLAGS, /*trusts_records=*/true});
    const std::string printed = testing::internal::GetCapturedStdout();
    return same ? "" : printed;
  }

  TemporaryFolder folder_;
  std::string line_;  // of the change
};

TEST_F(Executed, ForgottenSumIsReportedAtItsLine) {
  const std::string found = execute_with("gpt2", "tp::exit(c_proj, ", "c_proj->forward(");
  EXPECT_NE(found.find("generated/gpt2.h: "), std::string::npos) << found;
  EXPECT_NE(found.find("config with defaults, tp 2: the logits of tp rank 0"), std::string::npos) << found;
  EXPECT_NE(found.find("computed at generated/gpt2.h:" + line_), std::string::npos) << found;
}

TEST_F(Executed, NeedsNoWritableCache) {
  const std::string cache = std::getenv("XDG_CACHE_HOME");
  execute_with("gpt2", "tp::exit(c_proj, ", "c_proj->forward(");  // fills the cache
  // The fallback folder has the contents of the cache, so that the contract is not compiled again.
  const fs::path spare = folder_.path() / ("modgen-" + std::to_string(geteuid()));
  fs::copy(fs::path(cache) / "modgen", spare, fs::copy_options::recursive);
  fs::permissions(spare, fs::perms::owner_all);
  write_file(folder_.path() / "file", "");
  setenv("XDG_CACHE_HOME", (folder_.path() / "file/cache").c_str(), 1);
  setenv("TMPDIR", folder_.path().c_str(), 1);
  const std::string found = execute_with("gpt2", "tp::exit(c_proj, ", "c_proj->forward(");
  unsetenv("TMPDIR");
  setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  EXPECT_NE(found.find("computed at generated/gpt2.h:" + line_), std::string::npos) << found;
}

TEST_F(Executed, ForgottenSumOfGradientsIsReported) {
  const std::string found = execute_with("gpt2", "tp::enter(", "(");
  EXPECT_NE(found.find("tp 2: the gradient of "), std::string::npos) << found;
}

TEST_F(Executed, ForgottenSumOfTheGradientOfAKeyOfAllHeadsIsReported) {
  const std::string found = execute_with("deepseek_v3", "tp::shared(apply_rope(", "(apply_rope(");
  EXPECT_NE(found.find("tp 2: the gradient of "), std::string::npos) << found;
}

TEST_F(Executed, ForgottenSumOfTheGradientOfANormOfHeadsIsReported) {
  const std::string found = execute_with("qwen3", "tp::shared(weight)", "weight");
  EXPECT_NE(found.find("tp 2: the gradient of "), std::string::npos) << found;
  EXPECT_NE(found.find("_norm.weight"), std::string::npos) << found;
}

TEST_F(Executed, ForgottenSumOfTheGradientOfARouterIsReported) {
  const std::string found = execute_with("mixtral", "tp::enter(weights)", "weights");
  EXPECT_NE(found.find("tp 2: the gradient of "), std::string::npos) << found;
}

TEST_F(Executed, StageThatDoesNotHoldItsLayersIsReported) {
  const std::string found = execute_with("gpt2", ".first = {\"wte\", \"wpe\"}", ".first = {\"h\"}");
  EXPECT_NE(found.find("2 stages cut before layer 1: the logits: off by "), std::string::npos) << found;
}

TEST_F(Executed, SharedHeadsThatAreNotSplitRightAreReported) {
  const std::string found = execute_with("mistral", "tp::local(num_key_value_heads)",
                                         "(bound.tp ? num_key_value_heads / bound.tp->size() : num_key_value_heads)");
  EXPECT_NE(found.find("num_key_value_heads 2"), std::string::npos) << found;
  EXPECT_NE(found.find(", tp 4: "), std::string::npos) << found;
}

TEST_F(Executed, NetworkThatReadsOtherRowsIsReportedAtItsLine) {
  const std::string found = execute_with("gpt2", "c_fc(tp::enter(hidden_states))",
                                         "c_fc(tp::enter(hidden_states - hidden_states.mean(0, true)))");
  EXPECT_NE(found.find("config with defaults, dp 2: the logits"), std::string::npos) << found;
  EXPECT_NE(found.find("computed at generated/gpt2.h:" + line_), std::string::npos) << found;
}

TEST_F(Executed, NetworkThatReadsOtherPositionsIsReportedAtItsLine) {
  const std::string found =
      execute_with("gpt2", "c_fc(tp::enter(hidden_states))", "c_fc(tp::enter(hidden_states).cumsum(1))");
  EXPECT_NE(found.find("config with defaults, cp 2: the logits"), std::string::npos) << found;
  EXPECT_NE(found.find("computed at generated/gpt2.h:" + line_), std::string::npos) << found;
}

TEST_F(Executed, PositionsThatAreNotThoseOfTheRankAreReported) {
  const std::string found = execute_with("gpt2", "position_ids(batch)",
                                         "(at::arange(batch.input_ids.size(1)) + (bound.context ? "
                                         "bound.context->runs(batch.input_ids.size(1))[0].begin : 0))");
  EXPECT_NE(found.find("config with defaults, cp 2 by zigzag: the logits"), std::string::npos) << found;
}

TEST_F(Executed, NetworkThatForgetsACacheIsReportedInGeneration) {
  const std::string found = execute_with("gpt2", "position_ids(batch)", "position_ids(batch.input_ids)");
  EXPECT_NE(found.find("generation: the logits of tokens 8 to 8 after a cached forward"), std::string::npos) << found;
  EXPECT_NE(found.find("computed at generated/gpt2.h:"), std::string::npos) << found;
}

TEST_F(Executed, FileThatComputesSomethingElseThanItsSpecIsReported) {
  write_file(folder_.path() / "modular/gpt2.h", read_file(fs::path(MODULAR_SOURCE_DIR) / "modular/gpt2.h"));
  const std::string found = execute_with("gpt2", "residual + mlp(ln_2(residual))", "residual - mlp(ln_2(residual))");
  EXPECT_NE(found.find("config with defaults, as C++ compiles modular/gpt2.h: the logits: off by "), std::string::npos)
      << found;
}

TEST_F(Executed, FileThatDoesNotCompileIsReported) {
  EXPECT_NE(execute_with("gpt2", "return ", "return no_such_function").find("it does not compile"), std::string::npos);
}

}  // namespace
}  // namespace modgen
