#include "runtime/mesh/collectives.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <thread>

#include "runtime/mesh/mesh.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

Mesh all_on_one_axis(const Environment& environment, MeshOptions options = {}) {
  MeshShape shape;
  shape[Axis::dp_shard] = environment.world_size;
  options.device = at::kCPU;
  return Mesh(environment, shape, options);
}

// If the headers' view of the backend and its options differed from the library's, these values, sizes and types would
// be wrong or the program would crash: group size, rank, timeout and devices pass through them.
class GlooTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(GlooTest, SupportsEveryTypeThatTrainingUses) {
  run_ranks(3, [](const Environment& environment) {
    Mesh mesh = all_on_one_axis(environment);
    const auto group = mesh.world();
    const auto type = at::TensorOptions().dtype(GetParam());
    const auto rank = static_cast<double>(mesh.rank());

    at::Tensor sum = at::full({5, 7}, rank + 1, type);
    all_reduce(group, sum, "a sum").wait();
    EXPECT_TRUE(sum.eq(6).all().item<bool>()) << sum;

    at::Tensor largest = at::full({2}, rank, type);
    all_reduce(group, largest, "a maximum", c10d::ReduceOp::MAX).wait();
    EXPECT_TRUE(largest.eq(2).all().item<bool>()) << largest;

    at::Tensor gathered = at::zeros({3, 4}, type), others = at::zeros({3 * 5}, type);
    gathered[mesh.rank()].fill_(rank);
    others.narrow(0, 5 * mesh.rank(), 5).fill_(rank + 7);
    all_gather(group, {gathered, others}, "parts").wait();
    EXPECT_TRUE(gathered.flatten().equal(at::arange(3, type).repeat_interleave(4))) << gathered;
    EXPECT_TRUE(others.equal((at::arange(3, type) + 7).repeat_interleave(5))) << others;

    at::Tensor part = at::zeros({4}, type);
    reduce_scatter(group, part, at::arange(12, type), "parts").wait();
    EXPECT_TRUE(part.equal(3 * (at::arange(4, type) + 4 * rank))) << part;

    at::Tensor value = at::full({3}, rank, type);
    broadcast(group, value, 2, "a value").wait();
    EXPECT_TRUE(value.eq(2).all().item<bool>()) << value;
    barrier(group, "the end");
  });
}

INSTANTIATE_TEST_SUITE_P(Types, GlooTest, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kLong),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(Collectives, SendsAndReceivesInOrder) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh = all_on_one_axis(environment);
    const auto group = mesh.world();
    if (mesh.rank() == 0) {
      auto first = send(group, at::full({4}, 1.0), 1, 7, "the first");
      auto second = send(group, at::full({4}, 2.0), 1, 7, "the second");
      first.wait();
      second.wait();
    } else {
      at::Tensor first = at::zeros({4}), second = at::zeros({4});
      auto later = receive(group, first, 0, 7, "the first");
      receive(group, second, 0, 7, "the second").wait();
      later.wait();
      EXPECT_EQ(first[0].item<float>(), 1.0F);
      EXPECT_EQ(second[0].item<float>(), 2.0F);
    }
    barrier(group, "the end");
  });
}

TEST(Collectives, BroadcastTextReturnsTheTextOfRank0) {
  run_ranks(3, [](const Environment& environment) {
    Mesh mesh = all_on_one_axis(environment);
    const std::string own = mesh.rank() == 0 ? "step-00000100" : std::string(static_cast<size_t>(mesh.rank() - 1), 'x');
    EXPECT_EQ(broadcast_text(mesh.control(), own, "a name"), "step-00000100");
    EXPECT_EQ(broadcast_text(mesh.control(), mesh.rank() == 0 ? "" : own, "a name"), "");
  });
}

TEST(Collectives, FinishImmediatelyInAWorldOfOne) {
  const ProcessGroup none;
  at::Tensor value = at::ones({2}), copy = at::zeros({2});
  all_reduce(none, value, "a sum").wait();
  broadcast(none, value, 0, "a value").wait();
  EXPECT_TRUE(value.eq(1).all().item<bool>());
  all_gather(none, {value}, "parts").wait();
  EXPECT_TRUE(value.eq(1).all().item<bool>());
  reduce_scatter(none, copy, value * 3, "parts").wait();
  EXPECT_TRUE(copy.eq(3).all().item<bool>());
  EXPECT_EQ(broadcast_text(none, "a name", "a name"), "a name");
  barrier(none, "the end");
}

TEST(Collectives, ATimeoutNamesTheCollectiveItsGroupAndTheRank) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh = all_on_one_axis(environment, {.collective_timeout = std::chrono::milliseconds(500)});
    const auto group = mesh.world();
    if (mesh.rank() == 0) {
      at::Tensor loss = at::ones({});
      try {
        all_reduce(group, loss, "the loss").wait();
        ADD_FAILURE() << "did not time out";
      } catch (const CollectiveError& error) {
        const std::string text = error.what();
        EXPECT_EQ(text.find("all_reduce of the loss over dp_shard (as rank 0 of 2) failed: "), 0U) << text;
        EXPECT_NE(text.find("500ms"), std::string::npos) << "the requested timeout: " << text;
      }
      mesh.store()->set("rank 0 is done", std::string("yes"));
    } else {
      mesh.store()->wait({"rank 0 is done"});
    }
  });
}

TEST(Collectives, FailWhenAPeerExits) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh = all_on_one_axis(environment);
    const auto group = mesh.world();
    if (mesh.rank() == 1) return;
    at::Tensor loss = at::ones({});
    EXPECT_THROW(all_reduce(group, loss, "the loss").wait(), CollectiveError);
  });
}

TEST(GlooLoop, CallsThisProgramsWait) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "epoll_wait"), reinterpret_cast<void*>(&epoll_wait));
}

// A loop that skips an event because another thread holds the lock must leave the core to that thread.
TEST(GlooLoop, YieldsItsCoreWhenItSkipsAnEvent) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {.events = EPOLLIN, .data = {.ptr = nullptr}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);

  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);  // the thread below inherits it
  std::atomic<bool> is_held = true;
  std::thread holder([&] {
    timespec used = {};
    while (used.tv_nsec < 50'000'000) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    is_held = false;
  });
  int64_t waits = 0;
  for (; is_held; ++waits) ASSERT_EQ(epoll_wait(epoll, &event, 1, 10), 1);
  holder.join();
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_LT(waits, 5'000);  // some 100,000 if it spins
  for (const int file : {epoll, ends[0], ends[1]}) close(file);
}

}  // namespace
}  // namespace modular
