// Memory of sharded parameters on a rank, counted as live tensor bytes.
#include <gtest/gtest.h>

#include <array>

#include "tests/parallel/training_runs.h"
#include "tests/support/counting_allocator.h"

namespace modular::testing {
namespace {

constexpr int kRanks = 4;

struct Shape {
  const char* name;
  int64_t layers, width;
  bool skips_copy_out;  // whether parameters are large enough for an all-gather without copy-out
};

/// Parameter bytes: this rank's shards, those outside the layers, the output projection, and one layer.
struct Sizes {
  double shard = 0, root = 0, head = 0, unit = 0;
};

Sizes get_sizes(std::vector<ShardedParameter>& parameters) {
  Sizes sizes;
  for (const ShardedParameter& parameter : parameters) {
    const double bytes = 4.0 * static_cast<double>(c10::multiply_integers(parameter.global_shape));
    sizes.shard += 4.0 * static_cast<double>(parameter.local.numel());
    if (parameter.name.starts_with("model.layers.0.")) sizes.unit += bytes;
    if (!parameter.name.starts_with("model.layers.")) sizes.root += bytes;
    if (parameter.name.starts_with("lm_head.")) sizes.head += bytes;
  }
  return sizes;
}

/// Memory peaks of an evaluation and of the second training step, with `prefetch` units.
struct Peaks {
  double forward = 0, step = 0;
};

Peaks measure(CountingAllocator& counting, const Entry& entry, const AnyConfig& config, Mesh& mesh, int64_t prefetch,
              Sizes& sizes) {
  ParallelModel model(entry, config, mesh, {.prefetch = prefetch}, 1);
  sizes = get_sizes(model.parameters());
  // Few tokens, so that activations are negligible.
  Batch batch;
  batch.input_ids = at::arange(4).view({1, 4});
  batch.labels = batch.input_ids;
  Peaks peaks;
  counting.start();
  model.evaluate({&batch, 1});
  peaks.forward = static_cast<double>(counting.peak());
  model.step({&batch, 1});
  counting.start();
  model.step({&batch, 1});
  peaks.step = static_cast<double>(counting.peak());
  return peaks;
}

void PrintTo(const Shape& one, std::ostream* out) { *out << one.name; }

class ParameterMemory : public ::testing::TestWithParam<Shape> {};

TEST_P(ParameterMemory, IsTheShardTheRootAndTheUnshardedUnits) {
  constexpr std::array<int64_t, 3> kPrefetch = {0, 1, 3};
  const auto [name, layers, width, skips_copy_out] = GetParam();
  MeshShape mesh_shape;
  mesh_shape[Axis::dp_shard] = kRanks;
  const auto reports = run_ranks(kRanks, [&, layers = layers, width = width](const Environment& environment) {
    at::set_num_threads(1);
    CountingAllocator& counting = CountingAllocator::installed();
    Mesh mesh(environment, mesh_shape, {.device = at::kCPU});
    const Entry& entry = get_entry("LlamaForCausalLM");
    const auto config = tiny_config(entry, {{"num_hidden_layers", layers},
                                            {"hidden_size", width},
                                            {"intermediate_size", 2 * width},
                                            {"vocab_size", int64_t{1024}},
                                            {"head_dim", width / 4}});
    Sizes sizes;
    Report report;
    for (const int64_t prefetch : kPrefetch) {
      const Peaks peaks = measure(counting, entry, *config, mesh, prefetch, sizes);
      report.insert(report.end(), {peaks.forward, peaks.step});
    }
    report.insert(report.end(), {sizes.shard, sizes.root, sizes.head, sizes.unit});
    return report;
  });

  // Deterministic: backend threads neither allocate nor keep memory.
  constexpr double kRest = 1.02;  // activations of four tokens, norm weights, alignment
  for (const Report& report : reports) {
    const double shard = report[6], root = report[7], head = report[8], unit = report[9];
    for (size_t i = 0; i < kPrefetch.size(); ++i) {
      const double forward = report[2 * i], step = report[2 * i + 1];
      const auto prefetch = static_cast<double>(kPrefetch[i]);
      const double parameters = shard + root + (1 + prefetch) * unit;
      // Large parameters are gathered in place, small ones into a flat buffer that needs a copy-out: the buffer belongs
      // to the prefetched unit; without prefetch there is one more.
      const double flat = skips_copy_out || prefetch > 0 ? 0 : unit;
      EXPECT_LE(forward, kRest * (parameters + flat)) << "prefetch " << prefetch;
      EXPECT_GE(forward, parameters + flat) << "the count is incomplete; prefetch " << prefetch;

      // The peak is at the end of the backward of the last layer with `prefetch` layers left to unshard. Live
      // gradients: of that layer, as autograd leaves them; of the layer before it in the backward, as input of the
      // reduce-scatter and as received from all ranks; the reduced gradients of that layer and all before it; and of
      // the output projection, which is in the root. (The gradients of the embedding come after the layers.)
      const double summed = (static_cast<double>(layers - 1) - prefetch) * unit / kRanks;
      const double gradients = unit + 2 * unit + summed + head;
      EXPECT_LE(step, kRest * (parameters + gradients)) << "prefetch " << prefetch;
      EXPECT_GE(step, parameters + gradients) << "the count is incomplete; prefetch " << prefetch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ParameterMemory,
                         ::testing::Values(Shape{"Narrow", 12, 256, /*skips_copy_out=*/false},
                                           Shape{"Wide", 6, 768, /*skips_copy_out=*/true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace modular::testing
