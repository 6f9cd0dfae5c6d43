// modgen --watch, as an author uses it: edit, read the output, edit again, interrupt. Every wait is for a line that it
// prints.
#include <sys/wait.h>

#include <csignal>

#include "tests/generator/command_line.h"

namespace modgen {
namespace {

/// A running modgen --watch whose output is read line by line.
class Watcher {
 public:
  explicit Watcher(const std::string& arguments) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execl("/bin/sh", "sh", "-c", ("exec " MODGEN " --watch " + arguments).c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Watcher() {
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    std::fclose(output_);
  }

  /// The output up to and including the line that contains `text`; all output if no line does.
  std::string read_to(const std::string& text) {
    std::string all;
    std::array<char, 4096> line;
    while (std::fgets(line.data(), line.size(), output_)) {
      all += line.data();
      if (std::string(line.data()).find(text) != std::string::npos) return all;
    }
    ADD_FAILURE() << "it ended without '" << text << "':\n" << all;
    return all;
  }

  int end_with(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = 0;
  std::FILE* output_ = nullptr;
};

class Watch : public CommandLine {
 protected:
  void write(const std::string& family, const std::string& text) {
    write_file(root / "modular" / (family + ".h"), text);
  }
  std::string spec(const std::string& family) { return read_file(root / "modular" / (family + ".h")); }
  bool holds(const std::string& family, const std::string& text) {
    return read_file(generated / (family + ".h")).find(text) != std::string::npos;
  }
};

TEST_F(Watch, GeneratesTheAffectedFilesAndSurvivesErrors) {
  use("golden/alias_and_inferred_classes");
  Watcher watcher(in_root);
  const std::string start = watcher.read_to("modgen: watching ");
  EXPECT_NE(start.find("alpha.h: generated\n"), std::string::npos) << start;
  EXPECT_NE(start.find("beta.h: generated\n"), std::string::npos) << start;

  const std::string beta = spec("beta");
  write("beta", beta + "// only here\n");
  const std::string edited = watcher.read_to("beta.h: generated");
  EXPECT_EQ(edited.find("alpha.h"), std::string::npos) << edited;

  write("beta", beta + "nonsense\n");
  const std::string broken = watcher.read_to("beta.h: left as it was");
  EXPECT_NE(broken.find("modular/beta.h:"), std::string::npos) << broken;
  EXPECT_NE(broken.find("error: "), std::string::npos) << broken;

  write("alpha", "// A base whose comment changed.\n" + spec("alpha"));
  const std::string base = watcher.read_to("beta.h: left as it was");
  EXPECT_NE(base.find("alpha.h: generated\n"), std::string::npos) << base;

  write("beta", beta);
  watcher.read_to("beta.h: generated");
  EXPECT_EQ(watcher.end_with(SIGINT), 0);
}

TEST_F(Watch, NoticesNewSpecsAndEndsOnASignal) {
  use("golden/alias_and_inferred_classes");
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  Watcher watcher(in_root);
  EXPECT_EQ(watcher.read_to("modgen: watching ").find("generated\n"), std::string::npos) << "all files were up to date";
  write("gamma",
        "#pragma once\n#include \"modular/alpha.h\"\nnamespace modular::gamma {\nMODULAR_FAMILY(Gamma);\n"
        "using GammaBlock = alpha::AlphaBlock;\n}  // namespace modular::gamma\n");
  watcher.read_to("gamma.h: generated");
  EXPECT_TRUE(holds("gamma", "class GammaBlockImpl"));
  EXPECT_EQ(watcher.end_with(SIGTERM), 0);
}

TEST_F(Watch, WatchesOnlyTheNamedFamilies) {
  use("golden/alias_and_inferred_classes");
  Watcher watcher(in_root + "alpha");
  EXPECT_EQ(watcher.read_to("modgen: watching ").find("beta.h"), std::string::npos);
  write("beta", spec("beta") + "// changed\n");
  write("alpha", spec("alpha") + "// changed\n");
  EXPECT_EQ(watcher.read_to("alpha.h: generated").find("beta.h"), std::string::npos);
  EXPECT_FALSE(fs::exists(generated / "beta.h"));
  EXPECT_EQ(watcher.end_with(SIGINT), 0);
}

TEST_F(Watch, SurvivesARenamedFolder) {
  use("golden/alias_and_inferred_classes");
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  Watcher watcher(in_root);
  watcher.read_to("modgen: watching ");
  fs::rename(root / "modular", root / "aside");
  watcher.read_to("modular is gone; waiting for it");
  const std::string beta = read_file(root / "aside/beta.h");
  write_file(root / "aside/beta.h", beta + "// while it was aside\n");
  fs::rename(root / "aside", root / "modular");
  watcher.read_to("beta.h: generated");
  write("alpha", spec("alpha") + "// afterwards\n");
  watcher.read_to("alpha.h: generated");
  EXPECT_EQ(watcher.end_with(SIGINT), 0);
}

TEST_F(Watch, ReportsAMissingFolder) {
  const Outcome outcome = modgen(in_root + "--watch");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, "modular cannot be watched")) << outcome.output;
}

}  // namespace
}  // namespace modgen
