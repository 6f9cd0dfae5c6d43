// Run folders written by others: whatever replaces their files, commands end soon, use little memory, and do not read,
// write or remove anything outside of the folder.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "runtime/files/open_file.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// A replacement for a file or a folder.
enum class Planted { link, link_to_zero, device, fifo, folder, huge, empty };

constexpr std::array kPlanted = {std::pair(Planted::link, "link"),     std::pair(Planted::link_to_zero, "link_to_zero"),
                                 std::pair(Planted::device, "device"), std::pair(Planted::fifo, "fifo"),
                                 std::pair(Planted::folder, "folder"), std::pair(Planted::huge, "huge"),
                                 std::pair(Planted::empty, "empty")};

struct Measured {
  int status = -1;  // as in a shell; -1: it did not end in time
  int64_t most_bytes = 0;
  std::string output;
};

/// Runs modrun for at most 20 seconds.
Measured measured(const Words& arguments, const fs::path& output) {
  Words words = with({MODRUN}, arguments);
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(open("/dev/null", O_RDONLY), 0), dup2(out, 1), dup2(out, 2);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(MODRUN, pointers.data());
    _exit(127);
  }
  pollfd end = {static_cast<int>(syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  const bool in_time = poll(&end, 1, 20'000) == 1;
  if (!in_time) kill(-child, SIGKILL);
  close(end.fd);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  Measured run{.most_bytes = usage.ru_maxrss * 1024, .output = read_file(output)};
  if (in_time) run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

class HostileFolder : public ModrunTest {
 protected:
  HostileFolder() {
    folder_.write("outside/untouched", "as it was");
    const auto run = train("whole", set({"train.steps=2", "checkpoint.best=loss", "metrics.tensorboard=true",
                                         "metrics.trace=[1,1]", "eval.every=1", "eval.samples=4"}));
    EXPECT_EQ(run.status, 0) << run.output;
    folder_.write("runs/whole/tokenizer/tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})");
    folder_.write("runs/whole/tokenizer/special_tokens_map.json", R"({"eos_token": "a"})");
  }

  fs::path run() const { return run_folder("run"); }
  fs::path outside() const { return folder_.path() / "outside"; }
  fs::path exported() const { return folder_.path() / "exported"; }

  void copy_run() const {
    fs::remove_all(run());
    fs::copy(run_folder("whole"), run(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  /// Makes a copy of the run with a replacement for `name`. A link points to the original, outside of the copy.
  void plant(const std::string& name, Planted planted) const {
    copy_run();
    const fs::path path = run() / name, original = outside() / path.filename();
    fs::remove_all(original);
    fs::rename(path, original);
    switch (planted) {
      case Planted::link:
        return fs::create_symlink(original, path);
      case Planted::link_to_zero:
        return fs::create_symlink("/dev/zero", path);
      case Planted::device:
        if (mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) fs::create_symlink("/dev/zero", path);
        return;
      case Planted::fifo:
        ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
        return;
      case Planted::folder:
        fs::create_directory(path);
        return;
      case Planted::huge:
        std::ofstream{path};
        return fs::resize_file(path, uintmax_t{1} << 36);
      case Planted::empty:
        std::ofstream{path};
    }
  }

  /// Names, contents and times of everything outside of the run.
  std::map<std::string, std::string> seen_outside() const {
    std::map<std::string, std::string> seen;
    for (const auto& entry : fs::recursive_directory_iterator(outside()))
      seen[entry.path()] = fmt::format("{} {}", entry.last_write_time().time_since_epoch().count(),
                                       entry.is_regular_file() ? get_bytes(entry.path()) : "");
    return seen;
  }

  Words split_words(const std::string& command) const {
    const std::string folder = run().string();
    if (command == "resume")
      return with({"train", folder, "--resume"},
                  set({"train.steps=3", "metrics.trace=[3,3]", "metrics.tensorboard=true", "checkpoint.best=loss"}));
    if (command == "overwrite") return {"train", folder, "--overwrite", "--set", "train.steps=1"};
    if (command == "sample") return {"sample", folder, "--prompt", "a", "--set", "sample.tokens=2"};
    if (command == "export") return {"export", folder + "/checkpoints", exported().string()};
    if (command == "best") return {"export", folder + "/checkpoints/best", exported().string()};
    if (command == "import") return {"import", folder + "/checkpoints/step-00000002", exported().string()};
    if (command == "report") return {"report", folder, "--out", (folder_.path() / "report.html").string()};
    if (command == "measure") return {"measure", folder, "--steps", "1", "--warm-up", "0"};
    return {command, folder};
  }

  /// Runs a command, and expects it to end soon, to use little memory, and to change nothing outside.
  Measured expect_contained(const std::string& command) const {
    fs::remove_all(exported());
    const auto before = seen_outside();
    const Measured ended = measured(split_words(command), folder_.path() / "output");
    EXPECT_GE(ended.status, 0) << "it did not end";
    EXPECT_LT(ended.status, 128) << ended.output;
    EXPECT_LT(ended.most_bytes, int64_t{1} << 30);
    EXPECT_EQ(seen_outside(), before);
    return ended;
  }
};

struct PlantedFile {
  const char* name;
  Words commands;  // that read or write it: the first meets every kind of file, the others links and FIFOs
};

TEST_F(HostileFolder, ReportsUnexpectedFileTypes) {
  const std::vector<PlantedFile> files = {
      {"config.toml", {"eval", "plan", "report", "resume"}},
      {"data.manifest", {"resume"}},
      {"metrics.jsonl", {"report", "resume"}},
      {"run.lock", {"resume", "overwrite"}},
      {"checkpoints/latest", {"eval", "export", "resume"}},
      {"checkpoints/step-00000002/config.json", {"export", "import"}},
      {"checkpoints/step-00000002/checkpoint.json", {"eval", "export", "resume"}},
      {"checkpoints/step-00000002/rank-00000.safetensors", {"sample", "export", "resume"}},
      {"tokenizer/special_tokens_map.json", {"export"}},
  };
  for (const auto& [name, commands] : files)
    for (const auto& [planted, kind] : kPlanted) {
      SCOPED_TRACE(fmt::format("{} as {}", name, kind));
      plant(name, planted);
      const bool for_all = planted == Planted::link || planted == Planted::fifo;
      for (const std::string& command : for_all ? commands : Words{commands.front()}) {
        SCOPED_TRACE(command);
        const Measured ended = expect_contained(command);
        const bool is_lock = std::string(name) == "run.lock";  // its text is rewritten
        if (planted == Planted::empty || (planted == Planted::huge && is_lock)) continue;
        EXPECT_NE(ended.status, 0) << ended.output;
        EXPECT_THAT(ended.output, HasSubstr(fs::path(name).filename().string()));
        if (planted == Planted::link || planted == Planted::link_to_zero)
          EXPECT_THAT(ended.output, HasSubstr(std::string(name) + " is a symbolic link to "));
        EXPECT_FALSE(fs::exists(exported()));
      }
    }
}

TEST_F(HostileFolder, ReportsFoldersThatAreLinks) {
  const std::vector<PlantedFile> folders = {{"checkpoints", {"eval", "sample", "export", "resume"}},
                                            {"checkpoints/step-00000002", {"eval", "export", "resume", "import"}},
                                            {"tokenizer", {"export", "resume"}},
                                            {"tensorboard", {"resume"}},
                                            {"trace", {"resume"}}};
  for (const auto& [name, commands] : folders)
    for (const Planted planted : {Planted::link, Planted::fifo}) {
      SCOPED_TRACE(fmt::format("{}, {}", name, static_cast<int>(planted)));
      plant(name, planted);
      for (const std::string& command : commands) {
        SCOPED_TRACE(command);
        const Measured ended = expect_contained(command);
        if (planted == Planted::fifo) continue;
        EXPECT_NE(ended.status, 0) << ended.output;
        EXPECT_THAT(ended.output, HasSubstr(std::string(name) + " is a symbolic link to "));
      }
    }
}

TEST_F(HostileFolder, RejectsACheckpointListedByAPath) {
  const fs::path outside = folder_.path() / "outside";
  fs::create_directories(outside);
  fs::copy(run_folder("whole") / "checkpoints", outside, fs::copy_options::recursive);
  const std::string name = get_bytes(outside / "latest").substr(0, 13);
  for (const std::string& listed : {"../../../outside/" + name, (outside / name).string(), "./" + name}) {
    folder_.write("runs/whole/checkpoints/latest", listed + "\n");
    const Finished ended = modrun({"eval", run_folder("whole").string()});
    EXPECT_NE(ended.status, 0) << listed;
    EXPECT_THAT(ended.output, HasSubstr("which does not exist")) << listed;
  }
}

TEST_F(HostileFolder, BestLinkMustPointToASibling) {
  copy_run();
  EXPECT_EQ(expect_contained("best").status, 0);
  plant("checkpoints/best", Planted::link);
  fs::remove(run() / "checkpoints/best");
  fs::copy(run_folder("whole") / "checkpoints/step-00000002", outside() / "step-00000002", fs::copy_options::recursive);
  fs::create_symlink(outside() / "step-00000002", run() / "checkpoints/best");
  const Measured ended = expect_contained("best");
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.output, HasSubstr("checkpoints/best is a symbolic link to "));
}

TEST_F(HostileFolder, OverwriteRemovesLinksButNotTheirTargets) {
  for (const char* name : {"checkpoints", "tensorboard", "trace", "metrics.jsonl", "config.toml"}) {
    SCOPED_TRACE(name);
    plant(name, Planted::link);
    const auto before = seen_outside();
    const auto ended = modrun(training("run", {"--overwrite", "--set", "train.steps=1"}));
    EXPECT_EQ(ended.status, 0) << ended.output;
    EXPECT_EQ(seen_outside(), before);
    EXPECT_FALSE(fs::is_symlink(run() / name));
  }
}

TEST_F(HostileFolder, DoesNotWriteAnUnfinishedReplacementThroughALink) {
  copy_run();
  for (const char* name : {"config.toml.partial", "metrics.jsonl.partial", "checkpoints/latest.partial"})
    fs::create_symlink(outside() / "untouched", run() / name);
  EXPECT_EQ(expect_contained("resume").status, 0);
}

TEST_F(HostileFolder, DoesNotWriteLogsThroughLinks) {
  const fs::path logs = folder_.path() / "logs";
  for (const char* name : {"rank1.log", "rank1.status", "rank1.error.json"}) {
    SCOPED_TRACE(name);
    fs::remove_all(logs);
    fs::create_directory(logs);
    fs::create_symlink(outside() / "untouched", logs / name);
    const auto before = seen_outside();
    const auto ended = train("logged", {"--overwrite"}, {"--nproc-per-node", "2", "--log-dir", logs.string()});
    EXPECT_EQ(seen_outside(), before);
    if (std::string(name) == "rank1.log") EXPECT_THAT(ended.output, HasSubstr("rank1.log is a symbolic link to "));
  }
}

TEST_F(HostileFolder, IndexMustNameFilesInItsFolder) {
  copy_run();
  ASSERT_EQ(expect_contained("export").status, 0);
  const fs::path model = folder_.path() / "model";
  fs::copy(exported(), model, fs::copy_options::recursive);
  fs::rename(model / "model.safetensors", outside() / "model.safetensors");
  std::map<std::string, std::string> names;
  fs::create_directory_symlink(outside(), model / "inner");
  for (const char* name : {"../outside/model.safetensors", "inner/model.safetensors"}) {
    folder_.write("model/model.safetensors.index.json",
                  nlohmann::json{{"weight_map", {{"model.norm.weight", name}}}}.dump());
    const auto ended = modrun({"import", model.string(), (folder_.path() / "imported").string()});
    EXPECT_NE(ended.status, 0);
    EXPECT_THAT(ended.output, AnyOf(HasSubstr("../outside/model.safetensors"), HasSubstr("inner is a symbolic link")));
  }
}

TEST_F(HostileFolder, ReadsModelsInHuggingFacesCache) {
  copy_run();
  ASSERT_EQ(expect_contained("export").status, 0);
  const fs::path cache = folder_.path() / "hub/models--a--b", snapshot = cache / "snapshots/0123";
  fs::create_directories(cache / "blobs");
  fs::create_directories(snapshot);
  for (const auto& entry : fs::directory_iterator(exported())) {
    const fs::path name = entry.path().filename();
    fs::copy_file(entry.path(), cache / "blobs" / name);
    fs::create_symlink(fs::path("../../blobs") / name, snapshot / name);
  }
  const std::string imported = (folder_.path() / "imported").string();
  const auto ended = modrun({"import", snapshot.string(), imported});
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_TRUE(fs::exists(imported + "/tokenizer/special_tokens_map.json"));
}

TEST_F(HostileFolder, RunFailsIfItsFolderIsRemovedOrRenamed) {
  for (const bool removed : {true, false})
    for (const char* every : {"50", "-1"}) {
      SCOPED_TRACE(fmt::format("{}, checkpoint.every={}", removed ? "removed" : "renamed", every));
      fs::remove_all(run());
      const auto started = testing::start_program(
          with({MODRUN}, training("run", set({fmt::format("checkpoint.every={}", every), "train.steps=400",
                                              "checkpoint.best=", "eval.samples=4"}))),
          folder_.path(), {"OMP_NUM_THREADS=1"});
      testing::await(started, [&] { return fs::exists(run()) && steps_so_far("run") >= 5; });
      const fs::path moved = folder_.path() / fmt::format("moved{}{}", removed, every);
      fs::rename(run(), moved);
      if (removed) fs::remove_all(moved);
      const auto ended = testing::end_of_program(started);
      EXPECT_EQ(ended.status, 1) << ended.output;
      EXPECT_THAT(ended.output, AllOf(HasSubstr("train.dir " + run().string()),
                                      HasSubstr("was removed or renamed while the run was in progress")));
      EXPECT_FALSE(fs::exists(run()));
    }
}

}  // namespace
}  // namespace modular
