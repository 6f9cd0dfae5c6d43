// Checkpoints that are written while the tensors change hold what the tensors held when the save began.
#include "runtime/checkpoint/checkpoint_saver.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/mesh/collectives.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::run_ranks;

const ModelConfig& tiny_llama() {
  static const ModelConfig model = parse_config(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
          "num_attention_heads": 2})",
      "config.json");
  return model;
}

/// The model's parameters and as many moments, cut along dimension 0 between the ranks of dp_shard; all are `value`.
std::vector<TensorSlice> get_slices_on_rank(const Mesh& mesh, double value) {
  std::vector<TensorSlice> slices;
  const int64_t shards = mesh.size(Axis::dp_shard);
  for (const ModelParameter& parameter : model_parameters(tiny_llama()))
    for (const char* prefix : {"", "optimizer.exp_avg."}) {
      std::vector<int64_t> shape = parameter.global_shape, offset(shape.size(), 0);
      const int64_t part = (shape[0] + shards - 1) / shards;
      offset[0] = std::min(mesh.coordinate(Axis::dp_shard) * part, shape[0]);
      shape[0] = std::min(part, shape[0] - offset[0]);
      slices.push_back({prefix + parameter.name, parameter.global_shape, offset, at::full(shape, value),
                        mesh.coordinate(Axis::dp_replicate) == 0});
    }
  return slices;
}

void fill(std::vector<TensorSlice>& slices, double value) {
  for (TensorSlice& slice : slices) slice.local.fill_(value);
}

/// What happens between two steps: the ranks exchange how far they are.
std::optional<SavedCheckpoint> exchange(CheckpointSaver& saver, Mesh& mesh) {
  at::Tensor slowest = at::full({1}, static_cast<int64_t>(saver.progress()), at::kLong);
  all_reduce(mesh.world(), slowest, "how far the ranks are", c10d::ReduceOp::MAX).wait();
  return saver.go_on(static_cast<SaveProgress>(slowest.item<int64_t>()));
}

Mesh make_mesh(const Environment& environment, Axis axis) {
  MeshShape shape;
  shape[axis] = environment.world_size;
  return Mesh(environment, shape);
}

void expect_same_folders(const fs::path& one, const fs::path& other) {
  size_t files = 0, others = 0;
  for (const auto& file : fs::recursive_directory_iterator(one)) {
    if (!file.is_regular_file()) continue;
    ++files;
    EXPECT_TRUE(read_file(file.path()) == read_file(other / file.path().lexically_relative(one))) << file.path();
  }
  for (const auto& file : fs::recursive_directory_iterator(other)) others += file.is_regular_file() ? 1 : 0;
  EXPECT_GT(files, 4u);
  EXPECT_EQ(files, others);
}

TEST(CheckpointSaver, WritesInTheBackgroundTheBytesThatItWritesInTheForeground) {
  const fs::path folder = testing::shared_folder();
  int number = 0;
  for (const auto& [ranks, axis] :
       {std::pair(1, Axis::dp_shard), std::pair(3, Axis::dp_shard), std::pair(3, Axis::dp_replicate)}) {
    const fs::path one = folder / std::to_string(number++), other = folder / std::to_string(number++);
    run_ranks(ranks, [&, ranks = ranks, axis = axis](const Environment& environment) {
      Mesh mesh = make_mesh(environment, axis);
      auto slices = get_slices_on_rank(mesh, 1.0);
      CheckpointSaver background({.folder = one, .keep_last = 2}, tiny_llama(), mesh);
      if (ranks == 1) background.reserve_copies(slices);  // or not: the bytes are the same
      for (const int64_t step : {1, 2, 3}) {
        at::manual_seed(static_cast<uint64_t>(step));
        fill(slices, static_cast<double>(step));
        save_checkpoint(other, tiny_llama(), {.step = step, .values = {{"at", "7"}}}, slices, mesh, 2);
        background.begin({.step = step, .values = {{"at", "7"}}}, slices);
        background.wait_for_copy();
        at::rand({3});
        fill(slices, -1.0);
        std::optional<SavedCheckpoint> saved;
        while (!saved) saved = step == 2 ? background.finish() : exchange(background, mesh);
        EXPECT_EQ(saved->step, step);
        EXPECT_EQ(saved->folder, find_checkpoint(one));
      }
    });
    expect_same_folders(one, other);
  }
}

/// How many of the pages of a tensor's values have memory, and how many there are.
std::pair<int64_t, int64_t> resident_pages(const at::Tensor& tensor) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) + tensor.nbytes();
  std::vector<unsigned char> there((end - begin + page - 1) / page);
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), end - begin, there.data()), 0);
  return {std::ranges::count_if(there, [](unsigned char each) { return (each & 1) != 0; }), std::ssize(there)};
}

TEST(HostCopy, MemoryThatIsReservedIsThereWhenACopyBegins) {
  const std::vector<at::Tensor> sources = {at::ones({8 << 20}), at::zeros({3}), at::ones({5, 1 << 20})};
  for (const bool reserves : {true, false}) {
    HostCopy copy;
    if (reserves) copy.reserve(sources);
    const std::vector<at::Tensor> copies = copy.begin(sources);
    for (const size_t large : {0, 2}) {
      const auto [there, all] = resident_pages(copies[large]);
      if (reserves) EXPECT_EQ(there, all);
      if (!reserves) EXPECT_LT(there, all);
    }
    copy.run(/*among_others=*/true);
    for (size_t i = 0; i < sources.size(); ++i) EXPECT_TRUE(copies[i].equal(sources[i]));
  }
}

/// Of a rank that lacks the folder: nobody could write there.
fs::path of_first(const Mesh& mesh, const fs::path& folder) { return mesh.rank() == 0 ? folder : "/proc/none"; }

TEST(CheckpointSaver, WritesWhatRanksSendToTheFirstAsTheyWouldWriteItThemselves) {
  for (const Axis axis : {Axis::dp_shard, Axis::dp_replicate}) {
    const fs::path folder = fs::path(testing::shared_folder()) / kAxisNames[static_cast<size_t>(axis)];
    run_ranks(3, [&](const Environment& environment) {
      Mesh mesh = make_mesh(environment, axis);
      auto slices = get_slices_on_rank(mesh, 1.0);
      // More than goes in one piece, which does not end where a piece does.
      constexpr int64_t kLarge = (int64_t{17} << 20) + 3;
      if (axis == Axis::dp_shard && mesh.rank() > 0) {
        const std::string name = "large" + std::to_string(mesh.rank());
        slices.push_back({name, {kLarge}, {0}, at::arange(kLarge, at::kFloat)});
      }
      SaveOptions options{.folder = folder / "shared", .background = false, .full = true};
      const auto save = [&] {
        at::manual_seed(static_cast<uint64_t>(mesh.rank()));
        CheckpointSaver saver(options, tiny_llama(), mesh);
        saver.begin({.step = 1, .values = {{"at", "7"}}}, slices);
        while (options.background && !exchange(saver, mesh)) continue;
        saver.finish();
      };
      save();
      options.shared = false;
      options.folder = of_first(mesh, folder / "foreground");
      save();
      options.background = true;
      options.folder = of_first(mesh, folder / "background");
      save();
    });
    expect_same_folders(folder / "shared", folder / "foreground");
    expect_same_folders(folder / "shared", folder / "background");
  }
}

TEST(CheckpointSaver, WhatTheFirstCannotWriteAndAnotherCannotSendIsToldOnEveryRank) {
  const fs::path folder = fs::path(testing::shared_folder()) / "rejected";
  for (const bool background : {false, true})
    for (const bool full_disk : {false, true})
      run_ranks(3, [&](const Environment& environment) {
        Mesh mesh = make_mesh(environment, Axis::dp_shard);
        auto slices = get_slices_on_rank(mesh, 1.0);
        if (full_disk && mesh.rank() == 0) {
          signal(SIGXFSZ, SIG_IGN);
          const rlimit limit = {1 << 20, 1 << 20};
          setrlimit(RLIMIT_FSIZE, &limit);
        }
        if (mesh.rank() == 1)
          slices.push_back({"more", {1 << 20}, {0}, at::ones({1 << 20}, full_disk ? at::kFloat : at::kComplexFloat)});
        CheckpointSaver saver(
            {.folder = of_first(mesh, folder), .keep_last = 1, .background = background, .shared = false}, tiny_llama(),
            mesh);
        saver.begin({.step = 1, .values = {}}, slices);
        const std::string message = get_message<std::runtime_error>([&] {
          while (background && !exchange(saver, mesh)) continue;
          saver.finish();
        });
        const char* const cause = full_disk ? "step-00000001.partial/rank-00001.safetensors cannot be written"
                                            : "cannot hold values of type ComplexFloat";
        const char* const heard = full_disk || mesh.rank() > 0 ? "another rank failed in writing a checkpoint"
                                                               : "rank 1 could not send its part of a checkpoint";
        EXPECT_THAT(message, HasSubstr(mesh.rank() == (full_disk ? 0 : 1) ? cause : heard));
      });
  EXPECT_EQ(find_checkpoint(folder), fs::path());
}

TEST(CheckpointSaver, TensorsMayChangeOnceTheyAreCopied) {
  TemporaryFolder folder;
  Mesh mesh(Environment{}, MeshShape{});
  // Of other types and places too, and so much that a thread has not copied it before the next line runs.
  std::vector<TensorSlice> slices = {
      {"large", {int64_t{6} << 20}, {0}, at::ones({int64_t{6} << 20})},
      {"transposed", {300, 500}, {0, 0}, at::ones({500, 300}).t()},
      {"nothing", {0, 3}, {0, 0}, at::ones({0, 3})},
      {"counts", {3}, {0}, at::ones({3}, at::kLong)},
      {"scalar", {}, {}, at::ones({})},
      {"last", {int64_t{6} << 20}, {0}, at::ones({int64_t{6} << 20}, at::kBFloat16)},
  };
  CheckpointSaver saver({.folder = folder.path()}, tiny_llama(), mesh);
  for (const int64_t step : {1, 2, 3}) {
    fill(slices, static_cast<double>(step));
    saver.begin({.step = step, .values = {}}, slices);
    saver.wait_for_copy();
    fill(slices, -1.0);
    const fs::path rank_file = saver.finish()->folder / "rank-00000.safetensors";
    const SafetensorsFile file(rank_file);
    for (const TensorSlice& slice : slices) {
      if (slice.local.numel() == 0) continue;
      EXPECT_EQ(file.tensor(slice.name).eq(step).sum().item<int64_t>(), slice.local.numel())
          << slice.name << " " << step;
    }
  }
}

TEST(CheckpointSaver, AFullDiskIsToldOnEveryRankAndLeavesTheLatest) {
  const fs::path folder = testing::shared_folder();
  run_ranks(2, [&](const Environment& environment) {
    Mesh mesh = make_mesh(environment, Axis::dp_shard);
    auto slices = get_slices_on_rank(mesh, 1.0);
    CheckpointSaver saver({.folder = folder, .keep_last = 1}, tiny_llama(), mesh);
    saver.begin({.step = 1, .values = {}}, slices);
    saver.finish();
    if (mesh.rank() == 1) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {100, 100};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    saver.begin({.step = 2, .values = {}}, slices);
    const std::string message = get_message<std::runtime_error>([&] {
      while (!exchange(saver, mesh)) continue;
    });
    EXPECT_THAT(message, HasSubstr(mesh.rank() == 1 ? "step-00000002.partial/rank-00001.safetensors cannot be written"
                                                    : "another rank failed in writing a checkpoint"));
  });
  EXPECT_EQ(find_checkpoint(folder).filename(), "step-00000001");
  EXPECT_FALSE(fs::exists(folder / "step-00000002"));
}

}  // namespace
}  // namespace modular
