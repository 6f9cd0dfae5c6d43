// Tests of the examples in docs/: the git hook rejects a commit with stale generated files, and the pre-commit
// framework and the workflow run valid modcheck commands.
#include "tests/checks/modcheck_project.h"

namespace modgen {
namespace {

const fs::path kSource = MODULAR_SOURCE_DIR;

class Hooks : public ModcheckProject {
 protected:
  /// Runs a command in the project, with modcheck on the PATH.
  Outcome in_project(const std::string& command) {
    return run("cd " + root.string() + " && PATH=" + fs::path(MODCHECK).parent_path().string() +
               ":$PATH && export PATH && " + command);
  }
  Outcome commit(const std::string& message) {
    return in_project("git add -A && git -c user.name=me -c user.email=me@example.org commit -q -m " + message);
  }
  void SetUp() override {
    ModcheckProject::SetUp();
    ASSERT_EQ(in_project("git init -q -b main").exit_code, 0);
    ASSERT_EQ(commit("first").exit_code, 0);
  }
};

/// The command after the first `key` in a YAML file on a line that contains `part`.
std::string command_in(const fs::path& file, const std::string& key, const std::string& part) {
  const std::string text = read_file(file);
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t at = line.find(key + ": ");
    if (at != std::string::npos && line.find(part) != std::string::npos) return line.substr(at + key.size() + 2);
  }
  throw std::runtime_error(file.string() + " has no such command");
}

TEST_F(Hooks, TheGitHookRejectsACommitWithStaleFiles) {
  fs::copy_file(kSource / "docs/examples/pre-commit", root / ".git/hooks/pre-commit");
  append("modular/gemma.h", "// a comment that generates nothing\n");
  const Outcome rejected = commit("stale");
  EXPECT_NE(rejected.exit_code, 0);
  EXPECT_NE(rejected.output.find("generated/gemma.lock"), std::string::npos) << rejected.output;
  EXPECT_EQ(check("--fix").exit_code, 0);
  const Outcome accepted = commit("mended");
  EXPECT_EQ(accepted.exit_code, 0) << accepted.output;
}

TEST_F(Hooks, ThePreCommitEntryFindsTheSameAsTheHook) {
  const std::string entry = command_in(kSource / ".pre-commit-hooks.yaml", "entry", "modcheck");
  EXPECT_EQ(in_project(entry).exit_code, 0);
  append("generated/gemma.h", "// by hand\n");
  const Outcome stale = in_project(entry);
  EXPECT_EQ(stale.exit_code, 1);
  EXPECT_NE(stale.output.find("generated/gemma.h"), std::string::npos) << stale.output;
}

TEST_F(Hooks, TheWorkflowAnnotatesChangesOfThePullRequest) {
  const std::string command = command_in(kSource / "docs/examples/modcheck.yml", "run", "--changed-since");
  const std::string branch =
      "git update-ref refs/remotes/origin/main HEAD && git checkout -q -b topic && export GITHUB_BASE_REF=main && ";
  const Outcome clean = in_project(branch + command);
  EXPECT_EQ(clean.exit_code, 0) << clean.output;
  append("generated/gemma.h", "// by hand\n");
  ASSERT_EQ(commit("edited").exit_code, 0);
  const Outcome found = in_project("export GITHUB_BASE_REF=main && " + command);
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_TRUE(found.output.starts_with("::error file=generated/gemma.h,line=")) << found.output;
}

TEST_F(Hooks, TheWorkflowReportsTheMainBranchToCodeScanning) {
  append("generated/gemma.h", "// by hand\n");
  EXPECT_EQ(in_project(command_in(kSource / "docs/examples/modcheck.yml", "run", "modcheck.sarif")).exit_code, 1);
  EXPECT_NE(bytes("modcheck.sarif").find("\"version\": \"2.1.0\""), std::string::npos);
}

}  // namespace
}  // namespace modgen
