// modcheck on system errors: it exits with 2, and never reports a difference.
#include <sys/stat.h>
#include <unistd.h>

#include "generator/source/files.h"
#include "tests/checks/modcheck_project.h"
#include "tests/support/permissions.h"

namespace modgen {
namespace {

class ModcheckRobustness : public ModcheckProject {
 protected:
  const std::string modcheck = MODCHECK " --root " + root.string() + " ";
  void script(const std::string& name, const std::string& text) {
    write_file(folder.path() / name, "#!/bin/sh\n" + text);
    fs::permissions(folder.path() / name, fs::perms::owner_all);
  }
};

TEST_F(ModcheckRobustness, AnUnwritableCacheOnlyCostsTime) {
  // The fallback folder has the contents of the tests' cache, so that nothing has to be rebuilt.
  const fs::path spare = folder.path() / ("modgen-" + std::to_string(geteuid()));
  fs::copy(*cache_folder(), spare, fs::copy_options::recursive);
  fs::permissions(spare, fs::perms::owner_all);
  write_file(folder.path() / "file", "");
  const Outcome outcome = run("XDG_CACHE_HOME=" + (folder.path() / "file/cache").string() +
                              " TMPDIR=" + folder.path().string() + " " + modcheck + "--full");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(
      outcome.output.ends_with("its folder cannot be created: Not a directory; modcheck does not remember what "
                               "it has verified\n"))
      << outcome.output;
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << "it is reported once: " << outcome.output;
}

TEST_F(ModcheckRobustness, UsesAReadOnlyCache) {
  const std::optional<std::string> prefix = without_override();
  if (!prefix) GTEST_SKIP() << "root's own permissions cannot be dropped here";
  const fs::path cache = folder.path() / "cache";
  fs::create_directories(cache);
  fs::copy(*cache_folder(), cache / "modgen", fs::copy_options::recursive);
  const auto run_read_only = [&](const std::string& arguments) {
    return run("XDG_CACHE_HOME=" + cache.string() + " TMPDIR=" + folder.path().string() + " " + *prefix + modcheck +
               arguments);
  };
  ASSERT_EQ(run("chmod -R a-w " + cache.string()).exit_code, 0);
  const Outcome records = run_read_only(""), full = run_read_only("--full");
  EXPECT_EQ(run("chmod -R u+w " + cache.string()).exit_code, 0);
  EXPECT_EQ(records.exit_code, 0);
  EXPECT_EQ(records.output, "");
  EXPECT_EQ(full.exit_code, 0);
  EXPECT_TRUE(full.output.ends_with(": Permission denied; modcheck does not remember what it has verified\n"))
      << full.output;
  EXPECT_FALSE(fs::exists(folder.path() / ("modgen-" + std::to_string(geteuid())))) << "no prelude had to be built";
}

TEST_F(ModcheckRobustness, IgnoresADamagedLocalRecord) {
  EXPECT_EQ(check("--full").exit_code, 0);
  for (const auto& entry : fs::directory_iterator(*cache_folder() / "verified")) {
    if (!entry.path().filename().string().ends_with("-gemma")) continue;
    fs::remove(entry.path());
    fs::create_directories(entry.path());
  }
  const Outcome outcome = check();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  for (const auto& entry : fs::directory_iterator(*cache_folder() / "verified"))
    if (entry.is_directory()) fs::remove(entry.path());
}

TEST_F(ModcheckRobustness, IsIndependentOfOtherChildrenAndIgnoredSignals) {
  const Outcome outcome = run("true & exec env --ignore-signal=CHLD " + modcheck + "--full");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
}

TEST_F(ModcheckRobustness, ReportsAKilledGenerator) {
  script("modgen", "echo working >&2; kill -KILL $$\n");
  const Outcome outcome = check("--full --modgen " + (folder.path() / "modgen").string() + " gemma");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.output.find("generated/gemma.h:1: unchecked: modgen failed (exit code 137):\nworking\nmodgen was "
                                "ended by signal 9 (Killed); the machine may have run out of memory\n"),
            std::string::npos)
      << outcome.output;
}

TEST_F(ModcheckRobustness, AFullDiskIsNotADifference) {
  // A limit of 512 bytes simulates a full disk: the generator cannot write the files to compare.
  const Outcome outcome = run("ulimit -f 1; " + modcheck + "--full");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find(": cannot be written: File too large"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find(": drift: "), std::string::npos) << outcome.output;
}

TEST_F(ModcheckRobustness, FullStandardOutputIsNotADifference) {
  append("generated/gemma.h", "// by hand\n");
  const Outcome outcome = run("{ " + modcheck + "> /dev/full; }");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.output.starts_with("modcheck: standard output cannot be written")) << outcome.output;
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
}

TEST_F(ModcheckRobustness, FixChangesAllFamiliesOrNone) {
  const std::string gemma = bytes("generated/gemma.h");
  append("generated/gemma.h", "// by hand\n");
  append("generated/mistral.h", "// by hand\n");
  fs::remove(root / "generated/mistral.lock");
  fs::create_directories(root / "generated/mistral.lock");
  const Outcome outcome = check("--fix");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.output.find("generated/mistral.lock: is a folder, not a file"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(bytes("generated/gemma.h"), gemma + "// by hand\n");
}

TEST_F(ModcheckRobustness, IgnoresNamesThatAreNotFiles) {
  fs::create_directories(root / "modular/gamma.h");
  fs::create_directories(root / "generated/delta.h");
  fs::create_directories(root / "modular/modular/llama.h");  // the first candidate for an include of llama.h
  fs::create_symlink("me@here:1234", root / "modular/.#gemma.h");
  const Outcome clean = check();
  EXPECT_EQ(clean.exit_code, 0) << clean.output;
  EXPECT_EQ(clean.output, "");
  EXPECT_EQ(check("gamma").exit_code, 2) << "there is no such spec";

  fs::create_symlink("nowhere.h", root / "modular/epsilon.h");
  const Outcome dangling = check();
  EXPECT_EQ(dangling.exit_code, 2);
  EXPECT_NE(dangling.output.find("modular/epsilon.h: is a dangling symbolic link\n"), std::string::npos)
      << dangling.output;
  fs::remove(root / "modular/epsilon.h");

  ASSERT_EQ(mkfifo((root / "generated/zeta.h").c_str(), 0600), 0);
  const Outcome pipe = check();
  EXPECT_EQ(pipe.exit_code, 1);
  EXPECT_NE(pipe.output.find("generated/zeta.h:1: drift: there is no spec modular/zeta.h, and modgen did not write it"),
            std::string::npos)
      << pipe.output;
}

TEST_F(ModcheckRobustness, RecordsAreValidForConvertedLineEndings) {
  for (const char* spec : {"modular/llama.h", "modular/gemma.h"}) {
    std::string text;
    for (const char c : bytes(spec)) text += c == '\n' ? "\r\n" : std::string(1, c);
    write(spec, text);
  }
  const Outcome trusting = check("--modgen /no/such/modgen");
  EXPECT_EQ(trusting.exit_code, 0) << trusting.output;
  const Outcome full = check("--full");
  EXPECT_EQ(full.exit_code, 0) << full.output;
}

}  // namespace
}  // namespace modgen
