#include "runtime/mesh/mesh.h"

#include <gtest/gtest.h>

#include "runtime/mesh/collectives.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

MeshShape shape(std::initializer_list<std::pair<Axis, int64_t>> sizes) {
  MeshShape result;
  for (const auto& [axis, size] : sizes) result[axis] = size;
  return result;
}

TEST(MeshShape, TheLastAxisIsInnermost) {
  const auto mesh = shape({{Axis::pp, 2}, {Axis::dp_shard, 3}, {Axis::tp, 2}});
  EXPECT_EQ(mesh.ranks(), 12);
  EXPECT_EQ(mesh.coordinates(7), (std::array<int64_t, 5>{1, 0, 0, 0, 1}));
  EXPECT_EQ(mesh.members(7, {Axis::tp}), (std::vector<int64_t>{6, 7}));
  EXPECT_EQ(mesh.members(7, {Axis::dp_shard}), (std::vector<int64_t>{7, 9, 11}));
  EXPECT_EQ(mesh.members(7, {Axis::pp}), (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(mesh.members(7, {Axis::pp, Axis::tp}), (std::vector<int64_t>{0, 1, 6, 7}));
  EXPECT_EQ(mesh.describe(), "pp 2 x dp_shard 3 x tp 2");
}

TEST(MeshShape, AnIndexCountsTheRanksOfAPurpose) {
  const auto mesh = shape({{Axis::pp, 2}, {Axis::dp_replicate, 3}, {Axis::dp_shard, 2}, {Axis::cp, 2}, {Axis::tp, 2}});
  for (const auto& [axes, ranks] : {std::pair(kRowAxes, 6),
                                    {kLossAxes, 12},
                                    {kShardAxes, 4},
                                    {kReplicateAxes, 3},
                                    {kSliceAxes, 8},
                                    {kStageAxes, 24},
                                    {kAllAxes, 48}}) {
    EXPECT_EQ(mesh.ranks(axes), ranks);
    for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
      EXPECT_EQ(mesh.members(rank, axes)[static_cast<size_t>(mesh.index(rank, axes))], rank);
  }
  // Ranks that differ only along cp or tp read the same rows.
  EXPECT_EQ(mesh.index(0, kRowAxes), mesh.index(3, kRowAxes));
  EXPECT_EQ(mesh.index(mesh.ranks() - 1, kRowAxes), 5);
}

TEST(Mesh, AWorldOfOneNeedsNoNetwork) {
  Mesh mesh{Environment(), MeshShape()};
  EXPECT_FALSE(mesh.world());
  EXPECT_FALSE(mesh.control());
  EXPECT_FALSE(mesh.group({Axis::tp}));
  EXPECT_FALSE(mesh.store());
}

TEST(Mesh, RejectsAShapeOfADifferentSize) {
  try {
    Mesh mesh(Environment(), shape({{Axis::dp_shard, 2}}));
    FAIL() << "accepted";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the mesh dp_shard 2 has 2 ranks but 1 were started: start 2 or change the mesh");
  }
}

TEST(Mesh, GroupsHoldTheRanksThatDifferAlongTheirAxes) {
  run_ranks(4, [](const Environment& environment) {
    Mesh mesh(environment, shape({{Axis::pp, 2}, {Axis::tp, 2}}), {.device = at::kCPU});
    const auto sum_over = [&](std::vector<Axis> axes) {
      at::Tensor value = at::scalar_tensor(1 << mesh.rank(), at::kLong);
      all_reduce(mesh.group(std::move(axes)), value, "a test value").wait();
      return value.item<int64_t>();
    };
    EXPECT_EQ(sum_over({Axis::tp}), mesh.rank() < 2 ? 0b0011 : 0b1100);
    EXPECT_EQ(sum_over({Axis::pp}), mesh.rank() % 2 == 0 ? 0b0101 : 0b1010);
    EXPECT_EQ(sum_over({Axis::pp, Axis::dp_shard, Axis::tp}), 0b1111);
    EXPECT_EQ(sum_over({Axis::dp_shard, Axis::cp}), 1 << mesh.rank());
    EXPECT_EQ(mesh.group({Axis::tp, Axis::pp}), mesh.world()) << "axes of size 1 and their order make no new group";
    EXPECT_EQ(mesh.coordinate(Axis::pp), mesh.rank() / 2);
    EXPECT_EQ(mesh.coordinate(Axis::tp), mesh.rank() % 2);
    barrier(mesh.world(), "the end");
  });
}

TEST(Mesh, NoRankLeavesAGroupThatOthersAreJoining) {
  run_ranks(4, [](Environment environment) {
    for (environment.attempt = 1; environment.attempt <= 5; ++environment.attempt) {
      Mesh mesh(environment, shape({{Axis::dp_shard, 4}}), {.device = at::kCPU});
      mesh.group({Axis::dp_shard});
    }
  });
}

int backends_created = 0;  // backends created by the function below in this process

void make_counted(const Store& store, int rank, int size, std::chrono::milliseconds timeout,
                  c10::intrusive_ptr<c10d::Backend>& backend) {
  ++backends_created;
  GroupSpec spec{.name = "counted", .description = "counted", .ranks = {}, .rank = rank, .one_machine = true};
  for (int member = 0; member < size; ++member) spec.ranks.push_back(member);
  spec.timeout = timeout;
  backend = make_gloo_backend(store, spec);
}

TEST(Mesh, TheControlGroupUsesGlooWithAnyBackend) {
  run_ranks(2, [](const Environment& environment) {
    const MeshShape two = shape({{Axis::tp, 2}});
    const Mesh plain(environment, two, {.device = at::kCPU});
    ASSERT_TRUE(plain.control());
    Environment again = environment;
    again.attempt = 1;
    Mesh mesh(again, two, {.device = at::kCPU, .make_backend = make_counted});
    EXPECT_EQ(backends_created, 0) << "the control group uses Gloo";
    barrier(mesh.control(), "the host's decision");
    EXPECT_NE(mesh.world(), mesh.control());
    EXPECT_EQ(backends_created, 1);
    at::Tensor value = at::ones({1});
    all_reduce(mesh.world(), value, "a test value").wait();
    EXPECT_EQ(value.item<float>(), 2.0F);
    barrier(mesh.control(), "the end");
  });
}

TEST(Mesh, RejectsTwoRanksOnOneDevice) {
  const auto reports = run_ranks(3, [](const Environment& environment) {
    Mesh mesh(environment, shape({{Axis::dp_shard, 3}}), {.device = at::kCPU});
    // Ranks 0 and 2 see the same device.
    const std::string device = environment.rank == 1 ? "GPU-b" : "GPU-a";
    std::string message;
    try {
      claim_device(mesh.store(), device, environment.rank);
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    const bool names_both = message.starts_with("ranks 0 and 2 both") || message.starts_with("ranks 2 and 0 both");
    EXPECT_TRUE(message.empty() || names_both) << message;
    barrier(mesh.world(), "the claims");
    return testing::Report{message.empty() ? 0.0 : 1.0};
  });
  EXPECT_EQ(reports[0][0] + reports[2][0], 1.0);
  EXPECT_EQ(reports[1][0], 0.0);
}

TEST(Mesh, NamesTheUnreachableStore) {
  Environment environment;
  environment.world_size = 2;
  environment.rank = 1;
  environment.local_rank = 1;
  environment.local_world_size = 2;
  environment.master_port = 1;  // tcpmux: nothing listens there
  try {
    Mesh mesh(environment, shape({{Axis::dp_shard, 2}}),
              {.device = at::kCPU, .rendezvous_timeout = std::chrono::milliseconds(300)});
    FAIL() << "connected";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 cannot reach the job's store at 127.0.0.1:1"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace modular
