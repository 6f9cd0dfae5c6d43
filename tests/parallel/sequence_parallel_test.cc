// Sequence parallelism: the same training as on one process, with dropout and clipping; what it sends; and what a
// missing row of the plan changes.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "runtime/mesh/collectives.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "runtime/parallel/parameters/lora.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/tensor/sequence_parallel.h"
#include "tests/parallel/sequence_model.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

constexpr const char* kEntry = "PositionsForCausalLM";
const Fields kDense = {{"intermediate_size", int64_t{48}}, {"hidden_dropout", 0.1}, {"attention_dropout", 0.2}};
const Fields kExperts = {{"intermediate_size", int64_t{48}},
                         {"hidden_dropout", 0.1},
                         {"attention_dropout", 0.2},
                         {"num_experts", int64_t{4}}};

MeshShape mesh(int64_t tp, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, 1, tp}};
}

TEST(SequenceParallel, TrainsTheSameOnTwoRanks) {
  Recomputation operations;
  operations.operations = recomputed_operations();
  const Offload offload = {.activations = true, .least_bytes = 256};
  expect_same_training(
      kEntry, mesh(2),
      {{.name = "micro-batches", .fields = kDense, .micro_batches = 2},
       {.name = "recomputation", .fields = kDense, .options = {.recompute = true}, .micro_batches = 2},
       {.name = "all positions", .fields = kDense, .options = {.sequence = false}, .micro_batches = 2},
       {.name = "operations", .fields = kDense, .options = {.recompute = operations}, .micro_batches = 2},
       {.name = "offloading", .fields = kDense, .options = {.offload = offload}, .micro_batches = 2}});
}

TEST(SequenceParallel, TrainsTheSameWithOtherOptimizers) {
  expect_same_training(kEntry, mesh(2),
                       {{.name = "SGD", .fields = kDense, .micro_batches = 2, .optimizer = "sgd"},
                        {.name = "Muon", .fields = kDense, .micro_batches = 2, .optimizer = "muon"}},
                       // Muon makes all singular values equal, also those near 0, which are rounding.
                       /*tolerance=*/1e-4);
}

TEST(SequenceParallel, TrainsTheSameOnFourRanks) {
  expect_same_training(kEntry, mesh(4), {{.name = "micro-batches", .fields = kDense, .micro_batches = 2}});
}

TEST(SequenceParallel, TrainsTheSameWithReplicas) {
  expect_same_training(kEntry, mesh(2, 2), {{.name = "micro-batches", .fields = kDense, .micro_batches = 2}});
}

TEST(SequenceParallel, TrainsTheSameWithShards) {
  expect_same_training(kEntry, mesh(2, 1, 2),
                       {{.name = "recomputation", .fields = kDense, .options = {.recompute = true}, .micro_batches = 2},
                        {.name = "ZeRO-1", .fields = kDense, .options = {.zero_stage = 1}, .micro_batches = 2}});
}

TEST(SequenceParallel, TrainsTheSameInPipelineStages) {
  expect_same_training(kEntry, mesh(2, 1, 1, 2),
                       {{.name = "micro-batches", .fields = kDense, .micro_batches = 2},
                        {.name = "split backwards",
                         .fields = kDense,
                         .options = {.pipeline = {.schedule = "zbv"}},
                         .micro_batches = 4}});
}

Variant with_balanced_experts(const char* name, bool by_sequence) {
  return {.name = name,
          .fields = kExperts,
          .options = {.router = {.aux_loss = 0.02, .by_sequence = by_sequence, .z_loss = 0.01}},
          .micro_batches = 2};
}

TEST(SequenceParallel, TrainsExpertsTheSame) {
  // The first rank has the padding of the last row.
  Variant over_the_step = with_balanced_experts("over the step", false);
  over_the_step.left_padding = true;
  expect_same_training(kEntry, mesh(2), {over_the_step, with_balanced_experts("by sequence", true)});
}

TEST(SequenceParallel, TrainsExpertsTheSameInPipelineStages) {
  expect_same_training(kEntry, mesh(2, 1, 1, 2), {with_balanced_experts("over the step", false)});
}

TEST(SequenceParallel, TrainsAdaptersTheSame) {
  const Entry& base = get_entry(kEntry);
  static const auto adapted =
      with_lora(base, *tiny_config(base, kDense), {.layers = {"all-linear"}, .rank = 4, .dropout = 0.1});
  Entry named = adapted->entry;
  named.architecture = "AdaptedPositions";
  entries().push_back(named);
  expect_same_training(
      "AdaptedPositions", mesh(2),
      {{.name = "adapters", .fields = kDense, .options = {.trained = std::vector<std::string>()}, .micro_batches = 2},
       {.name = "and norms",
        .fields = kDense,
        .options = {.trained = std::vector<std::string>{"layers.*.norm"}},
        .micro_batches = 2}});
}

/// The norms of a first step's gradients on the entry with another plan: of all parameters, then of those that match
/// each of `patterns`.
std::vector<double> norms_on(Mesh& on, const Plan& plan, const std::vector<std::string>& patterns) {
  Entry entry = get_entry(kEntry);
  entry.plan = &plan;
  ParallelModel model(entry, *tiny_config(entry, kExperts), on, {}, /*seed=*/11);
  const Batch batch = global_batch(entry, 0);
  model.step({&batch, 1});
  const auto norm_of = [&](const std::vector<ShardedParameter>& parameters) {
    return find_gradient_norm(parameters, on).norm.item<double>();
  };
  std::vector<double> norms = {norm_of(model.parameters())};
  for (const std::string& pattern : patterns) {
    std::vector<ShardedParameter> some = model.parameters();
    std::erase_if(some, [&](const ShardedParameter& parameter) { return !matches(pattern, parameter.name); });
    norms.push_back(norm_of(some));
  }
  return norms;
}

TEST(SequenceParallel, NeedsEveryRowOfThePlan) {
  Mesh alone({}, {}, {.device = at::kCPU});
  const Plan& plan = *get_entry(kEntry).plan;
  const std::vector<std::string>& rows = plan.partial_in_sequence;
  const std::vector<double> expected = norms_on(alone, plan, rows);
  run_ranks(2, [&](const Environment& environment) {
    Mesh two(environment, mesh(2), {.device = at::kCPU});
    const auto differences = [&](const Plan& other) {
      std::vector<double> found = norms_on(two, other, rows);
      for (size_t i = 0; i < found.size(); ++i) found[i] = std::abs(found[i] / expected[i] - 1);
      return found;
    };
    EXPECT_LE(std::ranges::max(differences(plan)), 1e-5);
    for (size_t row = 0; row < rows.size(); ++row) {
      Plan without = plan;
      std::erase(without.partial_in_sequence, rows[row]);
      const std::vector<double> found = differences(without);
      for (size_t i = 1; i < found.size(); ++i)
        EXPECT_EQ(found[i] > 1e-2, i == row + 1) << rows[i - 1] << " without " << rows[row] << ": " << found[i];
    }
    Plan full = plan;
    full.sequence.clear();
    EXPECT_LE(std::ranges::max(differences(full)), 1e-5) << "without the mark, every rank has all positions";
  });
}

/// A model with `kLayers` layers, and what it sends in addition to hidden states, in numbers per layer.
struct Sender {
  const char* entry;
  Fields fields;
  int64_t of_head_norms;  // gradients of norms of split heads, in each micro-batch
  int64_t marked;         // parameters that are partial in the sequence, in each step
};
constexpr int64_t kHidden = 256, kLayers = 3, kHeadDim = 64;

class SequenceTraffic : public ::testing::TestWithParam<Sender> {};

/// Per layer, two gathers and two reduce-scatters in the forward, of all positions' hidden states, and in the backward
/// the same of their gradients, and two more gathers, of what the layer's split matrices read.
/// At the ends the all-reduces of the embeddings and of the gradient of the head's input, the gather of the last
/// layer's output, and that of the gradient of the first layer's input. The head norms' gradients, the loss and the
/// gradients of positions.
TEST_P(SequenceTraffic, IsTheClosedForm) {
  constexpr int64_t kTokens = 64, kMicroBatches = 2;
  const Entry& entry = get_entry(GetParam().entry);
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh on(environment, mesh(ranks), {.device = at::kCPU});
      ParallelModel model(entry, *tiny_config(entry, GetParam().fields), on, {}, 1);
      const auto sent = [&](int64_t tokens) {
        Batch batch;
        batch.input_ids = batch.labels = at::arange(tokens).view({1, tokens});
        const double before = traffic().over["tp"].bytes;
        model.step(std::vector<Batch>(kMicroBatches, batch));
        return traffic().over["tp"].bytes - before;
      };
      const double share = static_cast<double>(ranks - 1) / ranks;
      const auto bytes = [&](double once, double twice) { return 4 * share * (once + 2 * twice); };
      const auto of_loss = [&](int64_t tokens) { return 3.0 * static_cast<double>(tokens) + ranks; };
      const double of_head_norms = kLayers * GetParam().of_head_norms;
      EXPECT_DOUBLE_EQ(sent(kTokens),
                       kMicroBatches * bytes(kTokens * kHidden * (10 * kLayers + 6), of_loss(kTokens) + of_head_norms) +
                           bytes(0, kLayers * GetParam().marked));
      // Not divided: all-reduces of full hidden states.
      constexpr int64_t kOdd = 61;
      EXPECT_DOUBLE_EQ(sent(kOdd),
                       kMicroBatches * bytes(0, kOdd * kHidden * (4 * kLayers + 2) + of_loss(kOdd) + of_head_norms));
    });
  }
}

Fields sender_fields() {
  return {{"hidden_size", kHidden},
          {"intermediate_size", int64_t{256}},
          {"num_hidden_layers", kLayers},
          {"vocab_size", int64_t{128}},
          {"head_dim", kHeadDim},
          {"num_attention_heads", int64_t{4}},
          {"num_key_value_heads", int64_t{4}}};
}

INSTANTIATE_TEST_SUITE_P(Models, SequenceTraffic,
                         ::testing::Values(
                             // Two norms with biases, a gate, and a bias.
                             Sender{kEntry, sender_fields(), kHeadDim, (6 + kHidden) * kHidden},
                             // Two norms.
                             Sender{"LlamaForCausalLM", sender_fields(), 0, 2 * kHidden}),
                         [](const auto& info) { return std::string(info.param.entry); });

/// Three matrices read a share that is gathered once. Its backward: as a whole, or first the gradient of the share and
/// then those of the matrices.
struct Readers {
  std::vector<at::Tensor> gradients;
  int64_t in_forward, in_backward;  // collectives
  bool is_kept;                     // whether the gathered share is in memory between forward and backward

  Readers(Mesh& on, bool keeps, bool splits) {
    const ProcessGroup tp = on.group({Axis::tp});
    SequenceShares shares(tp, /*two_stacks=*/false, /*context=*/nullptr);
    SavedTensors saved({}, {}, at::kCPU, {});
    const InstalledSavedTensors installed(keeps ? nullptr : &saved);
    at::manual_seed(5 + static_cast<uint64_t>(tp->getRank()));
    const at::Tensor share = at::randn({2, 6, 8}).requires_grad_();
    std::vector<at::Tensor> matrices;
    for (int i = 0; i < 3; ++i) matrices.push_back(at::randn({8, 5}).requires_grad_());
    const auto count = [] { return traffic().over["tp"].collectives; };
    const int64_t before = count();
    at::Tensor sum = at::zeros({});
    c10::weak_intrusive_ptr<c10::StorageImpl> memory(c10::intrusive_ptr<c10::StorageImpl>{});
    {
      SavedTensors::Frame frame(keeps ? nullptr : &saved, {});
      const at::Tensor all = shares.enter(share.sin(), /*dim=*/-2);
      memory = all.storage().getWeakStorageImpl();
      for (const at::Tensor& matrix : matrices) sum = sum + all.matmul(matrix).square().sum();
      frame.finish(/*offload=*/false);
    }
    in_forward = count() - before;
    is_kept = !memory.expired();
    if (splits) {
      gradients = torch::autograd::grad({sum}, {share}, {}, /*retain_graph=*/true);
      for (const at::Tensor& each : torch::autograd::grad({sum}, matrices)) gradients.push_back(each);
    } else {
      matrices.insert(matrices.begin(), share);
      gradients = torch::autograd::grad({sum}, matrices);
    }
    in_backward = count() - before - in_forward;
  }
};

TEST(SequenceParallel, KeepsSharesAndGathersThemAgainOnce) {
  run_ranks(2, [&](const Environment& environment) {
    Mesh on(environment, mesh(2), {.device = at::kCPU});
    const Readers kept(on, /*keeps=*/true, false), whole(on, false, false), in_halves(on, false, /*splits=*/true);
    EXPECT_TRUE(kept.is_kept);
    EXPECT_EQ(kept.in_backward, 1) << "a reduce-scatter of the gradient";
    for (const Readers* readers : {&whole, &in_halves}) {
      EXPECT_FALSE(readers->is_kept);
      EXPECT_EQ(readers->in_forward, 1);
      for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(readers->gradients[i], kept.gradients[i])) << i;
    }
    EXPECT_EQ(whole.in_backward, 2);
    EXPECT_EQ(in_halves.in_backward, 3) << "the matrices' nodes read their inputs in both halves";
  });
}

TEST(SequenceParallel, SendsAPartOfThePositionsBetweenStages) {
  constexpr int64_t kTokens = 64, kMicroBatches = 4;
  const Entry& entry = get_entry(kEntry);
  run_ranks(4, [&](const Environment& environment) {
    Mesh on(environment, mesh(2, 1, 1, 2), {.device = at::kCPU});
    const auto config = tiny_config(
        entry, {{"hidden_size", kHidden}, {"intermediate_size", int64_t{48}}, {"vocab_size", int64_t{128}}});
    ParallelModel model(entry, *config, on, {}, 1);
    // tp divides the first length only.
    for (const auto& [tokens, part] : {std::pair(kTokens, kTokens / 2), {kTokens - 1, kTokens - 1}}) {
      Batch batch;
      batch.input_ids = batch.labels = at::arange(tokens).view({1, tokens});
      const std::vector<Batch> micro_batches(kMicroBatches, batch);
      model.step(micro_batches);  // after this step, shapes are known
      const double before = traffic().over["pp"].bytes;
      model.step(micro_batches);
      // Activations of the first stage, or gradients of the second; and a few scalars.
      EXPECT_NEAR(traffic().over["pp"].bytes - before, static_cast<double>(kMicroBatches * part * kHidden * 4), 256);
    }
  });
}

/// The lengths of a step's micro-batches decide, so the same batch has two shapes of activations.
TEST(SequenceParallel, NeedsDivisibleSequencesInTheWholeStep) {
  Mesh alone({}, {}, {.device = at::kCPU});
  const Entry& entry = get_entry(kEntry);
  const auto losses = [&](Mesh& on) {
    ParallelModel model(entry, *tiny_config(entry, kDense), on, {}, /*seed=*/11);
    Batch even = global_batch(entry, 0), odd = global_batch(entry, 1);
    odd.tensors([](at::Tensor& tensor) {
      if (tensor.defined() && tensor.dim() > 1) tensor = tensor.narrow(1, 0, 11);
    });
    Report report;
    for (const std::vector<Batch>& step : {std::vector{even, even}, std::vector{even, odd}, std::vector{even, even}}) {
      report.push_back(model.step(step).loss);
      report.push_back(find_gradient_norm(model.parameters(), on).norm.item<double>());
    }
    report.push_back(model.evaluate(std::vector{even, odd}).loss);
    report.push_back(model.evaluate(std::vector{even}).loss);
    return report;
  };
  const Report expected = losses(alone);
  const auto reports = run_ranks(4, [&](const Environment& environment) {
    Mesh on(environment, mesh(2, 1, 1, 2), {.device = at::kCPU});
    return losses(on);
  });
  for (const Report& report : reports)
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(report[i], expected[i], 1e-5 * expected[i]) << i;
}

TEST(SequenceParallel, IsRejectedWhereThePlanDoesNotSupportIt) {
  const Entry& vit = get_entry("ViTForImageClassification");
  EXPECT_EQ(sequence_error(vit, std::nullopt), "");
  EXPECT_EQ(sequence_error(vit, false), "");
  EXPECT_EQ(sequence_error(vit, true),
            "parallel.sequence is true, but ViTForImageClassification has no layers that run on a part of the "
            "positions: leave it out, or set it to false");
  EXPECT_EQ(sequence_error(get_entry(kEntry), true), "");
}

}  // namespace
}  // namespace modular::testing
