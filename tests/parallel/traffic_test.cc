// Bytes that a rank receives in a training step, counted where c10d passes tensors to its backend, compared with closed
// forms.
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "runtime/mesh/collectives.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

/// Forwards all calls and counts the bytes received by this rank. An all-reduce counts as its lower bound: a
/// reduce-scatter plus an all-gather.
class CountingBackend final : public c10d::Backend {
 public:
  explicit CountingBackend(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "counting"; }
  double bytes = 0.0;

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    // Scalars such as the loss are not counted.
    if (tensors[0].nbytes() > 64) bytes += 2 * others() * static_cast<double>(tensors[0].nbytes());
    return inner_->allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    if (options.rootRank != getRank()) bytes += static_cast<double>(tensors[0].nbytes());
    return inner_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& to,
                                               std::vector<int64_t>& from,
                                               const c10d::AllToAllOptions& options) override {
    bytes += others() * static_cast<double>(output.nbytes());
    return inner_->alltoall_base(output, input, to, from, options);
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    return inner_->send(tensors, to, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override {
    bytes += static_cast<double>(tensors[0].nbytes());
    return inner_->recv(tensors, from, tag);
  }

 private:
  /// Bytes of a tensor that belong to other ranks.
  double others() const { return static_cast<double>(getSize() - 1) / getSize(); }
  c10::intrusive_ptr<c10d::Backend> inner_;
};

c10::intrusive_ptr<CountingBackend> count(const ProcessGroup& group) {
  auto counting = c10::make_intrusive<CountingBackend>(group->getBackend(c10::DeviceType::CPU));
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, counting);
  return counting;
}

/// Bytes of the parameters outside the layers, of all layers, and of the last layer.
struct Sizes {
  double root = 0, layers = 0, last = 0;
  double all() const { return root + layers; }
};

struct Policy {
  std::string name;
  Axis axis;
  int64_t zero_stage;
  /// Bytes that a rank of n receives, times n / (n - 1), in a step of m micro-batches.
  double (*bytes)(const Sizes& sizes, double m);
};

constexpr int64_t kLayers = 3, kHidden = 256;

/// Sizes for which each rank's rows fill cache lines, so that there is no padding.
std::unique_ptr<AnyConfig> even_config(const Entry& entry, int64_t layers = kLayers) {
  return tiny_config(entry, {{"num_hidden_layers", layers},
                             {"hidden_size", kHidden},
                             {"intermediate_size", int64_t{256}},
                             {"vocab_size", int64_t{128}},
                             {"num_key_value_heads", int64_t{4}},
                             {"head_dim", int64_t{64}},
                             {"tie_word_embeddings", false}});
}

std::vector<Batch> to_batch_rows(int64_t tokens, int64_t count) {
  Batch batch;
  batch.input_ids = at::arange(tokens).view({1, tokens});
  batch.labels = batch.input_ids;
  return std::vector<Batch>(static_cast<size_t>(count), batch);
}

void PrintTo(const Policy& one, std::ostream* out) { *out << one.name; }

class Traffic : public ::testing::TestWithParam<Policy> {};

TEST_P(Traffic, OfAStepMatchesTheClosedForm) {
  constexpr int64_t kMicroBatches = 2;
  for (const int ranks : {2, 4}) {
    MeshShape shape;
    shape[GetParam().axis] = ranks;
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh mesh(environment, shape, {.device = at::kCPU});
      const auto counting = count(mesh.group({GetParam().axis}));
      const Entry& entry = get_entry("LlamaForCausalLM");
      ParallelModel model(entry, *even_config(entry), mesh, {.zero_stage = GetParam().zero_stage}, 1);
      const std::vector<Batch> micro_batches = to_batch_rows(/*tokens=*/4, kMicroBatches);
      model.step(micro_batches);  // after this step, the order of units is known
      counting->bytes = 0;
      const double before = traffic().bytes;
      model.step(micro_batches);

      Sizes sizes;
      for (const ShardedParameter& parameter : model.parameters()) {
        const double bytes = 4.0 * static_cast<double>(c10::multiply_integers(parameter.global_shape));
        const bool of_layers = parameter.name.starts_with("model.layers.");
        (of_layers ? sizes.layers : sizes.root) += bytes;
        if (parameter.name.starts_with("model.layers." + std::to_string(kLayers - 1) + ".")) sizes.last += bytes;
      }
      const double share = static_cast<double>(environment.world_size - 1) / environment.world_size;
      EXPECT_DOUBLE_EQ(counting->bytes, share * GetParam().bytes(sizes, kMicroBatches));
      // The runtime's own counters agree, except for the few scalars that a step sums.
      EXPECT_NEAR(traffic().bytes - before, counting->bytes, 64);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, Traffic,
    ::testing::Values(Policy{"ddp", Axis::dp_replicate, 3, [](const Sizes& sizes, double) { return 2 * sizes.all(); }},
                      Policy{"zero1", Axis::dp_shard, 1, [](const Sizes& sizes, double) { return 2 * sizes.all(); }},
                      Policy{"zero2", Axis::dp_shard, 2,
                             [](const Sizes& sizes, double m) { return (m + 1) * sizes.all(); }},
                      // 3 m x the parameters, except that the root stays unsharded during the step, and the last layer
                      // from its forward to its backward.
                      Policy{"zero3", Axis::dp_shard, 3,
                             [](const Sizes& sizes, double m) {
                               return 3 * m * sizes.layers - m * sizes.last + (m + 1) * sizes.root;
                             }}),
    [](const auto& info) { return info.param.name; });

/// Without sequence parallelism, all-reduces over tp ranks: of the embeddings, of the outputs of attention and of the
/// feed-forward network in each layer, of the gradients of their inputs, and of the gradient of the head's input. Per
/// token also the largest logit, with the slice sizes, and the target's logit and the sum of the exponentials.
TEST(Traffic, OfTensorParallelismMatchesTheClosedForm) {
  constexpr int64_t kTokens = 64, kMicroBatches = 2;
  for (const int ranks : {2, 4}) {
    MeshShape shape;
    shape[Axis::tp] = ranks;
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh mesh(environment, shape, {.device = at::kCPU});
      const auto counting = count(mesh.group({Axis::tp}));
      const Entry& entry = get_entry("LlamaForCausalLM");
      ParallelModel model(entry, *even_config(entry), mesh, {.sequence = false}, 1);
      const double before = traffic().bytes;
      counting->bytes = 0;
      model.step(to_batch_rows(kTokens, kMicroBatches));
      const double share = static_cast<double>(ranks - 1) / ranks;
      const double floats = kTokens * kHidden * (1 + 4 * kLayers + 1) + (kTokens + ranks) + 2 * kTokens;
      EXPECT_DOUBLE_EQ(counting->bytes, kMicroBatches * 2 * share * 4 * floats);
      EXPECT_NEAR(traffic().bytes - before, counting->bytes, 64);
    });
  }
}

/// The activations of every micro-batch cross each cut, and so do their gradients.
TEST(Traffic, OfAPipelineMatchesTheClosedForm) {
  constexpr int64_t kTokens = 4, kMicroBatches = 6;
  for (const int ranks : {2, 4}) {
    MeshShape shape;
    shape[Axis::pp] = ranks;
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh mesh(environment, shape, {.device = at::kCPU});
      const auto activations = count(mesh.group({Axis::pp})), gradients = count(mesh.group({Axis::pp}, "gradients"));
      const Entry& entry = get_entry("LlamaForCausalLM");
      ParallelModel model(entry, *even_config(entry, /*layers=*/4), mesh, {}, 1);
      model.step(to_batch_rows(kTokens, kMicroBatches));  // after this step, shapes are known
      activations->bytes = gradients->bytes = 0;
      const double before = traffic().bytes;
      model.step(to_batch_rows(kTokens, kMicroBatches));
      const double cut = kMicroBatches * kTokens * kHidden * 4;
      EXPECT_EQ(activations->bytes, environment.rank > 0 ? cut : 0.0);
      EXPECT_EQ(gradients->bytes, environment.rank + 1 < ranks ? cut : 0.0);
      EXPECT_NEAR(traffic().bytes - before, activations->bytes + gradients->bytes, 64);
    });
  }
}

}  // namespace
}  // namespace modular::testing
