#include "runtime/mesh/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <stdexcept>

namespace modular {
namespace {

/// Sets a launcher's variables and removes those of all other launchers for the duration of a test.
class EnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) unsetenv(name);
  }
  void TearDown() override { SetUp(); }
  static Environment with(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return Environment::from_process();
  }
  static std::string error(const std::map<std::string, std::string>& variables) {
    try {
      with(variables);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  static constexpr const char* kNames[] = {"RANK",
                                           "WORLD_SIZE",
                                           "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "MASTER_ADDR",
                                           "MASTER_PORT",
                                           "TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_RESTART_COUNT",
                                           "SLURM_PROCID",
                                           "SLURM_NTASKS",
                                           "SLURM_STEP_NUM_TASKS",
                                           "SLURM_LOCALID",
                                           "SLURM_STEP_TASKS_PER_NODE",
                                           "SLURM_NTASKS_PER_NODE",
                                           "SLURM_STEP_NODELIST",
                                           "SLURM_JOB_ID",
                                           "SLURM_STEP_ID",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE"};
};

TEST_F(EnvironmentTest, WithoutALauncherIsAWorldOfOne) {
  const auto environment = with({});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.world_size, 1);
  EXPECT_EQ(environment.local_world_size, 1);
}

TEST_F(EnvironmentTest, ReadsTorchrun) {
  const auto environment = with({{"RANK", "5"},
                                 {"WORLD_SIZE", "8"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "4"},
                                 {"MASTER_ADDR", "node0"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(environment.rank, 5);
  EXPECT_EQ(environment.world_size, 8);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world_size, 4);
  EXPECT_EQ(environment.master_addr, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_TRUE(environment.launcher_hosts_store);
  EXPECT_EQ(environment.attempt, 2);
}

TEST_F(EnvironmentTest, ReadsSlurmsSrun) {
  const auto environment = with({{"SLURM_PROCID", "3"},
                                 {"SLURM_STEP_NUM_TASKS", "8"},
                                 {"SLURM_LOCALID", "3"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                                 {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                                 {"SLURM_JOB_ID", "123456"},
                                 {"SLURM_STEP_ID", "0"}});
  EXPECT_EQ(environment.rank, 3);
  EXPECT_EQ(environment.world_size, 8);
  EXPECT_EQ(environment.local_rank, 3);
  EXPECT_EQ(environment.local_world_size, 4);
  EXPECT_EQ(environment.master_addr, "gpu07");
  EXPECT_GE(environment.master_port, 15000);
  EXPECT_FALSE(environment.launcher_hosts_store);
}

TEST_F(EnvironmentTest, AllRanksOfASlurmStepNameTheSamePortAndStepsDiffer) {
  const std::map<std::string, std::string> step = {{"SLURM_PROCID", "0"},
                                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                                   {"SLURM_STEP_NODELIST", "a,b"},
                                                   {"SLURM_JOB_ID", "77"},
                                                   {"SLURM_STEP_ID", "3"}};
  const auto first = with(step).master_port;
  EXPECT_EQ(with({{"SLURM_PROCID", "1"}}).master_port, first);
  EXPECT_NE(with({{"SLURM_STEP_ID", "4"}}).master_port, first);
  EXPECT_EQ(with({{"MASTER_PORT", "4242"}, {"MASTER_ADDR", "10.0.0.1"}}).master_port, 4242);
}

TEST_F(EnvironmentTest, ASlurmBatchScriptIsAWorldOfOne) {
  EXPECT_EQ(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "1"}}).world_size, 1);
}

TEST_F(EnvironmentTest, ReadsOpenMpi) {
  const auto environment = with({{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"MASTER_PORT", "4000"}});
  EXPECT_EQ(environment.rank, 1);
  EXPECT_EQ(environment.world_size, 2);
  EXPECT_EQ(environment.master_addr, "127.0.0.1");
}

TEST_F(EnvironmentTest, ErrorsNameTheVariable) {
  EXPECT_EQ(error({{"RANK", "1"}}), "RANK is set but WORLD_SIZE is not: set both, or neither");
  SetUp();
  EXPECT_EQ(error({{"RANK", "two"}, {"WORLD_SIZE", "2"}}),
            "the environment variable RANK is \"two\": it must be an integer from 0 to 2147483647");
  SetUp();
  EXPECT_EQ(error({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK=2 must be below WORLD_SIZE=2");
  SetUp();
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
            "MASTER_PORT is not set: set it to a free port of rank 0's machine, the same on all ranks");
  SetUp();
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1234"}}),
            "the job spans machines but MASTER_ADDR is not set: set it to the host name of rank 0");
}

TEST(FirstSlurmHost, ReadsSlurmsNodeLists) {
  EXPECT_EQ(first_slurm_host("login1"), "login1");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("node[03-05,9],login1"), "node03");
  EXPECT_EQ(first_slurm_host("rack[1,2]-ib"), "rack1-ib");
  EXPECT_EQ(first_slurm_host("n[7],m[1-2]"), "n7");
}

TEST_F(EnvironmentTest, SlurmsTasksPerNodeBeginWithANumber) {
  const auto tasks = [](const std::string& text) {
    return with({{"SLURM_STEP_NUM_TASKS", "8"},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_STEP_TASKS_PER_NODE", text},
                 {"MASTER_ADDR", "a"}})
        .local_world_size;
  };
  EXPECT_EQ(tasks("4(x2)"), 4);
  EXPECT_EQ(tasks("8"), 8);
  for (const std::string text : {"99999999999999999999", "-1", "0", "(x2)", "four"})
    EXPECT_NE(error({{"SLURM_STEP_NUM_TASKS", "8"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_STEP_TASKS_PER_NODE", text},
                     {"MASTER_ADDR", "a"}})
                  .find("the environment variable SLURM_STEP_TASKS_PER_NODE is \"" + text +
                        "\": it must begin with an "
                        "integer from 1 to 2147483647"),
              std::string::npos)
        << text;
}

}  // namespace
}  // namespace modular
