#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "runtime/launch/launcher.h"

namespace modular {
namespace {

std::string error(const std::vector<std::string>& arguments) {
  try {
    parse_launch_flags(arguments);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(LaunchFlags, StandBeforeTheCommand) {
  const auto line = parse_launch_flags({"--nproc-per-node", "4", "--show-all", "train", "--nnodes", "2"});
  EXPECT_TRUE(line.needs_launcher());
  EXPECT_EQ(line.options.ranks_per_node, 4);
  EXPECT_EQ(line.options.nodes, 1);
  EXPECT_TRUE(line.options.show_all);
  EXPECT_EQ(line.rest, (std::vector<std::string>{"train", "--nnodes", "2"}));
}

TEST(LaunchFlags, AcceptTorchrunSpelling) {
  const auto line = parse_launch_flags(
      {"--nproc_per_node=2", "--nnodes=3", "--node_rank=1", "--master_addr=a", "--master-port=29500", "train"});
  EXPECT_EQ(line.options.world_size(), 6);
  EXPECT_EQ(line.options.node_rank, 1);
  EXPECT_EQ(line.options.master_addr, "a");
  EXPECT_EQ(line.options.master_port, 29500);
}

TEST(LaunchFlags, AWorldSizeOfOneNeedsNoLauncher) {
  EXPECT_FALSE(parse_launch_flags({"train"}).needs_launcher());
  EXPECT_FALSE(parse_launch_flags({"--nproc-per-node", "1", "train"}).needs_launcher());
  EXPECT_TRUE(parse_launch_flags({"--max-restarts", "1", "train"}).needs_launcher()) << "the launcher restarts it";
  EXPECT_EQ(parse_launch_flags({"--help"}).rest, std::vector<std::string>{"--help"});
}

TEST(LaunchFlags, RejectInvalidValues) {
  EXPECT_EQ(error({"--nproc-per-node", "two"}),
            "--nproc-per-node is \"two\": it must be a whole number from 1 to 2147483647");
  EXPECT_EQ(error({"--nproc-per-node"}), "--nproc-per-node needs a value");
  EXPECT_EQ(error({"--nnodes=2", "--node-rank=2", "--master-addr=a", "--master-port=1"}),
            "--node-rank 2 must be less than --nnodes 2");
  EXPECT_EQ(
      error({"--nnodes=2"}),
      "--nnodes above 1 needs --master-addr and --master-port: node 0's host name and a free port on it, the same "
      "on all nodes");
}

TEST(LaunchFlags, AreRejectedUnderAnotherLauncher) {
  setenv("RANK", "0", 1);
  EXPECT_NE(error({"--nproc-per-node", "2", "train"}).find("RANK is set"), std::string::npos);
  EXPECT_EQ(error({"train"}), "accepted");
  unsetenv("RANK");
}

}  // namespace
}  // namespace modular
