// parallel.backend: collectives through a user's library, and rejected backends.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

class BackendTest : public ModrunTest {
 protected:
  std::string calls() const {
    const auto file = folder_.path() / "calls";
    return std::filesystem::exists(file) ? get_bytes(file) : "";
  }
  /// Sets a variable in the environment of the programs that the test starts.
  struct Variable {
    Variable(const char* name, const std::string& value) : name(name) { setenv(name, value.c_str(), 1); }
    ~Variable() { unsetenv(name); }
    const char* name;
  };
};

TEST_F(BackendTest, LibraryBackendTrainsIdentically) {
  const Variable file("COUNTING_BACKEND", folder_.path() / "calls");
  const std::vector<std::string> meshes[] = {
      {},                                               // FSDP: broadcasts and all-to-all
      {"--dp-replicate", "2"},                          // all-reduces
      {"--tp", "2"},                                    // all-reduces
      {"--pp", "2", "--set", "train.micro_batches=2"},  // point-to-point
  };
  const char* const expected[] = {"ba", "r", "r", "s"};
  for (size_t i = 0; i < std::size(meshes); ++i) {
    const std::string name = "mesh" + std::to_string(i);
    const std::vector<std::string> launcher = {"--nproc-per-node", "2"};
    ASSERT_EQ(train(name, meshes[i], launcher).status, 0);
    EXPECT_EQ(calls(), "") << "without being asked for";
    auto options = meshes[i];
    options.insert(options.end(), {"--set", "parallel.backend=" COUNTING_BACKEND});
    const auto counted = train(name + "-counted", options, launcher);
    ASSERT_EQ(counted.status, 0) << counted.output;
    expect_same_checkpoint(name, name + "-counted", "step-00000010");
    for (const char call : std::string(expected[i])) {
      const std::string made = calls();
      EXPECT_GE(std::count(made.begin(), made.end(), call), 20) << call << " on mesh " << i << ", two ranks, ten steps";
    }
    std::filesystem::remove(folder_.path() / "calls");
  }
}

/// Covers the entire loop, with evaluations and checkpoints; late_backend_test covers the strategies.
TEST_F(BackendTest, WaitsForEveryTransfer) {
  const std::vector<std::string> meshes[] = {
      {}, {"--pp", "2", "--set", "train.micro_batches=2", "--set", "model.config.tie_word_embeddings=true"}};
  for (auto options : meshes) {
    const std::string name = options.empty() ? "sharded" : "cut";
    options.insert(options.end(), {"--set", "eval.every=4", "--set", "checkpoint.every=4"});
    ASSERT_EQ(train(name, options, {"--nproc-per-node", "2"}).status, 0);
    options.insert(options.end(), {"--set", "parallel.backend=" LATE_BACKEND});
    const auto late = train(name + "-late", options, {"--nproc-per-node", "2"});
    ASSERT_EQ(late.status, 0) << late.output;
    expect_same_checkpoint(name, name + "-late", "step-00000010");
  }
}

TEST_F(BackendTest, CpuOnlyUsesGloo) {
  const auto run = train("run", {"--set", "parallel.backend=gloo"}, {"--nproc-per-node", "2"});
  EXPECT_EQ(run.status, 0) << run.output;
}

TEST_F(BackendTest, RejectsAnUnusableBackendBeforeStartingRanks) {
  const auto error = [&](const std::vector<std::string>& settings) {
    const auto rejected = train("run", settings, {"--nproc-per-node", "2"});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_EQ(std::count(rejected.output.begin(), rejected.output.end(), '\n'), 1) << rejected.output;
    return rejected.output;
  };
  EXPECT_THAT(error({"--set", "parallel.backend=./none.so"}), HasSubstr("parallel.backend: the library cannot be "));
  EXPECT_THAT(error({"--set", "parallel.backend=" LIBC10}), HasSubstr("libc10.so lacks modular_make_backend: define"));
  EXPECT_THAT(error({"--set", "parallel.backend=mpi"}), HasSubstr("parallel.backend is \"mpi\": it must be auto, "));
  EXPECT_THAT(error({"--set", "parallel.backend=nccl", "--set", "train.device=cpu"}),
              HasSubstr("parallel.backend is nccl, which moves only GPU memory, but train.device is cpu"));
  EXPECT_THAT(error({"--set", "parallel.backend=gloo", "--set", "train.device=cuda"}),
              HasSubstr("parallel.backend is gloo, which moves only host memory, but train.device is cuda"));
}

TEST_F(BackendTest, ReportsExceptionsOfALibrary) {
  const Variable fails("COUNTING_BACKEND_FAILS", "1");
  const auto failed = train("run", {"--set", "parallel.backend=" COUNTING_BACKEND}, {"--nproc-per-node", "2"});
  EXPECT_EQ(failed.status, 1) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("why:   rank"));
  EXPECT_THAT(failed.output, HasSubstr("cannot join the process group dp_shard: the switch is off"));
}

TEST_F(BackendTest, RejectsNondeterministicCublasWorkspace) {
  EXPECT_EQ(train("run", {"--set", "train.deterministic=true"}).status, 0);
  const Variable workspace("CUBLAS_WORKSPACE_CONFIG", ":0:0");
  const auto rejected = train("other", {"--set", "train.deterministic=true"});
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output,
              HasSubstr("train.deterministic: CUBLAS_WORKSPACE_CONFIG is \":0:0\", with which cuBLAS"));
}

}  // namespace
}  // namespace modular
