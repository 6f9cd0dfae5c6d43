// Ranks with different configs, rejected ranks, and ranks that do not arrive.
#include "runtime/mesh/agreement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <functional>
#include <thread>

namespace modular {
namespace {

using std::chrono::milliseconds;

class AgreementTest : public ::testing::Test {
 protected:
  /// Runs `body` as each of `ranks` ranks of a job of `world_size`, on threads, and returns their errors.
  std::vector<std::string> run(int64_t ranks, int64_t world_size, const std::function<void(const Environment&)>& body) {
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        Environment environment{.rank = rank, .world_size = world_size, .launcher_hosts_store = true};
        environment.master_port = static_cast<uint16_t>(store_->getPort());
        try {
          body(environment);
        } catch (const std::runtime_error& error) {
          errors[static_cast<size_t>(rank)] = error.what();
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  static void agree_on(const Environment& environment, const ResolvedConfig& config,
                       milliseconds timeout = std::chrono::minutes(1)) {
    agree(connect_store(environment, std::chrono::minutes(1)), environment, config, timeout);
  }

  c10::intrusive_ptr<c10d::TCPStore> store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", loopback_store(0));
};

TEST_F(AgreementTest, RanksWithEqualConfigsContinue) {
  for (const std::string& error : run(3, 3, [](const Environment& environment) {
         agree_on(environment, {{"optim.lr", "0.1"}, {"train.seed", "1"}});
       }))
    EXPECT_EQ(error, "");
}

TEST_F(AgreementTest, AllRanksNameTheFirstDifferenceWithValuesAndMachines) {
  const auto errors = run(3, 3, [](const Environment& environment) {
    const bool differs = environment.rank == 2;
    agree_on(environment,
             {{"train.steps", "10"}, {"optim.lr", differs ? "0.2" : "0.1"}, {"train.seed", differs ? "2" : "1"}});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              fmt::format("optim.lr is 0.2 on rank 2 ({0}), and 0.1 on rank 0 ({0}): start all ranks with the same "
                          "command, files and program",
                          host_name()));
}

TEST_F(AgreementTest, AKeyOfOnlyOneRankIsADifference) {
  const auto errors = run(2, 2, [](const Environment& environment) {
    ResolvedConfig config = {{"train.steps", "10"}};
    if (environment.rank == 1) config.emplace_back("model.config.rope_theta", "10000.0");
    agree_on(environment, config);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error.find("model.config.rope_theta is 10000.0 on rank 1 ("), 0U) << error;
}

TEST_F(AgreementTest, ARejectedRankEndsTheOthersWithItsMessage) {
  const auto errors = run(3, 3, [](const Environment& environment) {
    if (environment.rank == 1) return report_rejected_rank(environment, "/data: No such file or directory");
    agree_on(environment, {});
  });
  EXPECT_EQ(errors[0], fmt::format("rank 1 ({}): /data: No such file or directory", host_name()));
  EXPECT_EQ(errors[2], errors[0]);
}

TEST_F(AgreementTest, MissingRanksAreNamed) {
  const auto errors =
      run(2, 4, [](const Environment& environment) { agree_on(environment, {}, std::chrono::seconds(1)); });
  EXPECT_EQ(errors[1], "rank 1 has waited 1 s for ranks 2, 3 to join the job");
}

TEST_F(AgreementTest, ALaterMeetingWaitsForAllRanksAgain) {
  const auto errors = run(2, 2, [](const Environment& environment) {
    agree_on(environment, {{"the mesh", "dp_shard 2"}});
    if (environment.rank == 0) agree_on(environment, {{"the mesh", "tp 2"}}, std::chrono::seconds(1));
  });
  EXPECT_EQ(errors[0], "rank 0 has waited 1 s for rank 1 to join the job");
  EXPECT_EQ(errors[1], "");
}

TEST_F(AgreementTest, AStoreWithOtherContentIsAnError) {
  const auto errors = run(2, 2, [&](const Environment& environment) {
    if (environment.rank == 0) {
      const std::string text = "{\"config\":7}";
      const Store store =
          c10::make_intrusive<c10d::PrefixStore>("mesh_1", connect_store(environment, std::chrono::minutes(1)));
      store->set("config of rank 0", std::vector<uint8_t>(text.begin(), text.end()));
      store->set("rank 0 is here", std::vector<uint8_t>{1});
      arrive(store, "met", 2);
      return;
    }
    agree_on(environment, {});
  });
  EXPECT_EQ(errors[1], "the job's store holds something that is not rank 0's config: is another job using it?");
}

}  // namespace
}  // namespace modular
