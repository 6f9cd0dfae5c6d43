// Untrusted files are opened without following links, and only if they are regular.
#include "runtime/files/open_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OpenFiles : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  fs::path link(const std::string& name, const fs::path& target) const {
    fs::create_directories(path(name).parent_path());
    fs::create_symlink(target, path(name));
    return path(name);
  }

  static std::string read_error(const fs::path& path, Links links = Links::none) {
    return get_message<std::runtime_error>([&] { read_file(path, kMostTextBytes, links); });
  }
  static std::string write_error(const fs::path& path) {
    return get_message<std::runtime_error>([&] { open_to_write(path, O_CREAT | O_TRUNC); });
  }

  const TemporaryFolder folder_;
  const fs::path secret_ = folder_.write("outside/secret", "secret");
};

TEST_F(OpenFiles, ReadsARegularFile) {
  EXPECT_EQ(read_file(folder_.write("run/config.toml", "text\n")), "text\n");
  EXPECT_EQ(read_file(folder_.write("run/checkpoints/step-00000001/checkpoint.json", "{}")), "{}");
  EXPECT_THAT(read_file("/proc/self/stat"), HasSubstr(")")) << "/proc reports size 0";
  EXPECT_THAT(read_error(path("none")), HasSubstr("none cannot be read: No such file"));
}

TEST_F(OpenFiles, ALinkWithinARunIsAnErrorThatNamesItAndItsTarget) {
  EXPECT_THAT(read_error(link("run/metrics.jsonl", secret_)),
              HasSubstr("run/metrics.jsonl is a symbolic link to " + secret_.string()));
  EXPECT_THAT(write_error(link("run/run.lock", secret_)), HasSubstr("run.lock is a symbolic link to "));
  EXPECT_THAT(write_error(link("run/new.log", path("outside/new"))), HasSubstr("new.log is a symbolic link to "));
  EXPECT_EQ(read_file(secret_), "secret");
  EXPECT_FALSE(is_there(path("outside/new")));
}

TEST_F(OpenFiles, FoldersWithinARunMustNotBeLinksEither) {
  folder_.write("outside/step-00000001/checkpoint.json", "{}");
  for (const auto& [name, inner] :
       {std::pair("run/checkpoints", "step-00000001/checkpoint.json"), std::pair("run/tokenizer", "secret"),
        std::pair("run/trace", "secret"), std::pair("run/tensorboard", "secret")})
    EXPECT_THAT(read_error(link(name, path("outside")) / inner), HasSubstr(std::string(name) + " is a symbolic link"));
  fs::create_directories(path("other/checkpoints"));
  EXPECT_THAT(read_error(link("other/checkpoints/step-00000001", path("outside/step-00000001")) / "checkpoint.json"),
              HasSubstr("checkpoints/step-00000001 is a symbolic link"));
}

TEST_F(OpenFiles, AFolderThatTheUserNamesMayBeALink) {
  folder_.write("run/checkpoints/step-00000001/checkpoint.json", "{}");
  const fs::path linked = link("linked", path("run"));
  EXPECT_EQ(read_file(linked / "checkpoints/step-00000001/checkpoint.json"), "{}");
  EXPECT_EQ(read_file(link("mine", path("run/checkpoints/step-00000001")) / "checkpoint.json"), "{}");
}

TEST_F(OpenFiles, TheBestCheckpointIsALinkToASibling) {
  folder_.write("run/checkpoints/step-00000001/checkpoint.json", "{}");
  const fs::path best = link("run/checkpoints/best", "step-00000001");
  EXPECT_EQ(read_file(best / "checkpoint.json"), "{}");
  folder_.write("outside/step-00000001/checkpoint.json", "{}");
  for (const fs::path& target : {path("outside/step-00000001"), fs::path("../../outside/step-00000001")}) {
    fs::remove(best);
    fs::create_symlink(target, best);
    EXPECT_THAT(read_error(best / "checkpoint.json"), HasSubstr("checkpoints/best is a symbolic link to "));
  }
}

TEST_F(OpenFiles, LinksOfHuggingFacesCachePointToBlobsOfTheSameModel) {
  const std::string cache = "hub/models--a--b/", snapshot = cache + "snapshots/0123/";
  folder_.write(cache + "blobs/f00d", "weights");
  folder_.write("hub/models--a--other/blobs/f00d", "others");
  EXPECT_EQ(read_file(link(snapshot + "config.json", "../../blobs/f00d")), "weights");
  EXPECT_EQ(read_file(link(snapshot + "1_Pooling/config.json", "../../../blobs/f00d")), "weights");
  EXPECT_EQ(read_file(link("mine", path(snapshot)) / "config.json"), "weights");

  for (const char* target : {"../../../models--a--other/blobs/f00d", "../../../../outside/secret", "../../blobs"}) {
    EXPECT_THAT(read_error(link(snapshot + "bad", target)), HasSubstr("bad is a symbolic link"));
    fs::remove(path(snapshot + "bad"));
  }
  link(cache + "blobs/linked", secret_);
  EXPECT_THAT(read_error(link(snapshot + "bad", "../../blobs/linked")), HasSubstr("is a symbolic link"));
  EXPECT_THAT(write_error(path(snapshot + "config.json")), HasSubstr("config.json is a symbolic link"));
}

TEST_F(OpenFiles, RejectsIrregularFilesWithoutBlocking) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  fs::create_directory(path("folder"));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, path("socket").c_str(), sizeof address.sun_path - 1);
  const OpenFile server(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const auto& [name, kind] :
       {std::pair("fifo", "a FIFO"), std::pair("folder", "a folder"), std::pair("socket", "a socket")}) {
    EXPECT_THAT(read_error(path(name)), HasSubstr(std::string(name) + " is " + kind + ", not a regular file"));
    EXPECT_THAT(write_error(path(name)), HasSubstr(std::string(name) + " is " + kind));
  }
  EXPECT_THAT(read_error("/dev/zero"), HasSubstr("/dev/zero is a device"));
  EXPECT_THAT(read_error(link("zero", "/dev/zero"), Links::followed), HasSubstr("zero is a device"));
}

TEST_F(OpenFiles, DoesNotWriteAHardLinkedFile) {
  const fs::path file = folder_.write("run/run.lock", "outside");
  fs::create_hard_link(file, path("other"));
  const std::string error = get_message<std::runtime_error>([&] { open_to_write(file, O_CREAT | O_TRUNC); });
  EXPECT_THAT(error, HasSubstr("has 2 names (hard links)"));
  EXPECT_EQ(read_file(path("other")), "outside");
  EXPECT_EQ(read_file(file), "outside");
}

TEST_F(OpenFiles, FilesThatTheUserNamesMayBeLinks) {
  const fs::path data = link("data.txt", secret_);
  EXPECT_EQ(read_file(data, kMostTextBytes, Links::followed), "secret");
  EXPECT_THAT(read_error(link("gone", path("none")), Links::followed), HasSubstr("gone"));
}

TEST_F(OpenFiles, DoesNotReadATooLargeFile) {
  const fs::path file = folder_.write("run/latest", "x");
  fs::resize_file(file, uintmax_t{1} << 40);
  EXPECT_THAT(read_error(file), HasSubstr("run/latest has 1099511627776 bytes, more than the limit of 268435456"));
}

/// Makes openat2(2) fail in this process, as in kernels and sandboxes that lack it.
void disable_openat2() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {.len = std::size(code), .filter = code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(2);
}

TEST_F(OpenFiles, WithoutOpenat2EachComponentIsChecked) {
  folder_.write("run/config.toml", "text");
  link("run/checkpoints", path("outside"));
  link("run/run.lock", secret_);
  folder_.write("hub/models--a--b/blobs/f00d", "weights");
  link("hub/models--a--b/snapshots/0123/config.json", "../../blobs/f00d");
  const auto check = [&] {
    disable_openat2();
    EXPECT_EQ(read_file(path("run/config.toml")), "text");
    EXPECT_THAT(read_error(path("run/checkpoints/secret")), HasSubstr("checkpoints is a symbolic link"));
    EXPECT_THAT(write_error(path("run/run.lock")), HasSubstr("run.lock is a symbolic link"));
    EXPECT_EQ(read_file(path("hub/models--a--b/snapshots/0123/config.json")), "weights");
    EXPECT_EQ(read_file(secret_), "secret");
    _exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

TEST(RunPaths, RecognizesFoldersOfARunByName) {
  const auto expect = [](const char* path, const char* root, const char* name) {
    const RunPath found = run_path(path);
    EXPECT_EQ(found.root, root) << path;
    EXPECT_EQ(found.name, name) << path;
  };
  expect("/runs/a/metrics.jsonl", "/runs/a", "metrics.jsonl");
  expect("/runs/a/checkpoints/step-00000010/config.json", "/runs/a", "checkpoints/step-00000010/config.json");
  expect("/runs/a/checkpoints/", "/runs/a", "checkpoints");
  expect("runs/a/tokenizer/tokenizer.json", "runs/a", "tokenizer/tokenizer.json");
  expect("checkpoints/step-00000010/config.json", ".", "checkpoints/step-00000010/config.json");
  expect("./config.toml", ".", "config.toml");
  expect("/models/step-by-step/config.json", "/models/step-by-step", "config.json");
  expect("/checkpoints/llama/config.json", "/checkpoints/llama", "config.json");
}

}  // namespace
}  // namespace modular
