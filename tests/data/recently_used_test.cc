// The most recently used values stay in the cache, within its room.
#include "runtime/data/recently_used.h"

#include <gtest/gtest.h>

#include <string>

namespace modular {
namespace {

TEST(RecentlyUsed, EvictsTheLeastRecentlyUsed) {
  RecentlyUsed<int, std::string> kept(10);
  kept.add(1, "one", 4);
  kept.add(2, "two", 4);
  EXPECT_EQ(*kept.find(1), "one");
  EXPECT_EQ(kept.add(3, "three", 4), "three");
  EXPECT_EQ(kept.find(2), nullptr);
  EXPECT_EQ(*kept.find(1), "one");
  EXPECT_EQ(*kept.find(3), "three");
}

TEST(RecentlyUsed, KeepsOnlyAValueThatIsLargerThanTheRoom) {
  RecentlyUsed<int, std::string> kept(10);
  kept.add(1, "one", 4);
  EXPECT_EQ(kept.add(2, "two", 100), "two");
  EXPECT_EQ(kept.find(1), nullptr);
  kept.add(3, "three", 1);
  EXPECT_EQ(kept.find(2), nullptr) << "the room is free again";
  kept.add(4, "four", 9);
  EXPECT_NE(kept.find(3), nullptr);
}

}  // namespace
}  // namespace modular
