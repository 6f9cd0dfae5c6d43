// The plan of a run against the run itself: the peak of tensor bytes in a step, and the traffic counted by traffic().
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>

#include "runtime/mesh/collectives.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/optimizer.h"
#include "runtime/plan/run_plan.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/ranks.h"

namespace modular::testing {
namespace {

using Options = std::vector<std::string>;

Options llama() {
  return {"model.entry=LlamaForCausalLM",
          "model.config.hidden_size=192",
          "model.config.intermediate_size=512",
          "model.config.num_hidden_layers=8",
          "model.config.num_attention_heads=4",
          "model.config.num_key_value_heads=2",
          "model.config.vocab_size=1000",
          "train.seq_len=96",
          "train.batch_size=16"};
}

Options bert() {
  return {"model.entry=BertForMaskedLM",
          "model.config.hidden_size=192",
          "model.config.intermediate_size=512",
          "model.config.num_hidden_layers=6",
          "model.config.num_attention_heads=4",
          "model.config.vocab_size=1000",
          "data.mask_token=300",
          "train.seq_len=96",
          "train.batch_size=16"};
}

Options with(Options options, const Options& further) {
  options.insert(options.end(), further.begin(), further.end());
  return options;
}

struct Case {
  std::string name;
  int ranks;
  Options options;
};

/// Measures on this rank the peak of the third step, and for each group the traffic received in it.
Report measure_run(const Environment& environment, const RunConfig& config) {
  at::set_num_threads(1);
  install_fused_functions();
  CountingAllocator& counting = CountingAllocator::installed();
  Mesh mesh(environment, config.parallel.mesh_shape(environment.world_size), {.device = at::kCPU});
  ParallelModel model(*config.network.entry, *config.network.config, mesh, config.parallel_options(), 1);
  Optimizer optimizer(model.parameters(), config.optim, mesh);
  const BatchShape shape = config.batch_shape(mesh.shape(), 0);
  Traffic before;
  for (int step = 0; step < 3; ++step) {
    std::vector<Batch> batches(static_cast<size_t>(shape.micro_batches));
    for (Batch& batch : batches) {
      batch.input_ids = at::randint(0, 1000, {shape.micro_batch, config.train.seq_len}, at::kLong);
      batch.labels = batch.input_ids.clone();
    }
    counting.start();
    before = traffic();
    model.step(batches);
    optimizer.step(1e-3, clipping_to(config.optim.max_grad_norm, find_gradient_norm(model.parameters(), mesh)));
    model.parameters_changed();
  }
  Report report = {static_cast<double>(counting.peak())};
  for (const auto& [axes, now] : traffic().over) {
    const AxisTraffic then = before.over[axes];
    if (now.collectives == then.collectives) continue;
    report.push_back(static_cast<double>(now.collectives - then.collectives));
    report.push_back(now.bytes - then.bytes);
  }
  return report;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class PlanTest : public ::testing::TestWithParam<Case> {};

TEST_P(PlanTest, MatchesTheRun) {
  const auto& [name, ranks, options] = GetParam();
  const RunConfig config = read_run_config({}, options);
  const auto reports =
      run_ranks(ranks, [&](const Environment& environment) { return measure_run(environment, config); });

  const RunPlan plan = make_run_plan(config, ranks);
  const auto ranks_per_stage = static_cast<size_t>(ranks / plan.mesh[Axis::pp]);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    const RankPlan& planned = plan.ranks[rank / ranks_per_stage];
    const double peak = static_cast<double>(planned.step.bytes);
    fmt::print("{} rank {}: planned {} measured {}: {:+.2f} %\n", name, rank, planned.step.bytes, reports[rank][0],
               100 * (peak / reports[rank][0] - 1));
    EXPECT_NEAR(peak / reports[rank][0], 1.0, 0.05) << "planned " << peak << ", measured " << reports[rank][0];
    std::vector<double> traffic;
    for (const auto& [axes, volume] : planned.traffic) {
      traffic.push_back(static_cast<double>(volume.collectives));
      traffic.push_back(volume.bytes);
    }
    EXPECT_THAT(traffic, ::testing::ElementsAreArray(reports[rank].begin() + 1, reports[rank].end()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, PlanTest,
    ::testing::ValuesIn(std::vector<Case>{
        {"alone", 1, llama()},
        {"alone_bf16", 1, with(llama(), {"parallel.bf16=true"})},
        {"alone_recomputed", 1, with(llama(), {"parallel.recompute=true"})},
        {"alone_offload", 1, with(llama(), {"parallel.offload=[\"parameters\", \"activations\"]"})},
        {"alone_frozen", 1, with(llama(), {"optim.frozen=[\"model.layers.*.mlp\", \"model.embed_tokens\"]"})},
        {"alone_muon", 1, with(llama(), {"optim.name=muon"})},
        {"bert", 1, bert()},
        {"bert_dropping", 1,
         with(bert(), {"model.config.hidden_dropout_prob=0.1", "model.config.attention_probs_dropout_prob=0.1"})},
        {"zero3_offload", 2, with(llama(), {"parallel.offload=[\"parameters\"]"})},
        {"ddp", 2, with(llama(), {"parallel.dp_replicate=2"})},
        {"zero2", 2, with(llama(), {"parallel.zero_stage=2", "train.micro_batches=4"})},
        {"zero3", 2, with(llama(), {"train.micro_batches=4"})},
        {"zero3_recomputed", 2, with(llama(), {"parallel.recompute=true"})},
        {"hsdp", 4, with(llama(), {"parallel.dp_replicate=2"})},
        {"tp", 2, with(llama(), {"parallel.tp=2"})},
        {"tp_norms", 2, with(llama(), {"parallel.tp=2", "parallel.recompute=[\"norm\"]"})},
        {"tp_zero3", 4, with(llama(), {"parallel.tp=2"})},
        {"tp_zbv", 4,
         with(llama(), {"parallel.tp=2", "parallel.pp=2", "parallel.schedule=zbv", "train.micro_batches=4"})},
        {"cp_gathers", 2, with(llama(), {"parallel.cp=2", "train.micro_batches=2"})},
        {"cp_exchanges", 2, with(llama(), {"parallel.cp=2", "parallel.cp_attention=all-to-all"})},
        {"cp_tp", 4, with(llama(), {"parallel.cp=2", "parallel.tp=2"})},
        {"pp_1f1b", 2, with(llama(), {"parallel.pp=2", "train.micro_batches=8"})},
        {"pp_gpipe", 2, with(llama(), {"parallel.pp=2", "parallel.schedule=gpipe", "train.micro_batches=4"})},
        {"pp_interleaved", 2,
         with(llama(), {"parallel.pp=2", "parallel.schedule=interleaved", "train.micro_batches=4"})},
        {"pp_zbv", 2, with(llama(), {"parallel.pp=2", "parallel.schedule=zbv", "train.micro_batches=4"})},
    }),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(
    Release, PlanTest,
    ::testing::ValuesIn(std::vector<Case>{
        {"alone_in_parts", 1, with(llama(), {"train.micro_batches=4"})},
        {"alone_operations", 1, with(llama(), {"parallel.recompute=[\"norm\", \"activation\"]"})},
        {"alone_every_third", 1, with(llama(), {"parallel.recompute=3"})},
        {"alone_sgd", 1, with(llama(), {"optim.name=sgd"})},
        {"alone_adafactor", 1, with(llama(), {"optim.name=adafactor"})},
        {"bert_recomputed", 1, with(bert(), {"parallel.recompute=true"})},
        {"zero3_no_units", 2, with(llama(), {"parallel.units=[]"})},
        {"bert_zero3", 2, bert()},
        {"zero1", 2, with(llama(), {"parallel.zero_stage=1", "train.micro_batches=4"})},
        {"zero3_bf16", 2, with(llama(), {"parallel.bf16=true"})},
        {"zero3_adafactor", 2, with(llama(), {"optim.name=adafactor"})},
        {"tp_offload", 2, with(llama(), {"parallel.tp=2", "parallel.offload=[\"activations\"]"})},
        {"tp_recomputed", 2, with(llama(), {"parallel.tp=2", "parallel.recompute=true"})},
        {"pp_1f1b_recomputed", 2, with(llama(), {"parallel.pp=2", "train.micro_batches=4", "parallel.recompute=true"})},
        {"pp_looped_bfs", 2, with(llama(), {"parallel.pp=2", "parallel.schedule=looped-bfs", "train.micro_batches=4"})},
        {"pp_interleaved_zero_bubble", 2,
         with(llama(), {"parallel.pp=2", "parallel.schedule=interleaved-zero-bubble", "train.micro_batches=4"})},
        {"pp_dualpipev", 2, with(llama(), {"parallel.pp=2", "parallel.schedule=dualpipev", "train.micro_batches=4"})},
        {"bert_pp", 2, with(bert(), {"parallel.pp=2", "train.micro_batches=4"})},
    }),
    [](const auto& info) { return info.param.name; });

std::string find_error(RunConfig config, int64_t ranks) {
  try {
    fit_memory(config, ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(FitMemory, ChoosesTheFewestMicroBatchesThatFit) {
  RunConfig config = read_run_config({}, llama());
  std::map<int64_t, int64_t> peaks;  // by micro-batches
  for (const int64_t micro_batches : {1, 2, 4, 8, 16}) {
    config.train.micro_batches = micro_batches;
    peaks[micro_batches] = make_run_plan(config, 1).peak();
  }
  EXPECT_LT(peaks[4], peaks[2]);
  for (const int64_t micro_batches : {1, 2, 4, 8, 16}) {
    config.train.micro_batches = 0;
    config.parallel.memory = std::to_string(peaks[micro_batches]) + "B";
    fit_memory(config, 1);
    EXPECT_EQ(config.train.micro_batches, micro_batches);
  }
}

// The first micro-batch's gradients wait for the second: with short rows, one forward needs less than two.
TEST(FitMemory, ChoosesOneForwardIfTwoNeedMore) {
  RunConfig config = read_run_config({}, with(llama(), {"train.seq_len=2"}));
  const int64_t one = make_run_plan(config, 1).peak();
  config.train.micro_batches = 2;
  ASSERT_GT(make_run_plan(config, 1).peak(), one);
  config.train.micro_batches = 0;
  config.parallel.memory = std::to_string(one) + "B";
  fit_memory(config, 1);
  EXPECT_EQ(config.train.micro_batches, 1);
}

TEST(FitMemory, RejectsInvalidConfigs) {
  EXPECT_THAT(
      find_error(
          read_run_config({}, with(bert(), {"model.entry=BertForSequenceClassification", "parallel.memory=4GiB"})), 1),
      ::testing::HasSubstr("needs labelled examples"));
  EXPECT_THAT(
      find_error(read_run_config({}, with(llama(), {"optim.frozen=[\"model\", \"lm_head\"]", "parallel.memory=4GiB"})),
                 1),
      ::testing::HasSubstr("leaves nothing to train"));
  EXPECT_THAT(find_error(read_run_config({}, with(llama(), {"train.micro_batches=0"})), 1),
              ::testing::HasSubstr("parallel.memory, but parallel.memory is not set"));
}

TEST(FitMemory, ReportsTheMemoryThatARowNeeds) {
  EXPECT_THAT(
      find_error(read_run_config({}, with(llama(), {"train.micro_batches=0", "parallel.memory=4MiB"})), 1),
      ::testing::MatchesRegex("a rank needs [0-9]+ MiB with micro-batches of 1 rows, but "
                              "parallel.memory = \"4MiB\" is 4.00 MiB \\(4194304 bytes\\): raise parallel.memory, .*"));
  EXPECT_THAT(find_error(read_run_config({}, with(llama(), {"parallel.memory=4MiB"})), 1),
              ::testing::HasSubstr("micro-batches of 16 rows"));
  EXPECT_EQ(find_error(read_run_config({}, with(llama(), {"parallel.memory=4GiB"})), 1), "");
}

TEST(Plan, OfALargeModelNeedsLittleMemory) {
  const RunConfig config =
      read_run_config({}, {"model.entry=LlamaForCausalLM", "model.config.hidden_size=8192",
                           "model.config.intermediate_size=28672", "model.config.num_hidden_layers=80",
                           "model.config.num_attention_heads=64", "model.config.num_key_value_heads=8",
                           "model.config.vocab_size=128256", "model.config.max_position_embeddings=4096",
                           "train.seq_len=4096", "train.batch_size=64", "parallel.bf16=true"});
  const RunPlan plan = make_run_plan(config, 64);
  // 70.6e9 parameters: the rank's part of the parameters and of AdamW's state in float32.
  const RankPlan& rank = plan.ranks.front();
  EXPECT_NEAR(static_cast<double>(rank.step.held[static_cast<size_t>(Held::parameters)]), 4 * 70.6e9 / 64, 2e7);
  EXPECT_NEAR(static_cast<double>(rank.step.held[static_cast<size_t>(Held::optimizer)]), 8 * 70.6e9 / 64, 4e7);
}

// A mask of a rank's queries and the gathered keys would have a gibibyte for each of its runs.
TEST(Plan, OfALongSequenceHasNoMasks) {
  const auto resident = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} << 10;
  };
  const RunConfig config =
      read_run_config({}, with(llama(), {"train.seq_len=65536", "train.batch_size=1", "parallel.cp=2",
                                         "parallel.cp_attention=all-gather", "parallel.recompute=true"}));
  const int64_t before = resident();
  const RunPlan plan = make_run_plan(config, 2);
  EXPECT_LT(resident() - before, int64_t{1} << 28);
  EXPECT_LT(plan.ranks.front().step.bytes, int64_t{1} << 30);
}

/// Float32 numbers per token that the forward of a layer of llama() keeps on each of two ranks.
double kept_by_a_layer(const Options& options) {
  const auto kept = [&](const char* layers) {
    const RunConfig config = read_run_config({}, with(with(llama(), options), {"parallel.tp=2", layers}));
    return make_run_plan(config, 2).ranks.front().step.one_forward;
  };
  const int64_t of_layers = kept("model.config.num_hidden_layers=8") - kept("model.config.num_hidden_layers=4");
  return static_cast<double>(of_layers) / (4.0 * 16 * 96 * sizeof(float));
}

// Korthikanti et al.: between the split computations a rank keeps its positions only, and what matrices read is
// gathered again.
TEST(Plan, OfSequenceParallelismKeepsTheSharesOfALayer) {
  constexpr double kHidden = 192, kNetwork = 512, kHeads = 4, kKeys = 2 * 48;
  // Of this rank's heads: queries, keys and values, the output and a log-sum-exp. Of its features: gate, up, and their
  // product.
  constexpr double kSplit = (2 * kHidden + 2 * kKeys + kHeads) / 2 + 3 * kNetwork / 2;
  constexpr double kBetween = 2 * (2 * kHidden + 1);  // inputs and results of norms, and the inverse roots
  constexpr double kResults = 2 * kHidden;
  const std::string whole = "parallel.sequence=false", norms = "parallel.recompute=[\"norm\"]";
  EXPECT_NEAR(kept_by_a_layer({whole}), kSplit + kBetween, 1.0);
  EXPECT_NEAR(kept_by_a_layer({}), kSplit + kBetween / 2, 1.0);
  EXPECT_NEAR(kept_by_a_layer({whole, norms}), kSplit + kBetween - kResults, 1.0);
  EXPECT_NEAR(kept_by_a_layer({norms}), kSplit + (kBetween - kResults) / 2, 1.0);
}

TEST(Plan, OfExpertsSplitsTokensEvenly) {
  const RunConfig config = read_run_config(
      {}, {"model.entry=MixtralForCausalLM", "model.config.hidden_size=64", "model.config.intermediate_size=128",
           "model.config.num_hidden_layers=2", "model.config.num_attention_heads=4", "model.config.vocab_size=1000",
           "model.config.num_key_value_heads=2", "model.config.num_local_experts=4", "train.batch_size=4",
           "train.seq_len=32"});
  const Report report =
      run_ranks(1, [&](const Environment& environment) { return measure_run(environment, config); })[0];
  EXPECT_NEAR(static_cast<double>(make_run_plan(config, 1).ranks[0].step.bytes) / report[0], 1.0, 0.05);
}

}  // namespace
}  // namespace modular::testing
