// Sequence parallelism of the generated models: each family trains as on one process, with dropout, clipping and two
// micro-batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/lora.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

/// Sizes under the names of all families. Two and four tp ranks divide what they split.
const Fields kSmall = {{"hidden_size", int64_t{32}},
                       {"d_model", int64_t{32}},
                       {"n_embd", int64_t{32}},
                       {"dim", int64_t{32}},
                       {"intermediate_size", int64_t{48}},
                       {"d_ff", int64_t{48}},
                       {"n_inner", int64_t{48}},
                       {"hidden_dim", int64_t{48}},
                       {"ffn_hidden_size", int64_t{48}},
                       {"encoder_ffn_dim", int64_t{48}},
                       {"decoder_ffn_dim", int64_t{48}},
                       {"num_hidden_layers", int64_t{2}},
                       {"n_layer", int64_t{2}},
                       {"n_layers", int64_t{2}},
                       {"num_layers", int64_t{2}},
                       {"num_decoder_layers", int64_t{2}},
                       {"encoder_layers", int64_t{2}},
                       {"decoder_layers", int64_t{2}},
                       {"num_attention_heads", int64_t{4}},
                       {"num_key_value_heads", int64_t{4}},
                       {"n_head", int64_t{4}},
                       {"n_heads", int64_t{4}},
                       {"num_heads", int64_t{4}},
                       {"encoder_attention_heads", int64_t{4}},
                       {"decoder_attention_heads", int64_t{4}},
                       {"n_positions", int64_t{64}},
                       {"d_kv", int64_t{8}},
                       {"relative_attention_num_buckets", int64_t{8}},
                       {"relative_attention_max_distance", int64_t{20}},
                       {"query_pre_attn_scalar", int64_t{8}},
                       {"num_experts", int64_t{4}},
                       {"num_local_experts", int64_t{4}},
                       {"n_routed_experts", int64_t{4}},
                       {"num_experts_per_tok", int64_t{2}},
                       {"n_group", int64_t{2}},
                       {"topk_group", int64_t{1}},
                       {"moe_intermediate_size", int64_t{24}},
                       {"shared_expert_intermediate_size", int64_t{24}},
                       {"first_k_dense_replace", int64_t{1}},
                       {"kv_lora_rank", int64_t{10}},
                       {"q_lora_rank", int64_t{6}},
                       {"qk_nope_head_dim", int64_t{6}},
                       {"qk_rope_head_dim", int64_t{4}},
                       {"v_head_dim", int64_t{8}},
                       {"item_dim", int64_t{16}},
                       {"feature_dim", int64_t{8}},
                       {"image_size", int64_t{12}},
                       {"patch_size", int64_t{4}},
                       // ReLU has a kink, where rounding decides the gradient.
                       {"feed_forward_proj", "gelu"},
                       {"attention_dropout", 0.1},
                       {"hidden_dropout", 0.1},
                       {"hidden_dropout_prob", 0.1},
                       {"attention_probs_dropout_prob", 0.1},
                       {"resid_pdrop", 0.1},
                       {"embd_pdrop", 0.1},
                       {"attn_pdrop", 0.1},
                       {"dropout_rate", 0.1},
                       {"dropout", 0.1},
                       {"mlp_dropout", 0.1},
                       {"embedding_dropout", 0.1},
                       {"classifier_dropout", 0.1}};

/// Sizes of one family that differ.
Fields fields_of(std::string_view family) {
  Fields fields = kSmall;
  static const std::map<std::string_view, std::map<std::string, double>> changes = {
      {"mamba2", {{"num_heads", 8}, {"state_size", 6}, {"n_groups", 4}, {"chunk_size", 8}}},
      {"bamba", {{"mamba_n_heads", 8}, {"mamba_d_head", 8}, {"mamba_d_state", 6}, {"mamba_chunk_size", 8}}},
      {"jamba",
       {{"mamba_d_state", 6},
        {"mamba_dt_rank", 4},
        {"attn_layer_period", 2},
        {"attn_layer_offset", 1},
        {"expert_layer_period", 2},
        {"expert_layer_offset", 1}}},
      {"mpnet", {{"relative_attention_num_buckets", 32}}},
      {"falcon", {{"num_kv_heads", 4}}},
      {"glm", {{"pad_token_id", 0}}},
      {"modernbert", {{"pad_token_id", 0}}},
      {"phi3", {{"pad_token_id", 0}}}};
  if (family == "falcon") fields["new_decoder_architecture"] = true;
  if (family == "gpt_oss") fields["attention_dropout"] = 0.0;  // attention with sinks has none
  if (const auto found = changes.find(family); found != changes.end())
    for (const auto& [name, size] : found->second) fields[name] = static_cast<int64_t>(size);
  return fields;
}

/// The first entry of each family that is trained on a target per token and whose layers can run on parts of the
/// positions.
std::vector<std::string> find_entries() {
  std::vector<std::string> found;
  std::set<std::string_view> families;
  for (const Entry& entry : entries()) {
    const Task* task = find_task(entry.task);
    const bool is_by_token = task && task->reads == Task::Reads::tokens && task->labels != Task::Labels::each_row;
    if (is_by_token && !entry.plan->sequence.empty() && families.insert(entry.family).second)
      found.emplace_back(entry.architecture);
  }
  return found;
}

struct OnMesh {
  std::string architecture;
  MeshShape shape;
};
void PrintTo(const OnMesh& one, std::ostream* out) { *out << one.architecture << " on " << one.shape.describe(); }

MeshShape mesh(int64_t tp, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, 1, tp}};
}

/// By default some families on two ranks; before a release all, and each on one of the other meshes, in turn, or with
/// MODULAR_LONG_TESTS=1 on all of them.
enum class Extent { some, further };

std::vector<OnMesh> cases(Extent extent) {
  static const std::set<std::string> by_default = {"BertForMaskedLM",   "DeepseekV3ForCausalLM",
                                                   "Mamba2ForCausalLM", "MixtralForCausalLM",
                                                   "Qwen3ForCausalLM",  "T5ForConditionalGeneration"};
  const std::array meshes = {mesh(4), mesh(2, 2), mesh(2, 1, 2), mesh(2, 1, 1, 2)};
  const bool runs_all = std::getenv("MODULAR_LONG_TESTS") != nullptr;
  std::vector<OnMesh> all;
  size_t number = 0;
  for (const std::string& architecture : find_entries()) {
    if (by_default.contains(architecture) == (extent == Extent::some)) all.push_back({architecture, mesh(2)});
    for (size_t i = 0; extent == Extent::further && i < meshes.size(); ++i)
      if (runs_all || i == number % meshes.size()) all.push_back({architecture, meshes[i]});
    ++number;
  }
  return all;
}

class SequenceOfFamilies : public ::testing::TestWithParam<OnMesh> {};

TEST_P(SequenceOfFamilies, TrainsTheSame) {
  const auto& [architecture, shape] = GetParam();
  const Entry& entry = get_entry(architecture);
  const Fields fields = fields_of(entry.family);
  if (const std::string error = ParallelModel::error(entry, *tiny_config(entry, fields), shape); !error.empty())
    GTEST_SKIP() << error;
  const bool is_sharded = shape[Axis::dp_shard] > 1;
  expect_same_training(architecture, shape,
                       {{.name = is_sharded ? "recomputation" : "micro-batches",
                         .fields = fields,
                         .options = {.recompute = is_sharded},
                         .micro_batches = 2}});
}

std::string name_for(const ::testing::TestParamInfo<OnMesh>& info) {
  std::string name = info.param.architecture + "_" + info.param.shape.describe();
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(OnTwoRanks, SequenceOfFamilies, ::testing::ValuesIn(cases(Extent::some)), name_for);
INSTANTIATE_TEST_SUITE_P(Release, SequenceOfFamilies, ::testing::ValuesIn(cases(Extent::further)), name_for);

TEST(SequenceFamilies, CoversAtLeastTwentyFamilies) { EXPECT_GE(find_entries().size(), 20); }

class AdaptersOfFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(AdaptersOfFamilies, TrainTheSame) {
  const Entry& base = get_entry(GetParam());
  const Fields fields = fields_of(base.family);
  const auto adapted =
      with_lora(base, *tiny_config(base, fields), {.layers = {"all-linear"}, .rank = 4, .dropout = 0.1});
  static std::set<std::string> names;
  const std::string& name = *names.insert("Adapted" + GetParam()).first;
  Entry named = adapted->entry;
  named.architecture = name;
  entries().push_back(named);
  expect_same_training(
      name, mesh(2),
      {{.name = "adapters", .fields = fields, .options = {.trained = std::vector<std::string>()}, .micro_batches = 2}});
  entries().pop_back();
}

INSTANTIATE_TEST_SUITE_P(Release, AdaptersOfFamilies, ::testing::ValuesIn(find_entries()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modular::testing
