// Concurrent trials on a machine with GPUs: each has its own.
#include "runtime/search/run_trials.h"

#include <gmock/gmock.h>

#include "runtime/config/config.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;

TEST(SharedMachine, EachTrialHasItsOwnGpus) {
  EXPECT_THAT(assign_gpus(8, "", 2, 3), ElementsAre("0,1", "2,3", "4,5"));
  EXPECT_THAT(assign_gpus(4, "3,GPU-ab,7,1", 1, 4), ElementsAre("3", "GPU-ab", "7", "1"));
}

TEST(SharedMachine, RejectsTooFewGpus) {
  EXPECT_EQ(
      get_message<ConfigError>([] { assign_gpus(3, "", 2, 2); }),
      "--workers 2 with 2 ranks each need 4 GPUs, and this machine has 3: start fewer, or set train.device to cpu");
}

}  // namespace
}  // namespace modular
