// modgen under problems of the machine: caches that are not writable or are damaged, full disks, names that are not
// files, foreign line endings, inherited limits and signals.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <tuple>

#include "checks/digest.h"
#include "generator/source/files.h"
#include "generator/workers.h"
#include "tests/generator/command_line.h"
#include "tests/support/permissions.h"

namespace modgen {
namespace {

/// Runs a shell command, with `modgen` as the program.
Outcome shell(const std::string& line) {
  const std::string quoted = "'modgen() { \"" MODGEN "\" \"$@\"; }; " + line + "'";
  std::FILE* pipe = popen(("sh -c " + quoted + " 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot start a shell");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

std::string with_carriage_returns(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "\r\n" : std::string(1, c);
  return result;
}

class Robustness : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    use("golden/alias_and_inferred_classes");
  }
  /// The files in a folder, by name.
  static std::map<std::string, std::string> files(const fs::path& folder) {
    std::map<std::string, std::string> result;
    if (fs::exists(folder))
      for (const auto& entry : fs::directory_iterator(folder))
        result[entry.path().filename()] = read_file(entry.path());
    return result;
  }
  void rewrite(const std::string& family, const std::function<std::string(const std::string&)>& change) {
    const fs::path path = root / "modular" / (family + ".h");
    write_file(path, change(read_file(path)));
  }
  /// A copy of the tests' cache folder.
  fs::path copy_cache() {
    EXPECT_EQ(modgen(in_root + "--output-dir " + (folder.path() / "first").string() + " --all").exit_code, 0);
    const fs::path copy = folder.path() / "cache";
    fs::create_directories(copy);
    for (const auto& entry : fs::directory_iterator(*cache_folder()))
      if (entry.path().filename().string().starts_with("prelude-") && fs::exists(entry.path() / "files"))
        fs::copy(entry.path(), copy / entry.path().filename(), fs::copy_options::recursive);
    return copy;
  }
  static std::vector<fs::path> preludes(const fs::path& cache) {
    std::vector<fs::path> result;
    for (const auto& entry : fs::directory_iterator(cache)) result.push_back(entry.path());
    return result;
  }
};

using Cache = Robustness;

TEST_F(Cache, WithARelativePathIsIgnored) {
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  ASSERT_EQ(setenv("XDG_CACHE_HOME", "build/cache", 1), 0);
  const std::optional<fs::path> found = cache_folder();
  before ? setenv("XDG_CACHE_HOME", kept.c_str(), 1) : unsetenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  EXPECT_EQ(found, home && *home ? std::optional(fs::path(home) / ".cache/modgen") : std::nullopt);
}

TEST_F(Cache, ThatIsReadOnlyIsUsed) {
  const std::optional<std::string> prefix = without_override();
  if (!prefix) GTEST_SKIP() << "root's own permissions cannot be dropped here";
  const fs::path cache = copy_cache();
  const Outcome outcome =
      shell("chmod -R a-w " + cache.string() + "; TMPDIR=" + folder.path().string() + "; export TMPDIR; " + *prefix +
            MODGEN " " + in_root + "--all --cache-dir " + cache.string());
  shell("chmod -R u+w " + cache.string());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  EXPECT_FALSE(fs::exists(folder.path() / ("modgen-" + std::to_string(geteuid())))) << "no other folder is needed";
}

TEST_F(Cache, ThatCannotBeCreatedIsReplacedByATemporaryOneWithOneNotice) {
  write_file(folder.path() / "file", "");
  const std::string command = "TMPDIR=" + folder.path().string() + " modgen --cache-dir " +
                              (folder.path() / "file/cache").string() + " " + in_root;
  const Outcome first = shell(command + "--all");
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_TRUE(says(first, "file/cache: cannot be written: Not a directory; the precompiled prelude is kept in " +
                              (folder.path() / "modgen-").string()))
      << first.output;
  EXPECT_EQ(first.output.find('\n'), first.output.size() - 1) << first.output;
  EXPECT_TRUE(fs::exists(generated / "beta.h"));
  const Outcome second = shell(command + "--force --all");
  EXPECT_EQ(second.exit_code, 0);
  EXPECT_EQ(second.output, "");
}

TEST_F(Cache, WritableByOthersIsRejected) {
  const fs::path temporary = folder.path() / ("modgen-" + std::to_string(geteuid()));
  fs::create_directories(temporary);
  fs::permissions(temporary, fs::perms::all);
  write_file(folder.path() / "file", "");
  const Outcome outcome = shell("TMPDIR=" + folder.path().string() + " modgen --cache-dir " +
                                (folder.path() / "file/cache").string() + " " + in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, temporary.string() + ": other users may have written to it")) << outcome.output;
}

// Damaged in the middle: Clang itself would read it, or crash.
TEST_F(Cache, WithACorruptPreludeIsRepairedByTwoConcurrentProcesses) {
  const fs::path cache = copy_cache();
  std::map<fs::path, std::string> damaged;
  for (const fs::path& prelude : preludes(cache)) {
    std::string& bytes = damaged[prelude] = read_file(prelude / "modular.pch");
    for (size_t at = bytes.size() / 2; at < bytes.size() / 2 + 4096; ++at) bytes[at] = static_cast<char>(~bytes[at]);
    write_file(prelude / "modular.pch", bytes);
  }
  const std::string run = "modgen --cache-dir " + cache.string() + " " + in_root + "--all --output-dir ";
  const std::string one = (folder.path() / "one").string(), two = (folder.path() / "two").string();
  const Outcome outcome = shell(run + one + " & first=$!; " + run + two + "; second=$?; wait $first && exit $second");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(files(one), files(folder.path() / "first"));
  EXPECT_EQ(files(two), files(folder.path() / "first"));
  EXPECT_EQ(std::ranges::count_if(damaged,
                                  [](const auto& one) { return read_file(one.first / "modular.pch") != one.second; }),
            1)
      << "the prelude in use is built again";
  for (const fs::path& prelude : preludes(cache))
    for (const auto& entry : fs::directory_iterator(prelude))
      EXPECT_EQ(entry.path().filename().string().find(".new-"), std::string::npos) << entry.path();
}

TEST_F(Cache, WithATruncatedPreludeIsRepaired) {
  const fs::path cache = copy_cache();
  for (const fs::path& prelude : preludes(cache)) {
    const std::string list = read_file(prelude / "files");
    write_file(prelude / "files", list.substr(0, list.size() / 2));
    fs::resize_file(prelude / "modular.pch", 1 << 20);
  }
  const Outcome outcome = modgen(in_root + "--cache-dir " + cache.string() + " --all");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(files(generated), files(folder.path() / "first"));
}

TEST_F(Robustness, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  // The limit of 512 bytes simulates a full disk on any machine.
  const Outcome outcome = shell("ulimit -f 1; modgen --jobs 1 --all " + in_root);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_TRUE(says(outcome, "modgen: " + (generated / "alpha.h").string() + ": cannot be written: File too large"))
      << outcome.output;
  EXPECT_TRUE(files(generated).empty());
}

TEST_F(Robustness, AFullDiskLeavesAllFamiliesOrNone) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const size_t pages = files(generated).size() - 1;  // a file takes one page
  const fs::path disk = folder.path() / "disk";
  fs::create_directories(disk);
  const std::string mount = "mount -t tmpfs -o size=" + std::to_string(4096 * pages) + " tmpfs " + disk.string();
  if (shell("unshare -m " + mount).exit_code != 0) GTEST_SKIP() << "no file system can be mounted here";
  const Outcome outcome = shell("unshare -m sh -c \"" + mount + "; " MODGEN " " + in_root + "--all --output-dir " +
                                disk.string() + "; echo exit \\$?; ls -A " + disk.string() + "\"");
  EXPECT_TRUE(says(outcome, ": cannot be written: No space left on device\nexit 2\n")) << outcome.output;
  EXPECT_TRUE(outcome.output.ends_with("exit 2\n")) << "files were left: " << outcome.output;
}

TEST_F(Robustness, OneFileThatCannotBeReplacedLeavesAllUnchanged) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const auto before = files(generated);
  rewrite("alpha", [](const std::string& text) { return "// Another comment.\n" + text; });
  fs::remove(generated / "beta.lock");
  fs::create_directories(generated / "beta.lock");
  const Outcome outcome = modgen(in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, "beta.lock: is a folder, not a file")) << outcome.output;
  fs::remove(generated / "beta.lock");
  auto after = files(generated);
  after["beta.lock"] = before.at("beta.lock");
  EXPECT_EQ(after, before);
}

TEST_F(Robustness, FilesOfKilledRunsAreRemovedByTheNextOne) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const auto expected = files(generated);
  write_file(generated / "beta.h.new-4711-0", "half");
  write_file(generated / "alpha.lock.new-4711-12", "");
  EXPECT_EQ(modgen(in_root + "--force --all").exit_code, 0);
  EXPECT_EQ(files(generated), expected);
  // A process that still writes holds a lock.
  const std::string used = (generated / "beta.h.new-1-0").string();
  write_file(used, "half");
  const Outcome outcome = shell("exec 9<" + used + "; flock 9; modgen --force --all " + in_root);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(used));
}

TEST_F(Robustness, FullStandardOutputIsAnErrorNotADifference) {
  for (const char* arguments : {"--diff --all ", "--emit deps --all "}) {
    const Outcome outcome = shell("modgen " + (arguments + in_root) + ">/dev/full");
    EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
    EXPECT_TRUE(says(outcome, "standard output cannot be written")) << outcome.output;
  }
}

TEST_F(Robustness, AnUnknownFlagIsAnErrorNotADifference) { EXPECT_EQ(modgen(in_root + "--chekc --all").exit_code, 2); }

TEST_F(Robustness, CheckIgnoresRecords) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const std::string edited = read_file(generated / "beta.h") + "// by hand\n";
  Record record = parse_record(read_file(generated / "beta.lock"));
  record.output = digest(edited);
  write_file(generated / "beta.h", edited);
  write_file(generated / "beta.lock", to_text(record));
  EXPECT_EQ(modgen(in_root + "--all").exit_code, 0) << "a plain run trusts the record";
  EXPECT_EQ(read_file(generated / "beta.h"), edited);
  const Outcome outcome = modgen(in_root + "--check --all");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(says(outcome, "beta.h is not what modular/beta.h says")) << outcome.output;
}

TEST_F(Robustness, ForceRewritesUnchangedFiles) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  struct stat before{}, after{};
  stat((generated / "beta.h").c_str(), &before);
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  stat((generated / "beta.h").c_str(), &after);
  EXPECT_EQ(after.st_ino, before.st_ino);
  ASSERT_EQ(modgen(in_root + "--force --all").exit_code, 0);
  stat((generated / "beta.h").c_str(), &after);
  EXPECT_NE(after.st_ino, before.st_ino);
  EXPECT_TRUE(says(modgen(in_root + "--force --check --all"), "--force writes files and cannot be combined with"));
}

TEST_F(Robustness, AFolderNamedLikeASpecIsIgnored) {
  fs::create_directories(root / "modular/gamma.h");
  write_file(root / "modular/.alpha.h", "an editor's\n");
  fs::create_symlink("me@here:1234", root / "modular/.#alpha.h");  // Emacs, while alpha.h is edited
  fs::create_directories(generated / "gamma.h");
  const Outcome outcome = modgen(in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  EXPECT_TRUE(says(modgen(in_root + "gamma"), "there is no spec modular/gamma.h below"));
}

TEST_F(Robustness, AnUnreadableSpecIsReported) {
  const fs::path gamma = root / "modular/gamma.h";
  fs::create_symlink("nowhere.h", gamma);
  for (const char* argument : {"--all", "gamma"}) {
    const Outcome outcome = modgen(in_root + argument);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.output,
              "modgen: " + fs::canonical(root).string() + "/modular/gamma.h: is a dangling symbolic link\n");
  }
  fs::remove(gamma);
  ASSERT_EQ(mkfifo(gamma.c_str(), 0600), 0);
  for (const char* argument : {"--all", "gamma"}) {
    const Outcome outcome = modgen(in_root + argument);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(says(outcome, "modular/gamma.h: is not a regular file\n")) << outcome.output;
  }
  fs::remove(gamma);
  write_file(gamma, "#pragma once\n");
  fs::permissions(gamma, fs::perms::none);
  if (const std::optional<std::string> prefix = without_override()) {
    const Outcome outcome = shell(*prefix + MODGEN " " + in_root + "--all");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(says(outcome, "modular/gamma.h: cannot be read: Permission denied\n")) << outcome.output;
  }
}

TEST_F(Robustness, APipeOnTheIncludePathIsSkipped) {
  // "modular/alpha.h" is searched next to the including file before it is searched below the root.
  fs::create_directories(root / "modular/modular");
  ASSERT_EQ(mkfifo((root / "modular/modular/alpha.h").c_str(), 0600), 0);
  const Outcome outcome = modgen(in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(Robustness, ACopyOfThePreludeIsNamed) {
  fs::copy_file(MODULAR_SOURCE_DIR "/modular/modular.h", root / "modular/modular.h");
  const Outcome outcome = modgen(in_root + "--all");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(says(outcome, fs::canonical(root).string() + "/modular/modular.h hides the prelude that modgen ships"))
      << outcome.output;
  EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 1) << outcome.output;
}

TEST_F(Robustness, AWrongShippedTreeIsNamed) {
  for (const char* arguments : {"--all", "--watch", "--compile-commands"}) {
    const Outcome missing = modgen(in_root + arguments + " --shipped /nowhere");
    EXPECT_EQ(missing.exit_code, 2);
    EXPECT_TRUE(says(missing, "modgen's own tree /nowhere is not a folder")) << missing.output;
    const Outcome empty = modgen(in_root + arguments + " --shipped " + folder.path().string());
    EXPECT_EQ(empty.exit_code, 2);
    EXPECT_TRUE(says(empty, "does not contain modular/modular.h and runtime/model/: set --shipped")) << empty.output;
  }
}

TEST_F(Robustness, ErrorsAtTheEndOfASpecHaveAPlace) {
  const std::string text = read_file(root / "modular/beta.h");
  for (const std::string& broken : {text.substr(0, text.size() / 2), text + "template <", text + "struct Beta",
                                    text + "TORCH_CHECK(", text + "R\"(open"}) {
    write_file(root / "modular/beta.h", broken);
    const Outcome outcome = modgen(in_root + "beta");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(says(outcome, "modular/beta.h:")) << outcome.output;
    EXPECT_FALSE(outcome.output.starts_with("error: ") || says(outcome, "\nerror: ")) << outcome.output;
  }
}

/// A spec of a class with `members`.
std::string spec_with(const std::string& members) {
  return "#pragma once\n#include \"modular/modular.h\"\nnamespace modular::gamma {\nMODULAR_FAMILY(Gamma);\n"
         "class GammaBlockImpl : public Module {\n public:\n" +
         members + "};\nTORCH_MODULE(GammaBlock);\n}  // namespace modular::gamma\n";
}

std::string repeated(int count, const std::string& before, const std::string& after) {
  std::string text;
  for (int index = 0; index < count; ++index) text += before + std::to_string(index) + after;
  return text;
}

TEST_F(Robustness, LargeSpecsAreReadInTime) {
  constexpr std::chrono::seconds kMost(20);  // ten times what a run takes on a machine without other load
  std::string bytes(200'000, '\0');
  uint64_t state = 1;
  for (char& byte : bytes)
    byte = static_cast<char>((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
  for (const auto& [name, text, exit_code] :
       {std::tuple{"literal", spec_with("std::string text = \"" + std::string(1'000'000, 'x') + "\";\n"), 2},
        std::tuple{"shorter literal", spec_with("std::string text = \"" + std::string(99'000, 'x') + "\";\n"), 0},
        std::tuple{"comment", spec_with(repeated(40'000, "// line ", " of a comment\n")), 2},
        std::tuple{"fields", spec_with(repeated(20'000, "double x", " = 1.0;\n")), 0},
        std::tuple{"methods", spec_with(repeated(1'000, "double f", "() { return 1.0; }\n")), 0},
        std::tuple{"random bytes", bytes, 2}}) {
    write_file(root / "modular/gamma.h", text);
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = modgen(in_root + "gamma");
    EXPECT_LT(std::chrono::steady_clock::now() - start, kMost) << name;
    EXPECT_LT(outcome.output.size(), 100'000u) << name;
    EXPECT_EQ(outcome.exit_code, exit_code) << name << outcome.output.substr(0, 1000);
  }
}

TEST_F(Robustness, LineEndingsOfSpecsDoNotReachTheOutputs) {
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  const auto expected = files(generated);
  rewrite("alpha", with_carriage_returns);
  rewrite("beta", [](const std::string& text) {  // some lines
    const size_t half = text.find('\n', text.size() / 2);
    return with_carriage_returns(text.substr(0, half)) + text.substr(half);
  });
  const auto written = fs::last_write_time(generated / "beta.h");
  ASSERT_EQ(modgen(in_root + "--all").exit_code, 0);
  EXPECT_EQ(fs::last_write_time(generated / "beta.h"), written) << "the records stay valid";
  const Outcome outcome = modgen(in_root + "--force --all");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(files(generated), expected);
}

TEST_F(Robustness, ErrorsAndFixesKeepTheLineEndings) {
  const std::string before =
      "// A family.\r\n#pragma once\r\n#include \"modular/alpha.h\"\n\r\nnamespace modular::gamma {\r\n"
      "MODULAR_FAMILY(Gamma);\r\n#define GAMMA_SIZE 4\r\nusing GammaBlock = alpha::AlphaBlock;\r\n}\r\n";
  write_file(root / "modular/gamma.h", before);
  const Outcome outcome = modgen(in_root + "gamma");
  EXPECT_TRUE(says(outcome, "modular/gamma.h:7:9: error: ")) << outcome.output;
  EXPECT_EQ(outcome.output.find('\r'), std::string::npos);
  const Outcome mended = modgen(in_root + "--apply-fixes gamma");
  EXPECT_EQ(mended.exit_code, 0) << mended.output;
  EXPECT_EQ(read_file(root / "modular/gamma.h"), before + "#undef GAMMA_SIZE\r\n");
}

TEST_F(Robustness, ForeignChildrenAndIgnoredSignalsAreHarmless) {
  // A shell that runs exec leaves its children to the program. An ignored SIGCHLD is inherited, and then the exit
  // status of children is lost.
  const Outcome outcome = shell("true & exec env --ignore-signal=CHLD " MODGEN " --jobs 2 --all " + in_root);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(generated / "beta.h"));
}

TEST(WorkersTest, AKilledWorkerIsReported) {
  for (const auto& [how, handler] : {std::pair{"default", SIG_DFL}, std::pair{"ignored", SIG_IGN}}) {
    const auto before = std::signal(SIGCHLD, handler);
    try {
      Workers workers(2);
      if (workers.start()) workers.succeed("well");
      if (workers.start()) raise(SIGKILL), _exit(0);
      workers.results();
      ADD_FAILURE() << how << ": nothing was reported";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(),
                   "a worker process was ended by signal 9 (Killed); the machine may have run out of memory");
    }
    std::signal(SIGCHLD, before);
  }
}

TEST(WorkersTest, LeavesForeignChildrenAlone) {
  const pid_t other = fork();
  if (other == 0) _exit(7);
  Workers workers(1);
  for (int index = 0; index < 3; ++index)
    if (workers.start()) workers.succeed(std::to_string(index));
  EXPECT_EQ(workers.results(), (std::vector<std::string>{"0", "1", "2"}));
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(WorkersTest, AWorkerThatCannotHandOverItsResultIsReported) {
  // The file size limit applies to memory files, too.
  const rlimit limit{4096, RLIM_INFINITY};
  try {
    let_writes_fail();
    Workers workers(1);
    if (workers.start()) {
      setrlimit(RLIMIT_FSIZE, &limit);
      workers.succeed(std::string(8192, 'x'));
    }
    workers.results();
    ADD_FAILURE() << "half of a result was accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("could not hand over its result"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace modgen
