// modgen as a program: output, files and exit code of each flag.
#include <nlohmann/json.hpp>

#include "tests/generator/command_line.h"

namespace modgen {
namespace {

TEST_F(CommandLine, WritesTheRequestedFileAndItsRecord) {
  use("golden/alias_and_inferred_classes");
  const Outcome one = modgen(in_root + "beta");
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_EQ(one.output, "");
  EXPECT_TRUE(fs::exists(generated / "beta.h") && fs::exists(generated / "beta.lock"));
  EXPECT_FALSE(fs::exists(generated / "alpha.h"));
  EXPECT_EQ(modgen(in_root + "--all").exit_code, 0);
  EXPECT_TRUE(fs::exists(generated / "alpha.h"));
}

TEST_F(CommandLine, LeavesUpToDateFilesAlone) {
  use("golden/alias_and_inferred_classes");
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const auto before = fs::last_write_time(generated / "beta.h");
  fs::remove(generated / "alpha.lock");  // so that there is work to do
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  EXPECT_EQ(fs::last_write_time(generated / "beta.h"), before);
}

TEST_F(CommandLine, WritesToTheOutputDir) {
  use("golden/alias_and_inferred_classes");
  const fs::path elsewhere = folder.path() / "elsewhere";
  EXPECT_EQ(modgen(in_root + "--output-dir " + elsewhere.string() + " --all").exit_code, 0);
  EXPECT_TRUE(fs::exists(elsewhere / "alpha.h") && fs::exists(elsewhere / "beta.lock"));
  EXPECT_FALSE(fs::exists(generated));
}

TEST_F(CommandLine, CheckListsDifferingFilesAndWritesNothing) {
  use("golden/alias_and_inferred_classes");
  const Outcome missing = modgen(in_root + "--check --all");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(says(missing, "generated/beta.h does not exist; it would come from modular/beta.h")) << missing.output;
  EXPECT_FALSE(fs::exists(generated));

  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const Outcome same = modgen(in_root + "--check --all");
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_EQ(same.output, "");

  const std::string edited = read_file(generated / "beta.h") + "// by hand\n";
  write_file(generated / "beta.h", edited);
  const Outcome differs = modgen(in_root + "--check --all");
  EXPECT_EQ(differs.exit_code, 1);
  EXPECT_TRUE(says(differs, "generated/beta.h is not what modular/beta.h says")) << differs.output;
  EXPECT_FALSE(says(differs, "alpha.h")) << differs.output;
  EXPECT_EQ(read_file(generated / "beta.h"), edited);
}

TEST_F(CommandLine, DiffShowsWhatWouldChangeAndWritesNothing) {
  use("golden/alias_and_inferred_classes");
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const std::string edited = read_file(generated / "beta.h") + "// by hand\n";
  write_file(generated / "beta.h", edited);
  const Outcome outcome = modgen(in_root + "--diff --all");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(says(outcome, "--- " + (generated / "beta.h").string())) << outcome.output;
  EXPECT_TRUE(says(outcome, "\n-// by hand\n")) << outcome.output;
  EXPECT_EQ(read_file(generated / "beta.h"), edited);
}

TEST_F(CommandLine, EmitPlanPrintsThePlansAsJson) {
  use("golden/with_an_entry");
  const Outcome outcome = modgen(in_root + "--emit plan alpha", " 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0);
  const auto plans = nlohmann::json::parse(outcome.output);
  ASSERT_TRUE(plans.contains("AlphaForCausalLM")) << outcome.output;
  EXPECT_EQ(plans["AlphaForCausalLM"]["task"], "causal-lm");
  EXPECT_FALSE(fs::exists(generated));
}

TEST_F(CommandLine, ExplainListsRenamingsOutsideOfReferences) {
  use("golden/functions_and_constants");
  const Outcome outcome = modgen(in_root + "--explain beta");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(
      says(outcome, "generated/beta.h: modular/alpha.h:17:28: \"alpha: no tensor\"\n    becomes \"beta: no tensor\"\n"))
      << outcome.output;
  EXPECT_FALSE(fs::exists(generated));
}

TEST_F(CommandLine, AnErrorLeavesAllFilesUnchanged) {
  use("rejected/several_errors");
  const Outcome outcome = modgen(in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, "modular/beta.h:9:8: error: ")) << outcome.output;
  EXPECT_TRUE(says(outcome, "modular/beta.h:11:1: error: ")) << outcome.output;
  EXPECT_TRUE(says(outcome, "modgen: nothing was written\n")) << outcome.output;
  EXPECT_FALSE(fs::exists(generated));
}

TEST_F(CommandLine, RejectsContradictoryArguments) {
  use("golden/alias_and_inferred_classes");
  for (const auto& [arguments, message] :
       {std::pair{"--check --diff beta", "--check and --diff exclude each other"},
        std::pair{"--all beta", "give either families or --all, not both"}, std::pair{"", "nothing to do: name a family"},
        std::pair{"gamma", "there is no spec modular/gamma.h below"}}) {
    const Outcome outcome = modgen(in_root + arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_TRUE(says(outcome, message)) << outcome.output;
  }
}

TEST_F(CommandLine, SuggestsANewFamilyForAShippedSpec) {
  use("golden/alias_and_inferred_classes");
  const Outcome outcome = modgen(in_root + "llama");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, "modgen --new my_llama --from llama")) << outcome.output;
  EXPECT_FALSE(fs::exists(generated));
}

TEST_F(CommandLine, PrintsHelpAndVersion) {
  EXPECT_TRUE(says(modgen("--help"), "exit codes: 0 done, 1 --check or --diff found a difference, 2 an error"));
  EXPECT_TRUE(says(modgen("--version"), "modgen "));
}

TEST_F(CommandLine, DeepCodeNeverOverflowsTheStack) {
  const auto generate_sum = [&](int terms) {
    std::string spec =
        "// A sum of many terms.\n#pragma once\n\n#include \"modular/modular.h\"\n\nnamespace modular::alpha {\n"
        "MODULAR_FAMILY(Alpha);\n\nclass AlphaSumImpl : public Module {\n public:\n  AlphaSumImpl() = default;\n"
        "  Tensor forward(const Tensor& x) {\n    return x";
    for (int term = 1; term < terms; ++term) spec += "\n        + x";
    spec += ";\n  }\n};\nTORCH_MODULE(AlphaSum);\n\n}  // namespace modular::alpha\n";
    write_file(root / "modular/alpha.h", spec);
    return modgen(in_root + "alpha");
  };
  const Outcome taken = generate_sum(1900);
  EXPECT_EQ(taken.exit_code, 0) << taken.output.substr(0, 1000);
  const Outcome rejected = generate_sum(20000);
  EXPECT_EQ(rejected.exit_code, 2);
  EXPECT_TRUE(says(rejected, "modular/alpha.h:2005:9: error: this code nests too deeply")) << rejected.output;
}

}  // namespace
}  // namespace modgen
