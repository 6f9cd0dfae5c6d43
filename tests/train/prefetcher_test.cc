// Prefetched batches.
#include "runtime/train/prefetcher.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>

namespace modular {
namespace {

std::vector<Batch> rows(int64_t count) {
  Batch batch;
  batch.input_ids = at::full({count}, count, at::kLong);
  return {batch};
}

TEST(Prefetcher, ReadsWithoutBeingAskedForTheResult) {
  std::promise<void> was_read;
  Prefetcher ahead([&](const DataPosition& position) {
    was_read.set_value();
    return rows(position.samples);
  });
  EXPECT_FALSE(ahead.has_begun());
  ahead.begin({.samples = 3});
  was_read.get_future().wait();
  EXPECT_TRUE(ahead.has_begun());
  EXPECT_EQ(ahead.take()[0].input_ids.numel(), 3);
  EXPECT_FALSE(ahead.has_begun());
}

TEST(Prefetcher, ReadsOnOneThreadOtherThanTheCallers) {
  std::set<std::thread::id> threads;
  Prefetcher ahead([&](const DataPosition& position) {
    threads.insert(std::this_thread::get_id());
    return rows(position.samples);
  });
  for (int64_t samples = 1; samples <= 10; ++samples) {
    ahead.begin({.samples = samples});
    EXPECT_EQ(ahead.take()[0].input_ids.numel(), samples);
  }
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(Prefetcher, ErrorsReachTheCallerAndReadingContinues) {
  Prefetcher ahead([](const DataPosition& position) {
    if (position.samples == 2) throw std::runtime_error("no such sample");
    return rows(position.samples);
  });
  ahead.begin({.samples = 2});
  try {
    ahead.take();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "no such sample");
  }
  ahead.begin({.samples = 4});
  EXPECT_EQ(ahead.take()[0].input_ids.numel(), 4);
}

TEST(Prefetcher, DestructorWaitsForBatchesThatWereNotTaken) {
  std::promise<void> has_begun;
  bool was_read = false;
  {
    Prefetcher ahead([&](const DataPosition& position) {
      has_begun.set_value();
      auto batches = rows(position.samples);
      was_read = true;
      return batches;
    });
    ahead.begin({.samples = 1});
    has_begun.get_future().wait();
  }
  EXPECT_TRUE(was_read);
}

}  // namespace
}  // namespace modular
