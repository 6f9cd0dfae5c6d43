// Model profiles agree with plans, and the best choices have the exact planned memory.
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
  }
  // A recomputed layer saves its input and little more. Values outside of layers, such as the RoPE tables, are not in
  // the closed form.
  const RunConfig deeper = llama({"parallel.bf16=true", "model.config.num_hidden_layers=16"});
  const auto kept = [](const ModelProfile& profile) { return profile.keepings[2].activations.all(); };
  const ModelProfile deeper_profile = profile_model(deeper, default_recomputations(deeper.parallel), {1, 2, 4}).profile;
  EXPECT_NEAR((kept(deeper_profile) - kept(found)) / kept(known), 1.0, 0.2);
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
  const std::pair<const char*, double> axes[] = {{"dp_shard", choice.time.bytes.dp_shard},
                                                 {"dp_replicate", choice.time.bytes.dp_replicate},
                                                 {"tp", choice.time.bytes.tp},
                                                 {"pp", choice.time.bytes.pp}};
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
}

}  // namespace
}  // namespace modular::testing
