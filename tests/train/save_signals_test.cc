// Agreement of ranks after each step.
#include "runtime/train/save_signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "tests/support/ranks.h"

namespace modular {
namespace {

TEST(Agree, AllRanksGetTheRequestAndTheMaxima) {
  testing::run_ranks(3, [](const Environment& environment) {
    MeshShape shape;
    shape[Axis::dp_shard] = environment.world_size;
    Mesh mesh(environment, shape, {.device = at::kCPU});
    SaveSignals signals;
    if (mesh.rank() == 1) raise(SIGTERM);
    std::array<int64_t, 2> largest = {10 - mesh.rank(), (int64_t{1} << 40) + mesh.rank()};
    const SaveRequest request = signals.agree(mesh, /*also_save=*/mesh.rank() == 2, largest);
    EXPECT_TRUE(request.save);
    EXPECT_EQ(request.end_by, SIGTERM);
    EXPECT_EQ(largest[0], 10);
    EXPECT_EQ(largest[1], (int64_t{1} << 40) + 2) << "more than 32 bits";
  });
}

}  // namespace
}  // namespace modular
