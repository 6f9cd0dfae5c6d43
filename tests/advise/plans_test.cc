// Model profiles agree with plans, and the best choices have the exact planned memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/advise/advice.h"
#include "runtime/advise/profile_model.h"
#include "runtime/plan/run_plan.h"
#include "tests/advise/transformer_profile.h"
#include "tests/data/temporary_folder.h"

namespace modular::testing {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

constexpr DecoderSizes kSizes = {8, 192, 512, 4, 2, 1000};

RunConfig llama(const Settings& further = {}) {
  Settings settings = {"model.entry=LlamaForCausalLM",
                       "model.config.hidden_size=192",
                       "model.config.intermediate_size=512",
                       "model.config.num_hidden_layers=8",
                       "model.config.num_attention_heads=4",
                       "model.config.num_key_value_heads=2",
                       "model.config.vocab_size=1000",
                       "train.seq_len=96",
                       "train.batch_size=16"};
  settings.insert(settings.end(), further.begin(), further.end());
  return read_run_config({}, settings);
}

Cluster four_devices(double memory = 0x1p30) {
  return {.per_node = 4, .memory = memory, .link = 1e9, .flops = 1e11, .attained = 0.8, .memory_speed = 1e10};
}

int64_t get_peak(const RunConfig& config, int64_t ranks) {
  int64_t peak = 0;
  for (const RankPlan& rank : make_run_plan(config, ranks).ranks) peak = std::max(peak, rank.step.bytes);
  return peak;
}

TEST(Profile, MatchesTheDecodersClosedForm) {
  const RunConfig config = llama({"parallel.bf16=true"});
  const ModelProfile found = profile_model(config, default_recomputations(config.parallel), {1, 2, 4}).profile;
  const ModelProfile known =
      decoder_profile(kSizes, 96, {{"none", 0.0}, {"[\"norm\", \"activation\"]", 0.06}, {"full", 1.0}});
  EXPECT_DOUBLE_EQ(found.root.replicated, known.root.replicated);
  EXPECT_DOUBLE_EQ(found.root.split, known.root.split);
  EXPECT_DOUBLE_EQ(found.units.replicated, known.units.replicated);
  EXPECT_DOUBLE_EQ(found.units.split, known.units.split);
  EXPECT_DOUBLE_EQ(found.largest_unit.all(), known.largest_unit.all());
  EXPECT_EQ(found.layers, known.layers);
  EXPECT_EQ(found.unit_count, known.unit_count);
  EXPECT_NEAR(found.flops_of_row / known.flops_of_row, 1.0, 0.01);  // norms
  EXPECT_EQ(found.gathered_bytes, 2.0);
  EXPECT_NEAR(found.optimizer_bytes, 8.0, 0.01);
  EXPECT_NEAR(found.boundary / known.boundary, 1.0, 0.01);
  ASSERT_EQ(found.keepings.size(), known.keepings.size());
  for (size_t i : {0U, 2U}) {
    EXPECT_EQ(found.keepings[i].recomputed, known.keepings[i].recomputed);
    // The loss over the split vocabulary adds a few numbers per token.
    EXPECT_NEAR(found.keepings[i].summed_over_tp / known.keepings[i].summed_over_tp, 1.0, 0.05);
    EXPECT_NEAR(static_cast<double>(found.keepings[i].sums_over_tp),
                static_cast<double>(known.keepings[i].sums_over_tp), 5.0);
    // With sequence parallelism, gathers and reduce-scatters.
    EXPECT_NEAR(found.keepings[i].gathered_over_tp / known.keepings[i].gathered_over_tp, 1.0, 0.05);
    EXPECT_NEAR(static_cast<double>(found.keepings[i].gathers_over_tp),
                static_cast<double>(known.keepings[i].gathers_over_tp), 5.0);
  }
  // A recomputed layer saves its input and little more. Values outside of layers, such as the RoPE tables, are not in
  // the closed form.
  const RunConfig deeper = llama({"parallel.bf16=true", "model.config.num_hidden_layers=16"});
  const auto kept = [](const ModelProfile& profile) { return profile.keepings[2].activations.all(); };
  const ModelProfile deeper_profile = profile_model(deeper, default_recomputations(deeper.parallel), {1, 2, 4}).profile;
  EXPECT_NEAR((kept(deeper_profile) - kept(found)) / kept(known), 1.0, 0.2);
}

TEST(Profile, IsOfTheRunsOwnSequenceParallelism) {
  const auto profile = [](const Settings& settings, const std::vector<int64_t>& tps = {1, 2, 4}) {
    return profile_model(llama(settings), {Recomputation()}, tps).profile;
  };
  const ModelProfile parts = profile({}), whole = profile({"parallel.sequence=false"});
  EXPECT_TRUE(parts.sequence);
  EXPECT_GT(parts.values.between, 0.2 * parts.values.all());
  EXPECT_DOUBLE_EQ(parts.boundary_parts, parts.boundary);
  EXPECT_FALSE(whole.sequence);
  EXPECT_EQ(whole.values.between, 0.0);
  EXPECT_EQ(whole.boundary_parts, 0.0);
  EXPECT_DOUBLE_EQ(whole.values.on(2), parts.values.on(2));
  EXPECT_LT(parts.values.on(2, /*sequence=*/true), whole.values.on(2));
  // tp does not divide 97 positions, and no tp rank shares a row.
  EXPECT_FALSE(profile({"train.seq_len=97"}).sequence);
  EXPECT_FALSE(profile({}, {1}).sequence);
}

// docs/guide/parallelism.md: what a rank receives in each forward and each backward of a layer, here in float32.
TEST(Profile, HasTheClosedFormsOfContextParallelism) {
  const auto contexts = [](const Settings& settings) {
    return profile_model(llama(settings), {Recomputation(), Recomputation(/*all_units=*/true)}, {1, 2},
                         {{2, 1}, {4, 1}, {2, 2}, {4, 2}})
        .profile;
  };
  constexpr double kOfAFeature = 2.0 * 8 * 96 * 4.0, kHeadSize = 48.0;  // forward and backward, layers, tokens, bytes
  // With 4 heads and 2 key and value heads, 2 ranks send less by all-gather; all-to-all cannot divide 2 heads among 4
  // ranks.
  const ModelProfile by_volume = contexts({});
  const auto& cost = by_volume.contexts;
  ASSERT_EQ(cost.size(), 4U);
  // The labels are gathered, too.
  const auto expect_received = [](const ContextCost& found, double bytes) {
    EXPECT_NEAR(found.received / bytes, 1.0, 1e-3);
  };
  expect_received(cost.at({4, 1}), kOfAFeature * 3.0 / 4.0 * 2 * 2 * kHeadSize);
  EXPECT_EQ(cost.at({4, 1}).exchanged, 0.0);
  EXPECT_EQ(cost.at({4, 1}).collectives, 4 * 8 + 1);
  // In addition to its own keys and values, and to the results of the two runs of its positions.
  EXPECT_NEAR(cost.at({4, 1}).kept / (kOfAFeature / 2.0 * 3.0 / 4.0 * 2 * 2 * kHeadSize), 1.2, 0.3);
  EXPECT_LT(by_volume.keepings[1].context_kept, 0.2);
  EXPECT_NEAR(by_volume.keepings[1].context_traffic, 1.5, 0.01);
  const ModelProfile exchanged = contexts({"parallel.cp_attention=all-to-all"});
  ASSERT_TRUE(exchanged.contexts.contains({2, 1}));
  expect_received(exchanged.contexts.at({2, 1}), kOfAFeature / 2.0 / 2.0 * (2 * 4 + 2 * 2) * kHeadSize);
  EXPECT_DOUBLE_EQ(exchanged.contexts.at({2, 1}).exchanged, exchanged.contexts.at({2, 1}).received);
  EXPECT_FALSE(exchanged.contexts.contains({4, 1}));
  const ContextCost all_heads = contexts({"model.config.num_key_value_heads=4"}).contexts.at({4, 1});
  EXPECT_DOUBLE_EQ(all_heads.exchanged, all_heads.received);
  expect_received(all_heads, kOfAFeature * 3.0 / 4.0 / 4.0 * (2 * 4 + 2 * 4) * kHeadSize);
}

TEST(Profile, LooksForContextParallelismOfLongSequencesOnly) {
  const auto sizes = [](int64_t tokens, const Settings& further = {}) {
    Settings settings = {fmt::format("train.seq_len={}", tokens)};
    settings.insert(settings.end(), further.begin(), further.end());
    return find_contexts(llama(settings), {.nodes = 3, .per_node = 2});
  };
  using ::testing::ElementsAre;
  using ::testing::Pair;
  EXPECT_THAT(sizes(2048), ElementsAre());
  EXPECT_THAT(sizes(4096), ElementsAre(Pair(2, 1), Pair(3, 1), Pair(6, 1), Pair(3, 2)));
  EXPECT_THAT(sizes(5000, {"parallel.cp_layout=contiguous"}),
              ElementsAre(Pair(2, 1), Pair(3, 1), Pair(6, 1), Pair(3, 2)));
  EXPECT_THAT(find_contexts(llama({"train.seq_len=4096"}), {.per_node = 32}).size(), 3 + 3 + 3 + 2 + 1);
}

struct NamedLayout {
  std::string name;
  Settings settings;
};

void PrintTo(const NamedLayout& layout, std::ostream* out) { *out << layout.name; }

class Estimates : public ::testing::TestWithParam<NamedLayout> {};

TEST_P(Estimates, AreCloseToPlannedBytesAndPeaks) {
  const RunConfig config = llama(GetParam().settings);
  const Choice choice = assess(config, four_devices()).choices.front();
  ASSERT_EQ(choice.planned, get_peak(config, 4));
  EXPECT_NEAR(choice.estimated.peak / static_cast<double>(*choice.planned), 1.0, 0.15);

  const RunPlan plan = make_run_plan(config, 4);
  const auto most = [&](const std::string& axis) {
    double bytes = 0.0;
    for (const RankPlan& rank : plan.ranks)
      if (const auto found = rank.traffic.find(axis); found != rank.traffic.end())
        bytes = std::max(bytes, found->second.bytes);
    return bytes;
  };
  const Received& bytes_over = choice.time.bytes;
  std::vector<std::pair<const char*, double>> axes = {
      {"dp_replicate", bytes_over.dp_replicate}, {"tp", bytes_over.tp}, {"pp", bytes_over.pp}};
  if (choice.layout.cp == 1)
    axes.emplace_back("dp_shard", bytes_over.dp_shard);
  else if (choice.layout.dp_shard == 1)
    axes.emplace_back("cp", bytes_over.dp_shard + bytes_over.cp);
  else
    axes.insert(axes.end(), {{"dp_shard x cp", bytes_over.dp_shard}, {"cp", bytes_over.cp}});
  // Not in the closed forms: gradient norms, losses, numbers of targets.
  for (const auto& [axis, bytes] : axes) EXPECT_NEAR(bytes, most(axis), 0.02 * most(axis) + 1000.0) << axis;
}

INSTANTIATE_TEST_SUITE_P(Meshes, Estimates,
                         ::testing::ValuesIn(std::vector<NamedLayout>{
                             {"ddp", {"parallel.dp_replicate=4"}},
                             {"zero1", {"parallel.zero_stage=1", "train.micro_batches=2"}},
                             {"zero2", {"parallel.zero_stage=2", "train.micro_batches=2"}},
                             {"zero3", {"train.micro_batches=2"}},
                             {"zero3_recomputed", {"train.micro_batches=2", "parallel.recompute=true"}},
                             {"hsdp", {"parallel.dp_replicate=2"}},
                             {"tp_zero3", {"parallel.sequence=false", "parallel.tp=2"}},
                             {"tp_sequence", {"parallel.tp=2"}},
                             {"tp_sequence_recomputed", {"parallel.tp=4", "parallel.recompute=true"}},
                             {"tp_sequence_pp", {"parallel.tp=2", "parallel.pp=2", "train.micro_batches=4"}},
                             {"tp_of_other_positions", {"parallel.tp=2", "train.seq_len=97"}},
                             {"cp", {"parallel.cp=2", "train.micro_batches=2"}},
                             {"cp_zero1", {"parallel.cp=4", "parallel.zero_stage=1", "train.micro_batches=2"}},
                             {"cp_exchanges", {"parallel.cp=2", "parallel.cp_attention=all-to-all"}},
                             {"cp_contiguous", {"parallel.cp=4", "parallel.cp_layout=contiguous"}},
                             {"cp_recomputed", {"parallel.cp=4", "parallel.recompute=true"}},
                             {"cp_tp", {"parallel.cp=2", "parallel.tp=2"}},
                             {"cp_pp", {"parallel.cp=2", "parallel.pp=2", "train.micro_batches=4"}},
                             {"pp_ddp", {"parallel.pp=2", "parallel.dp_replicate=2", "train.micro_batches=4"}},
                             {"pp", {"parallel.pp=4", "train.micro_batches=8"}},
                             {"pp_interleaved",
                              {"parallel.pp=4", "parallel.schedule=interleaved", "train.micro_batches=8"}},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(Advice, ChoicesFitAndHaveThePlannedMemory) {
  const RunConfig config = llama();
  const Cluster cluster = four_devices(64 * 0x1p20);
  const Advice advice = advise(config, cluster, 4);
  ASSERT_EQ(advice.choices.size(), 4U);
  for (size_t i = 0; i < advice.choices.size(); ++i) {
    const Choice& choice = advice.choices[i];
    SCOPED_TRACE(choice.layout.describe());
    EXPECT_EQ(choice.planned, get_peak(advice.configs[i], 4));
    EXPECT_LE(static_cast<double>(*choice.planned), cluster.usable_memory());
    for (size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(choice.layout.same_mesh(advice.choices[j].layout));
      EXPECT_LE(advice.choices[j].time.total, choice.time.total * 1.006);
    }
  }
}

// One row per step: neither rows nor layers nor heads can be divided over 8 devices, but positions can.
TEST(Advice, DividesOneLongSequence) {
  const Settings one_row = {"train.batch_size=1", "model.config.num_hidden_layers=1",
                            "model.config.num_attention_heads=3", "model.config.num_key_value_heads=3"};
  Settings settings = one_row;
  settings.emplace_back("train.seq_len=8192");
  Cluster eight = four_devices();
  eight.per_node = 8;
  const Advice advice = advise(llama(settings), eight, 3);
  ASSERT_EQ(advice.choices.size(), 1U);
  EXPECT_EQ(advice.choices[0].layout.cp, 8);
  EXPECT_EQ(advice.configs[0].parallel.cp, 8);
  EXPECT_EQ(advice.choices[0].planned, get_peak(advice.configs[0], 8));
  EXPECT_THROW(advise(llama(one_row), eight, 3), ConfigError);  // 96 tokens
}

// Below the memory of all other meshes, whatever they recompute.
TEST(Advice, DividesLongSequencesIfNothingElseFits) {
  const RunConfig config = llama({"train.batch_size=8", "train.seq_len=16384", "model.config.num_hidden_layers=2",
                                  "model.config.num_attention_heads=2", "model.config.num_key_value_heads=1"});
  Cluster eight = four_devices();
  eight.per_node = 8;
  const ProfiledModel without = profile_model(config, default_recomputations(config.parallel), {1, 2});
  LayoutSearch search;
  search.rows = 8;
  search.keepings = without.recomputations.size();
  search.divides = [](int64_t tp) { return tp <= 2; };
  search.makes = [](int64_t stages) { return stages <= 2; };
  double least = 1e18;
  for (const Choice& choice : estimate_all(without.profile, eight, search))
    least = std::min(least, choice.estimated.peak);
  eight.memory = 0.7 * least / (1.0 - eight.reserve);
  const Advice advice = advise(config, eight, 2);
  ASSERT_FALSE(advice.choices.empty());
  for (size_t i = 0; i < advice.choices.size(); ++i) {
    const Choice& choice = advice.choices[i];
    EXPECT_GT(choice.layout.cp, 1) << choice.layout.describe();
    EXPECT_EQ(choice.planned, get_peak(advice.configs[i], 8));
    EXPECT_LE(choice.memory(), eight.usable_memory());
  }
}

TEST(Advice, ConfigsRoundTrip) {
  const RunConfig config = llama();
  Advice advice = advise(config, four_devices(), 1);
  TemporaryFolder folder;
  const auto file = folder.write("best.toml", format_toml(advice.configs.front()));
  const RunConfig read = read_run_config(file, {});
  const Layout& layout = advice.choices.front().layout;
  EXPECT_EQ(read.parallel.tp, layout.tp);
  EXPECT_EQ(read.parallel.dp_replicate, layout.dp_replicate);
  EXPECT_EQ(read.train.micro_batches, layout.micro_batches);
  EXPECT_EQ(get_peak(read, 4), advice.choices.front().planned);
}

std::string error(const RunConfig& config, const Cluster& cluster) {
  try {
    advise(config, cluster, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(Advice, SuggestsWhatWouldFitIfNothingFits) {
  const std::string message = error(llama(), four_devices(4 * 0x1p20));
  EXPECT_THAT(message, HasSubstr("nothing fits: a device needs at least "));
  EXPECT_THAT(message, HasSubstr("pass --memory"));
  EXPECT_THAT(error(llama({"train.batch_size=3", "model.config.num_hidden_layers=1",
                           "model.config.num_attention_heads=3", "model.config.num_key_value_heads=3"}),
                    four_devices()),
              HasSubstr("no mesh of 4 devices divides 3 rows per step"));
  EXPECT_THAT(error(llama({"train.batch_size_per_rank=4"}), four_devices()), HasSubstr("set it to 0"));
  Cluster none = four_devices();
  none.nodes = 0;
  EXPECT_THAT(error(llama(), none), HasSubstr("--nodes is 0"));
}

TEST(Advice, CanBeFormattedAsTextMarkdownAndJson) {
  const RunConfig config = llama();
  const Cluster cluster = four_devices();
  const Advice advice = advise(config, cluster, 2);
  for (const char* format : {"text", "markdown", "json"}) {
    const std::string report = format_report(advice, config, cluster, format);
    EXPECT_THAT(report, HasSubstr("LlamaForCausalLM"));
    EXPECT_THAT(report, HasSubstr("The model fits one device")) << format;
  }
  EXPECT_THAT(format_report(advice, config, cluster, "markdown"), HasSubstr("| micro-batches x rows |"));
  const RunConfig of_positions = llama({"parallel.cp=2", "parallel.tp=2"});
  const Advice as_is = assess(of_positions, cluster);
  const std::string table = format_report(as_is, of_positions, cluster, "markdown");
  EXPECT_THAT(table, HasSubstr("| cp 2 (ZeRO 3) x tp 2 |"));
  EXPECT_THAT(table, HasSubstr("| exposed cp |"));
  EXPECT_THAT(format_report(as_is, of_positions, cluster, "json"), HasSubstr("\"cp\": 2"));
}

}  // namespace
}  // namespace modular::testing
