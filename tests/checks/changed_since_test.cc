// modcheck --changed-since checks only the families that changes since a git revision affect. The tests use --full to
// see which families are checked.
#include "tests/checks/modcheck_project.h"

namespace modgen {
namespace {

class ChangedSince : public ModcheckProject {
 protected:
  void SetUp() override {
    ModcheckProject::SetUp();
    git("init -q -b main");
    git("add -A");
    git("commit -q -m first");
  }
  void git(const std::string& arguments) {
    const Outcome outcome = run("git -c user.name=me -c user.email=me@example.org -c core.excludesFile= -C " +
                                root.string() + " " + arguments);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  }
  /// Edits a generated file and forges its record. Only --full detects this, and only in families that it checks.
  void forge(const std::string& family) {
    append("generated/" + family + ".h", "// forged\n");
    forge_record(family);
  }
  /// Returns the families that modcheck checks.
  std::string checked_families(const std::string& revision) {
    const Outcome outcome = check("--full --no-diff --changed-since " + revision);
    EXPECT_LT(outcome.exit_code, 2) << outcome.output;
    std::string families;
    for (const char* family : {"gemma", "llama", "mistral"})
      if (outcome.output.find("generated/" + std::string(family) + ".h:") != std::string::npos)
        families += std::string(families.empty() ? "" : " ") + family;
    return families;
  }
  /// Commits forged outputs of all families, so that modcheck reports every family that it checks.
  void commit_forged() {
    for (const char* family : {"gemma", "llama", "mistral"}) forge(family);
    git("commit -q -a -m forged");
  }
};

TEST_F(ChangedSince, ChecksNothingIfNothingChanged) {
  commit_forged();
  EXPECT_EQ(checked_families("HEAD"), "");
  EXPECT_EQ(checked_families("HEAD~1"), "gemma llama mistral");
}

TEST_F(ChangedSince, ChecksTheFamilyOfAChangedSpec) {
  commit_forged();
  append("modular/gemma.h", "// a comment\n");
  EXPECT_EQ(checked_families("HEAD"), "gemma");
  git("commit -q -a -m second");
  EXPECT_EQ(checked_families("HEAD"), "");
  EXPECT_EQ(checked_families("HEAD~1"), "gemma");
}

TEST_F(ChangedSince, ChecksDependentsOfAChangedSpec) {
  commit_forged();
  append("modular/llama.h", "// a comment\n");
  EXPECT_EQ(checked_families("HEAD"), "gemma llama mistral");
}

TEST_F(ChangedSince, ChecksAChangedOutput) {
  commit_forged();
  append("generated/mistral.h", "// by hand\n");
  EXPECT_EQ(checked_families("HEAD"), "mistral");
}

TEST_F(ChangedSince, ChecksNewFilesAndOutputsWithoutASpec) {
  write("modular/extra.h",
        "#pragma once\n#include \"modular/llama.h\"\nnamespace modular::extra {\nMODULAR_FAMILY(Extra);\n"
        "using ExtraMLP = llama::LlamaMLP;\n}  // namespace modular::extra\n");
  EXPECT_NE(check("--changed-since HEAD").output.find("generated/extra.h:1: drift: it does not exist"),
            std::string::npos);
  fs::remove(root / "modular/extra.h");
  fs::remove(root / "modular/gemma.h");
  const Outcome stray = check("--changed-since HEAD");
  EXPECT_EQ(stray.exit_code, 1);
  EXPECT_NE(stray.output.find("generated/gemma.h:1: drift: there is no spec modular/gemma.h"), std::string::npos)
      << stray.output;
}

TEST_F(ChangedSince, ChecksEverythingIfTheGeneratorChanged) {
  commit_forged();
  append("generator/generate.h", "// changed and not built\n");
  const Outcome outcome = check("--changed-since HEAD");
  EXPECT_EQ(outcome.exit_code, 2);
  for (const char* family : {"gemma", "llama", "mistral"})
    EXPECT_NE(outcome.output.find(family), std::string::npos) << outcome.output;
}

TEST_F(ChangedSince, WorksInAFolderOfARepository) {
  // The project becomes a folder of a larger repository: names stay relative to the given root.
  fs::rename(root / ".git", folder.path() / ".git");
  const auto outer = [&](const std::string& arguments) {
    return run("git -c user.name=me -c user.email=me@example.org -C " + folder.path().string() + " " + arguments);
  };
  outer("add -A");
  outer("commit -q -m moved");
  append("generated/gemma.h", "// by hand\n");
  const Outcome outcome = check("--changed-since HEAD --no-diff");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.output.starts_with("generated/gemma.h:")) << outcome.output;
}

TEST_F(ChangedSince, ReportsGitErrorsForAnInvalidRevision) {
  for (const char* revision : {"no-such-revision", "--output=here", "modular/gemma.h"}) {
    const Outcome outcome = check(std::string("--changed-since=") + revision);
    EXPECT_EQ(outcome.exit_code, 2) << revision;
    EXPECT_NE(outcome.output.find("modcheck: git: fatal: "), std::string::npos) << outcome.output;
  }
  EXPECT_FALSE(fs::exists(root / "here"));
  EXPECT_EQ(check("--changed-since HEAD gemma").exit_code, 2) << "families cannot be given in addition";
}

}  // namespace
}  // namespace modgen
