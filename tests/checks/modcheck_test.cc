// Runs the modcheck program on a copy of this project's specs. Each test is one way in which generated/ can become out
// of date with modular/.
#include <nlohmann/json.hpp>

#include "tests/checks/modcheck_project.h"

namespace modgen {
namespace {

class Modcheck : public ModcheckProject {};

TEST_F(Modcheck, ACleanTreeIsClean) {
  for (const char* arguments : {"", "--full", "gemma", "--full gemma"}) {
    const Outcome outcome = check(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.output, "");
  }
}

TEST_F(Modcheck, CatchesAnEditedOutput) {
  append("generated/gemma.h", "// by hand\n");
  const Outcome found = check();
  EXPECT_NE(found.output.find("\n-// by hand\n"), std::string::npos) << found.output;
  expect(1, "generated/gemma.h:");
}

TEST_F(Modcheck, FullCatchesAnEditedOutputWithAForgedRecord) {
  append("generated/gemma.h", "// by hand\n");
  forge_record("gemma");
  const Outcome trusting = check();
  EXPECT_EQ(trusting.exit_code, 0) << "digests cannot notice this: " << trusting.output;
  const Outcome full = check("--full");
  EXPECT_EQ(full.exit_code, 1) << full.output;
  EXPECT_NE(full.output.find("\n-// by hand\n"), std::string::npos) << full.output;
}

TEST_F(Modcheck, CatchesAnEditedBase) {
  std::string spec = bytes("modular/llama.h");
  const std::string before = "double initializer_range = 0.02;", after = "double initializer_range = 0.03;";
  ASSERT_NE(spec.find(before), std::string::npos);
  write("modular/llama.h", spec.replace(spec.find(before), before.size(), after));
  const Outcome found = check();
  for (const char* family : {"llama", "mistral", "gemma"})
    EXPECT_NE(found.output.find("generated/" + std::string(family) + ".h:"), std::string::npos) << found.output;
  EXPECT_NE(found.output.find("+  " + after), std::string::npos) << found.output;
  expect(1, "modular/llama.h has changed");
}

TEST_F(Modcheck, CatchesAnOutputOfAnotherGenerator) {
  Record record = parse_record(bytes("generated/llama.lock"));
  record.generator = digest("the generator before its last change");
  write("generated/llama.lock", to_text(record));
  expect(1, "another version of the generator");
}

TEST_F(Modcheck, CannotCheckWithAnotherGeneratorThanTheTrees) {
  append("generator/generate.h", "// changed and not built\n");
  expect(2, "rebuild it");
}

TEST_F(Modcheck, CatchesAFileThatShadowsAnInclude) {
  fs::create_directories(root / "modular/modular");
  fs::copy_file(root / "modular/llama.h", root / "modular/modular/llama.h");
  append("modular/modular/llama.h", "// otherwise the same\n");
  expect(1, "modular/modular/llama.h is new and shadows a file that was included");
}

TEST_F(Modcheck, CatchesAnOutputWithoutASpec) {
  fs::copy_file(root / "generated/gemma.h", root / "generated/gemma9.h");
  expect(1, "generated/gemma9.h:1: drift: there is no spec modular/gemma9.h");
  EXPECT_FALSE(fs::exists(root / "generated/gemma9.h"));
}

TEST_F(Modcheck, LeavesAForeignFileAlone) {
  write("generated/notes.h", "// mine\n");
  EXPECT_EQ(check("--fix").exit_code, 1);
  EXPECT_EQ(bytes("generated/notes.h"), "// mine\n");
}

TEST_F(Modcheck, CatchesASpecWithoutAnOutput) {
  fs::remove(root / "generated/mistral.h");
  fs::remove(root / "generated/mistral.lock");
  expect(1, "generated/mistral.h:1: drift: it does not exist");
}

TEST_F(Modcheck, CatchesADeletedRecord) {
  fs::remove(root / "generated/mistral.lock");
  expect(1, "its record does not exist");
}

TEST_F(Modcheck, CatchesADamagedRecord) {
  append("generated/mistral.lock", "nonsense\n");
  expect(1, "of the record is damaged");
}

TEST_F(Modcheck, CatchesCarriageReturns) {
  std::string text;
  for (char c : bytes("generated/llama.h")) text += c == '\n' ? "\r\n" : std::string(1, c);
  write("generated/llama.h", text);
  expect(1, "carriage returns");
}

TEST_F(Modcheck, CannotCheckWithoutSpecsOrGenerator) {
  EXPECT_EQ(run(MODCHECK " --root " + folder.path().string()).exit_code, 2);
  EXPECT_EQ(check("--full --modgen /no/such/modgen").exit_code, 2);
  EXPECT_EQ(check("no_such_family").exit_code, 2);
  EXPECT_EQ(check("--no-such-flag").exit_code, 2);
}

TEST_F(Modcheck, ReportsToOtherPrograms) {
  append("generated/gemma.h", "// by hand\n");
  const auto json = nlohmann::json::parse(check("--format json").output);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["verdict"], "drift");
  EXPECT_EQ(json[0]["file"], "generated/gemma.h");
  EXPECT_GT(json[0]["line"], 100);
  const auto sarif = nlohmann::json::parse(check("--format sarif").output);
  EXPECT_EQ(sarif["version"], "2.1.0");
  EXPECT_EQ(sarif["runs"][0]["results"][0]["ruleId"], "drift");
  EXPECT_TRUE(check("--format github").output.starts_with("::error file=generated/gemma.h,line="));
}

}  // namespace
}  // namespace modgen
