// Parsing of speeds, and validation of cluster descriptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/advise/cluster.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

Cluster h100() {
  return {.nodes = 8, .per_node = 8, .memory = 80 * 0x1p30, .link = 450e9, .between = 25e9, .flops = 989e12};
}

TEST(Speed, HasAUnitOfBytesOrBits) {
  EXPECT_EQ(parse_speed("450GB/s"), 450e9);
  EXPECT_EQ(parse_speed("3.35 TB/s"), 3.35e12);
  EXPECT_EQ(parse_speed("1GiB/s"), 0x1p30);
  EXPECT_EQ(parse_speed("400Gb/s"), 50e9);
  for (const char* wrong : {"", "450", "450GB", "GB/s", "-1GB/s", "0GB/s", "nanGB/s", "450gb/s", "1e300TB/s"})
    EXPECT_FALSE(parse_speed(wrong)) << wrong;
}

TEST(Memory, IsFormattedInAFittingUnit) {
  EXPECT_EQ(format_bytes(1.5 * 0x1p30), "1.5 GiB");
  EXPECT_EQ(format_bytes(12.25 * 0x1p20), "12.2 MiB");
}

TEST(Cluster, ErrorsNameTheOption) {
  EXPECT_EQ(find_error(h100()), "");
  const auto error = [](auto change) {
    Cluster cluster = h100();
    change(cluster);
    return find_error(cluster);
  };
  EXPECT_THAT(error([](Cluster& c) { c.nodes = 0; }), HasSubstr("--nodes is 0"));
  EXPECT_THAT(error([](Cluster& c) { c.per_node = -1; }), HasSubstr("--per-node is -1"));
  EXPECT_THAT(error([](Cluster& c) { c.per_node = 1 << 20; }), HasSubstr("--per-node"));
  EXPECT_THAT(error([](Cluster& c) { c.link = 0; }), HasSubstr("--link is missing: pass e.g. --link 450GB/s"));
  EXPECT_THAT(error([](Cluster& c) { c.between = 0; }), HasSubstr("--between is missing"));
  EXPECT_THAT(error([](Cluster& c) { c.flops = 0; }), HasSubstr("--flops is missing"));
  EXPECT_THAT(error([](Cluster& c) { c.attained = 1.5; }), HasSubstr("--attained is 1.5"));
  EXPECT_THAT(error([](Cluster& c) { c.reserve = 1.0; }), HasSubstr("--reserve is 1"));
  EXPECT_THAT(error([](Cluster& c) { c.cost = -1.0; }), HasSubstr("--cost is -1"));
}

TEST(Cluster, NeedsNoSpeedOfUnusedLinks) {
  Cluster one_node = h100();
  one_node.nodes = 1;
  one_node.between = 0.0;
  EXPECT_EQ(find_error(one_node), "");
  one_node.per_node = 1;
  one_node.link = 0.0;
  EXPECT_EQ(find_error(one_node), "");
}

}  // namespace
}  // namespace modular
