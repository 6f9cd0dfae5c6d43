// What sharded parameters occupy on a rank, counted as live bytes of tensors.
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>

#include "generated/llama.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

/// Hands out host memory and knows how much of it is in use.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{inner_->allocate(bytes), bytes, this};
    const int64_t now = live_ += static_cast<int64_t>(bytes);
    for (int64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) continue;
    return {block->memory.get(), block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  void start() { peak_ = live_.load(); }
  int64_t peak() const { return peak_; }

 private:
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
    CountingAllocator* owner;
  };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner->live_ -= static_cast<int64_t>(block->bytes);
    delete block;
  }
  c10::Allocator* inner_;
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

struct Sizes {
  double shard = 0, root = 0, unit = 0;
};

Sizes sizes_of(std::vector<ShardedParameter>& parameters) {
  Sizes sizes;
  for (const ShardedParameter& parameter : parameters) {
    const double bytes = 4.0 * static_cast<double>(c10::multiply_integers(parameter.global_shape));
    sizes.shard += 4.0 * static_cast<double>(parameter.local.numel());
    if (parameter.name.starts_with("model.layers.0.")) sizes.unit += bytes;
    if (!parameter.name.starts_with("model.layers.")) sizes.root += bytes;
  }
  return sizes;
}

TEST(ParameterMemory, IsTheShardTheRootAndTheUnitsAtWork) {
  constexpr int kRanks = 4;
  MeshShape shape;
  shape[Axis::dp_shard] = kRanks;
  const auto reports = run_ranks(kRanks, [&](const Environment& environment) {
    at::set_num_threads(1);
    static CountingAllocator counting(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&counting, /*priority=*/1);
    Mesh mesh(environment, shape, {.device = at::kCPU});
    const Entry& entry = entry_of("LlamaForCausalLM");
    const auto config = tiny_config(entry, {{"num_hidden_layers", int64_t{12}},
                                            {"hidden_size", int64_t{256}},
                                            {"intermediate_size", int64_t{512}},
                                            {"vocab_size", int64_t{1024}},
                                            {"head_dim", int64_t{64}}});
    ParallelModel model(entry, *config, mesh, {.prefetch = 1}, 1);
    const Sizes sizes = sizes_of(model.parameters());

    // So few tokens that activations do not count.
    Batch batch;
    batch.input_ids = at::arange(4).view({1, 4});
    batch.labels = batch.input_ids;
    model.evaluate({&batch, 1});
    counting.start();
    model.evaluate({&batch, 1});
    const auto forward = static_cast<double>(counting.peak());
    model.step({&batch, 1});
    counting.start();
    model.step({&batch, 1});
    const auto step = static_cast<double>(counting.peak());
    return Report{sizes.shard, sizes.root, sizes.unit, forward, step};
  });

  for (const Report& report : reports) {
    const double shard = report[0], root = report[1], unit = report[2], forward = report[3], step = report[4];
    const double parameters = shard + root + (1 + 1) * unit + unit;
    EXPECT_LE(forward, 1.05 * parameters);
    EXPECT_GE(forward, shard + root + unit) << "the count misses something";
    // In the backward there are also the gradients: of the shard and of the root, and, for one unit, as autograd leaves
    // them, as they are sent, and as the backend copies them.
    EXPECT_LE(step, 1.05 * (parameters + shard + root + 3 * unit));
  }
}

}  // namespace
}  // namespace modular::testing
