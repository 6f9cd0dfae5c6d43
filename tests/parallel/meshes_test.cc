// Every mesh trains like one process: all ways to arrange 2, 3, 4, 6 and 8 ranks along the axes, including each
// ZeRO stage, each pipeline schedule and recomputation, with and without dropout. A subset runs by default;
// MODULAR_LONG_TESTS=1 runs all, for every family below.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "runtime/ops/fused.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

// All processes of this program train with this project's kernels.
[[maybe_unused]] const bool has_kernels = (install_fused_functions(), true);

struct Family {
  std::string architecture;
  Fields fields;
  Fields dropout;
};

Fields t5_fields() {
  Fields fields = kSmallT5;
  fields["num_layers"] = fields["num_decoder_layers"] = int64_t{4};
  return fields;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"LlamaForCausalLM", {{"num_hidden_layers", int64_t{8}}}, {{"attention_dropout", 0.1}}},
      {"BertForMaskedLM",
       {{"num_hidden_layers", int64_t{8}}},
       {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}}},
      {"Gemma2ForCausalLM",
       {{"num_hidden_layers", int64_t{8}}, {"query_pre_attn_scalar", int64_t{8}}},
       {{"attention_dropout", 0.1}}},
      {"GPT2LMHeadModel",
       {{"n_embd", int64_t{36}}, {"n_layer", int64_t{8}}, {"n_head", int64_t{4}}, {"n_positions", int64_t{64}}},
       {{"resid_pdrop", 0.1}, {"embd_pdrop", 0.1}, {"attn_pdrop", 0.1}}},
      {"MixtralForCausalLM",
       {{"num_hidden_layers", int64_t{8}}, {"num_local_experts", int64_t{3}}},
       {{"attention_dropout", 0.1}}},
      {"DeepseekV3ForCausalLM",
       {{"num_hidden_layers", int64_t{8}},
        {"num_key_value_heads", int64_t{4}},
        {"kv_lora_rank", int64_t{10}},
        {"q_lora_rank", int64_t{6}},
        {"qk_nope_head_dim", int64_t{6}},
        {"qk_rope_head_dim", int64_t{4}},
        {"v_head_dim", int64_t{8}},
        {"n_routed_experts", int64_t{4}},
        {"num_experts_per_tok", int64_t{2}},
        {"n_group", int64_t{2}},
        {"topk_group", int64_t{1}},
        {"moe_intermediate_size", int64_t{20}},
        {"first_k_dense_replace", int64_t{1}}},
       {{"attention_dropout", 0.1}}},
      {"MPNetForMaskedLM",
       {{"num_hidden_layers", int64_t{8}}},
       {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}}},
      {"Mamba2ForCausalLM",
       {{"num_hidden_layers", int64_t{8}},
        {"hidden_size", int64_t{32}},
        {"num_heads", int64_t{8}},
        {"state_size", int64_t{6}},
        {"n_groups", int64_t{4}},
        {"chunk_size", int64_t{8}}},
       {}},
      {"ViTForImageClassification",
       {{"num_hidden_layers", int64_t{8}},
        {"image_size", int64_t{12}},
        {"patch_size", int64_t{4}},
        {"num_labels", int64_t{5}}},
       {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}}},
      {"T5ForConditionalGeneration", t5_fields(), {{"dropout_rate", 0.1}}},
      {"CLIPModel",
       {{"num_hidden_layers", int64_t{4}},
        {"image_size", int64_t{12}},
        {"patch_size", int64_t{4}},
        {"projection_dim", int64_t{20}}},
       {{"attention_dropout", 0.1}}},
  };
  return all;
}

/// All ways to arrange `ranks` along pp, dp_replicate, dp_shard and tp that tiny models support.
std::vector<MeshShape> find_shapes(int64_t ranks) {
  std::vector<MeshShape> shapes;
  for (const int64_t pp : {1, 2, 3, 4})
    for (const int64_t tp : {1, 2, 4})
      for (int64_t replicate = 1; replicate <= ranks; ++replicate) {
        const int64_t others = pp * tp * replicate;
        if (ranks % others != 0) continue;
        MeshShape shape;
        shape[Axis::pp] = pp, shape[Axis::tp] = tp, shape[Axis::dp_replicate] = replicate;
        shape[Axis::dp_shard] = ranks / others;
        shapes.push_back(shape);
      }
  return shapes;
}

struct Case {
  Family family;
  MeshShape shape;
  size_t number;  // index of the shape; selects its policies
};

bool runs_all() { return std::getenv("MODULAR_LONG_TESTS") != nullptr; }

/// Those that run by default, those that run before a release, and all of every family.
enum class Extent { some, further, every };

std::vector<Case> cases(Extent extent) {
  std::vector<Case> all;
  for (const Family& family : families()) {
    const auto config = tiny_config(get_entry(family.architecture), family.fields);
    size_t number = 0;
    for (const int64_t ranks : {2, 3, 4, 6, 8})
      for (const MeshShape& shape : find_shapes(ranks)) {
        const bool is_small = family.architecture == "LlamaForCausalLM" && ranks <= 4;
        const bool by_default = number % 2 == 0;
        const bool is_of_extent = extent == Extent::every || (is_small && by_default == (extent == Extent::some));
        // An error: KV heads that tp does not divide.
        if (is_of_extent && ParallelModel::error(get_entry(family.architecture), *config, shape).empty())
          all.push_back({family, shape, number});
        ++number;
      }
  }
  return all;
}

/// A data-parallel rank has 24 / dp rows of a step: as many micro-batches as the schedule requires, if they divide.
Variant get_variant(const Case& of, size_t turn) {
  static constexpr const char* kSchedules[] = {"1f1b",      "interleaved", "zbv", "gpipe", "interleaved-zero-bubble",
                                               "dualpipev", "looped-bfs"};
  const int64_t pp = of.shape[Axis::pp], rows = 24 / (of.shape[Axis::dp_replicate] * of.shape[Axis::dp_shard]);
  Variant variant;
  variant.options.zero_stage = static_cast<int64_t>((of.number + turn) % 3) + 1;
  variant.options.recompute = (of.number / 2 + turn) % 2 == 0;
  variant.micro_batches = pp > 1 ? pp : rows % 2 == 0 ? 2 : 1;
  if (pp > 1) {
    std::string schedule = kSchedules[(of.number + turn) % std::size(kSchedules)];
    if (schedule == "dualpipev" && rows % (2 * pp) != 0) schedule = "zbv";
    if (schedule == "dualpipev") variant.micro_batches = 2 * pp;
    variant.options.pipeline.schedule = schedule;
  }
  variant.compares_rows = of.family.architecture == "CLIPModel";
  variant.fields = of.family.fields;
  // Some configs enable it themselves.
  for (const auto& [name, value] : of.family.dropout) variant.fields[name] = turn == 0 ? 0.0 : std::get<double>(value);
  variant.name = fmt::format("ZeRO {}, {}{} micro-batches{}{}", variant.options.zero_stage,
                             pp > 1 ? variant.options.pipeline.schedule + ", " : "", variant.micro_batches,
                             variant.options.recompute ? ", recomputation" : "", turn == 0 ? "" : ", dropout");
  return variant;
}

std::string name_for(const Case& one) {
  return fmt::format("{}_pp{}_replicate{}_shard{}_tp{}", one.family.architecture, one.shape[Axis::pp],
                     one.shape[Axis::dp_replicate], one.shape[Axis::dp_shard], one.shape[Axis::tp]);
}

void PrintTo(const Case& one, std::ostream* out) { *out << name_for(one); }

class Meshes : public ::testing::TestWithParam<Case> {};

TEST_P(Meshes, TrainLikeOneProcess) {
  expect_same_training(GetParam().family.architecture, GetParam().shape,
                       {get_variant(GetParam(), 0), get_variant(GetParam(), 1)});
}

INSTANTIATE_TEST_SUITE_P(All, Meshes, ::testing::ValuesIn(cases(runs_all() ? Extent::every : Extent::some)),
                         [](const auto& info) { return name_for(info.param); });
INSTANTIATE_TEST_SUITE_P(Release, Meshes, ::testing::ValuesIn(cases(Extent::further)),
                         [](const auto& info) { return name_for(info.param); });

TEST(Cases, CoverAtLeastSixtyMeshesPerFamilyWithAllPolicies) {
  std::map<std::string, size_t> meshes;
  std::map<std::string, std::set<std::string>> policies;
  for (const Case& test_case : cases(Extent::every))
    for (const size_t turn : {0, 1}) {
      const Variant variant = get_variant(test_case, turn);
      const std::string& family = test_case.family.architecture;
      ++meshes[family];
      if (test_case.shape[Axis::pp] > 1) policies[family].insert(variant.options.pipeline.schedule);
      if (test_case.shape[Axis::dp_shard] > 1)
        policies[family].insert(fmt::format("ZeRO {}", variant.options.zero_stage));
    }
  EXPECT_EQ(meshes.size(), families().size());
  for (const auto& [family, count] : meshes) {
    EXPECT_GE(count, 60U) << family;
    EXPECT_EQ(policies[family].size(), 7U + 3U) << family;  // schedules, and stages of ZeRO
  }
}

}  // namespace
}  // namespace modular::testing
