// Context parallelism: the same training as on one process, with dropout and clipping; and what it sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/mesh/collectives.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/tensor/context_parallel.h"
#include "tests/parallel/family_sizes.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

using Layout = ContextOptions::Layout;
using Attention = ContextOptions::Attention;

MeshShape mesh(int64_t cp, int64_t tp = 1, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, cp, tp}};
}

/// Trains with two micro-batches.
Variant variant(const char* name, const Fields& fields, ContextOptions context = {}, bool recompute = false) {
  Variant made{.name = name, .fields = fields, .micro_batches = 2, .steps = 4};
  made.options.context = context;
  made.options.recompute = recompute;
  return made;
}

const Fields kLlama = {{"attention_dropout", 0.2}};

TEST(ContextParallel, TrainsTheSameOnTwoRanks) {
  expect_same_training("LlamaForCausalLM", mesh(2),
                       {variant("zigzag", kLlama, {Layout::zigzag, Attention::all_gather}),
                        variant("contiguous", kLlama, {Layout::contiguous, Attention::all_gather}, /*recompute=*/true),
                        variant("heads", kLlama, {Layout::zigzag, Attention::all_to_all})});
}

TEST(ContextParallel, TrainsTheSameOnFourRanks) {
  Variant zigzag = variant("zigzag", kLlama);
  zigzag.sequence = 16;
  expect_same_training("LlamaForCausalLM", mesh(4), {zigzag});
}

TEST(ContextParallel, TrainsDocumentsAndPaddingTheSame) {
  Variant documents = variant("documents", kLlama), left = variant("left", kLlama);
  documents.documents = left.left_padding = true;
  expect_same_training("LlamaForCausalLM", mesh(2), {documents, left});
}

TEST(ContextParallel, TrainsTheSameWithTensorParallelism) {
  expect_same_training("LlamaForCausalLM", mesh(2, 2), {variant("zigzag", kLlama)});
}

TEST(ContextParallel, TrainsTheSameWithReplicas) {
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 2), {variant("zigzag", kLlama)});
}

TEST(ContextParallel, TrainsTheSameWithShards) {
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 1, 2), {variant("zigzag", kLlama)});
}

TEST(ContextParallel, TrainsTheSameInPipelineStages) {
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 1, 1, 2), {variant("zigzag", kLlama)});
}

/// With sequence parallelism, tp ranks divide the positions of a cp rank.
TEST(ContextParallel, TrainsTheSameWithSequenceParallelism) {
  const Fields fields = {{"intermediate_size", int64_t{48}}, {"hidden_dropout", 0.1}, {"attention_dropout", 0.2}};
  Variant experts = variant("experts", fields);
  experts.fields["num_experts"] = int64_t{4};
  experts.options.router = {.aux_loss = 0.02, .by_sequence = true, .z_loss = 0.01};
  expect_same_training("PositionsForCausalLM", mesh(2, 2), {variant("zigzag", fields), experts});
}

/// Rows of documents in the balanced layout. The micro-batches of a step have divisions of their own.
Variant balanced(const char* name, bool recompute = false, Attention attention = Attention::all_gather) {
  Variant made = variant(name, kLlama, {Layout::balanced, attention}, recompute);
  made.packed = true;
  made.sequence = 64;
  return made;
}

TEST(ContextParallel, TrainsTheSameInTheBalancedLayout) {
  Variant odd = balanced("61 tokens"), left = balanced("left, recomputed", /*recompute=*/true);
  odd.sequence = 61;
  left.left_padding = true;
  expect_same_training("LlamaForCausalLM", mesh(2), {odd, left, balanced("heads", false, Attention::all_to_all)});
}

TEST(ContextParallel, TrainsTheSameInTheBalancedLayoutOnFourRanks) {
  expect_same_training("LlamaForCausalLM", mesh(4), {balanced("kept")});
}

TEST(ContextParallel, TrainsTheSameInTheBalancedLayoutInPipelineStages) {
  expect_same_training("LlamaForCausalLM", mesh(2, 1, 1, 1, 2), {balanced("kept"), balanced("recomputed", true)});
}

TEST(ContextParallel, TrainsTheSameInTheBalancedLayoutWithSequenceParallelism) {
  Variant made = balanced("recomputed", true);
  made.fields = {{"intermediate_size", int64_t{48}}, {"hidden_dropout", 0.1}, {"attention_dropout", 0.2}};
  expect_same_training("PositionsForCausalLM", mesh(2, 2), {made});
}

/// Convolutions and scans over several runs of a rank.
TEST(ContextParallel, TrainsStateSpacesTheSameInTheBalancedLayout) {
  Variant made = balanced("runs");
  made.fields = fields_of("mamba2");
  made.packed = false;
  expect_same_training("Mamba2ForCausalLM", mesh(2), {made});
}

TEST(ContextParallel, TrainsAnEncoderAndADecoderTheSameInTheBalancedLayout) {
  Variant made = balanced("runs");
  made.fields = kSmallT5;
  made.packed = false;
  expect_same_training("T5ForConditionalGeneration", mesh(2), {made});
}

struct Family {
  std::string entry;
  Fields fields;
};

class ContextParallelFamilies : public ::testing::TestWithParam<Family> {};

TEST_P(ContextParallelFamilies, TrainTheSame) {
  const auto& [entry, fields] = GetParam();
  Variant documents = variant("documents", fields, {.attention = Attention::all_gather});
  documents.documents = true;
  expect_same_training(entry, mesh(2), {variant("automatic", fields), documents});
}

const Fields kBert = {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}, {"num_labels", int64_t{3}}};

std::string name_of(const ::testing::TestParamInfo<Family>& info) { return info.param.entry; }

// A masked model, rows with labels, and windows with soft-capped scores.
INSTANTIATE_TEST_SUITE_P(
    Kinds, ContextParallelFamilies,
    ::testing::Values(Family{"BertForMaskedLM", kBert}, Family{"BertForSequenceClassification", kBert},
                      Family{"Gemma2ForCausalLM", {{"query_pre_attn_scalar", int64_t{8}}, {"attention_dropout", 0.1}}}),
    name_of);

/// The gradient norm of a first step.
double norm_on(Mesh& on, const Entry& entry) {
  ParallelModel model(entry, *tiny_config(entry, kBert), on, {.dropout = false}, /*seed=*/11);
  const Batch batch = global_batch(entry, 0);
  model.step({&batch, 1});
  return find_gradient_norm(model.parameters(), on).norm.item<double>();
}

TEST(ContextParallel, CountsALossOfRowsOnce) {
  Mesh alone({}, {}, {.device = at::kCPU});
  const Entry& entry = get_entry("BertForSequenceClassification");
  ASSERT_TRUE(entry.plan->full_loss);
  const double expected = norm_on(alone, entry);
  run_ranks(2, [&](const Environment& environment) {
    Mesh two(environment, mesh(2), {.device = at::kCPU});
    EXPECT_NEAR(norm_on(two, entry), expected, 1e-5 * expected);
    Plan without = *entry.plan;
    without.full_loss = false;
    Entry other = entry;
    other.plan = &without;
    EXPECT_ANY_THROW(norm_on(two, other)) << "every rank counts it";
  });
}

/// The loss of a single target, which one rank has, is divided by 1: neither by that rank's count nor by the ranks.
TEST(ContextParallel, CountsTheTargetsOfAllRanks) {
  const Entry& entry = get_entry("LlamaForCausalLM");
  Batch batch = global_batch(entry, 0);
  batch.labels = at::full_like(batch.labels, kIgnoredTarget);
  batch.labels[3][7] = batch.input_ids[3][7];
  const auto step_on = [&](Mesh& on) {
    ParallelModel model(entry, *tiny_config(entry), on, {}, /*seed=*/11);
    const double loss = model.step({&batch, 1}).loss;
    return Report{loss, find_gradient_norm(model.parameters(), on).norm.item<double>()};
  };
  Mesh alone({}, {}, {.device = at::kCPU});
  const Report expected = step_on(alone);
  for (const int size : {2, 4})
    run_ranks(size, [&](const Environment& environment) {
      Mesh on(environment, mesh(size), {.device = at::kCPU});
      const Report found = step_on(on);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << (i == 0 ? "the loss" : "the norm");
    });
}

TEST(ContextParallel, PadsSequencesThatRanksDoNotDivide) {
  Variant odd = variant("11 tokens", kLlama);
  odd.sequence = 11;
  expect_same_training("LlamaForCausalLM", mesh(2), {odd});
}

/// Each token sees as many keys as its position says. Zigzag gives all ranks as many; contiguous runs do not.
TEST(ContextParallel, BalancesVisibleKeysByZigzag) {
  for (const int size : {2, 4})
    run_ranks(size, [&](const Environment& environment) {
      Mesh on(environment, mesh(size), {.device = at::kCPU});
      // The most visible keys of a rank, as a multiple of the mean.
      const auto imbalance = [&](Layout layout, int64_t length) {
        const ContextRanks ranks(on.group({Axis::cp}), Attention::automatic, layout, {});
        double most = 0, all = 0;
        for (int64_t rank = 0; rank < size; ++rank) {
          double keys = 0;
          for (const cp::Run& run : ranks.runs_of(rank, ranks.count(length)))
            for (int64_t i = run.begin; i < std::min(run.end(), length); ++i) keys += static_cast<double>(i + 1);
          most = std::max(most, keys), all += keys;
        }
        return most / (all / size);
      };
      for (const int64_t length : {512, 1000, 1001, 4096, 32768}) {
        EXPECT_LE(imbalance(Layout::zigzag, length), 1.02) << length << " positions";
        EXPECT_GE(imbalance(Layout::contiguous, length), 1.4) << length << " positions";
      }
    });
}

/// Rows of documents whose lengths are log-normal, as those of web pages are: medians of 1/64 to 1/4 of the row, and
/// some documents of the entire row.
Batch packed_rows(int64_t rows, int64_t length, uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> lengths(std::log(static_cast<double>(length) / (4 << seed % 5)), 1.2);
  Batch batch;
  batch.input_ids = at::zeros({rows, length}, at::kLong);
  batch.documents = at::zeros({rows, length}, at::kLong);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0, document = 0; i < length; ++document) {
      const int64_t end = std::min(length, i + 1 + static_cast<int64_t>(lengths(random)));
      batch.documents[row].slice(0, i, end).fill_(document);
      i = end;
    }
  return batch;
}

/// The keys of each query's document up to the query. The balanced layout gives all ranks about as many, zigzag does
/// not.
TEST(ContextParallel, BalancesVisibleKeysOfDocuments) {
  constexpr int kBatches = 40;
  for (const int size : {2, 4})
    run_ranks(size, [&](const Environment& environment) {
      Mesh on(environment, mesh(size), {.device = at::kCPU});
      // The most visible keys of a rank, as a multiple of the mean.
      const auto imbalance = [&](Layout layout, const Batch& batch) {
        ContextRanks ranks(on.group({Axis::cp}), Attention::automatic, layout, {});
        const int64_t length = batch.input_ids.size(1);
        const DealtRuns runs = ranks.deal(batch);
        const Tensor place = at::arange(length);
        const Tensor begins = batch.documents.diff(1, 1, at::full({batch.documents.size(0), 1}, -1)).ne(0);
        const Tensor keys = (place - std::get<0>((begins * place).cummax(1)) + 1).sum(0);  // [positions]
        double most = 0;
        int64_t positions = 0;
        for (int64_t rank = 0; rank < size; ++rank) {
          double own = 0;
          for (const cp::Run& run : runs.of(rank, ranks.count(length))) {
            own += keys.slice(0, run.begin, run.end()).sum().item<double>();
            positions += run.size;
          }
          most = std::max(most, own);
        }
        EXPECT_EQ(positions, ranks.count(length) * size);
        return most / (keys.sum().item<double>() / size);
      };
      for (const int64_t length : {2048, 4096, 5000, 32768})
        for (const int64_t rows : {1, 4}) {
          double worst = 0, worst_by_zigzag = 0;
          for (uint32_t seed = 0; seed < kBatches; ++seed) {
            const Batch batch = packed_rows(rows, length, seed);
            worst = std::max(worst, imbalance(Layout::balanced, batch));
            worst_by_zigzag = std::max(worst_by_zigzag, imbalance(Layout::zigzag, batch));
          }
          EXPECT_LE(worst, 1.05) << rows << " rows of " << length << " positions";
          EXPECT_GE(worst_by_zigzag, 1.1) << rows << " rows of " << length << " positions";
        }
    });
}

/// Per layer, keys and values are gathered in the forward and their gradients reduce-scattered in the backward, or
/// queries, keys, values and results are exchanged in both. The rest are labels, once per micro-batch.
TEST(ContextParallel, SendsTheClosedForm) {
  constexpr int64_t kMicroBatches = 2, kLayers = 3, kHeads = 8, kKeyHeads = 4, kHeadDim = 16;
  const Entry& entry = get_entry("LlamaForCausalLM");
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh on(environment, mesh(ranks), {.device = at::kCPU});
      const auto config = tiny_config(entry, {{"num_hidden_layers", kLayers},
                                              {"num_attention_heads", kHeads},
                                              {"num_key_value_heads", kKeyHeads},
                                              {"head_dim", kHeadDim}});
      for (const Attention attention : {Attention::all_gather, Attention::all_to_all}) {
        ParallelModel model(entry, *config, on, {.context = {Layout::zigzag, attention}}, 1);
        const auto sent = [&](int64_t tokens) {
          Batch batch;
          batch.input_ids = batch.labels = at::arange(tokens).view({1, tokens});
          const double before = traffic().over["cp"].bytes;
          model.step(std::vector<Batch>(kMicroBatches, batch));
          return traffic().over["cp"].bytes - before;
        };
        constexpr int64_t kTokens = 16, kMore = 48;
        const int64_t per_token = attention == Attention::all_gather ? 2 * kKeyHeads * kHeadDim
                                                                     : (2 * kHeads + 2 * kKeyHeads) * kHeadDim / ranks;
        const double others = static_cast<double>(ranks - 1) / ranks;
        EXPECT_DOUBLE_EQ(
            sent(kMore) - sent(kTokens),
            kMicroBatches * others * static_cast<double>((kMore - kTokens) * (2 * 4 * kLayers * per_token + 8)));
      }
    });
  }
}

TEST(ContextParallel, IsRejectedWithTheReasonOfThePlan) {
  const Entry& entry = get_entry("ViTForImageClassification");
  EXPECT_EQ(context_error(entry, 1), "");
  EXPECT_EQ(context_error(get_entry("LlamaForCausalLM"), 2), "");
  EXPECT_EQ(ParallelModel::error(entry, *tiny_config(entry), mesh(2)), context_error(entry, 2));
  EXPECT_EQ(context_error(entry, 2), "cp = 2, but ViTForImageClassification cannot divide its sequences: " +
                                         entry.plan->context_error + "; set parallel.cp to 1");
}

}  // namespace
}  // namespace modular::testing
