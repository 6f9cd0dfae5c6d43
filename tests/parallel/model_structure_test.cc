// Parameters, units and slices of a model, and errors for meshes that it does not support, all in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/parallel/fsdp/unit_layout.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/own_gradient.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "runtime/parallel/pipeline/pipeline_options.h"
#include "tests/generator/golden/config_ranges/generated/ranges.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Entry& llama() { return get_entry("LlamaForCausalLM"); }

TEST(Patterns, MatchComponentByComponent) {
  EXPECT_TRUE(matches("model.layers.*", "model.layers.11"));
  EXPECT_FALSE(matches("model.layers.*", "model.layers.11.mlp"));
  EXPECT_FALSE(matches("model.layers.*", "model.layers"));
  EXPECT_TRUE(matches("model.layers.*.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(matches("model.norm", "model.normal"));
  EXPECT_TRUE(lies_in("model.layers.*", "model.layers.11.mlp.up_proj.weight"));
  EXPECT_FALSE(lies_in("model.norm", "model.normal.weight"));
}

TEST(MetaConstruction, AllocatesNothingAndEndsWithTheScope) {
  const auto config = tiny_config(llama(), {{"hidden_size", int64_t{1} << 16}, {"vocab_size", int64_t{1} << 20}});
  const Model model = build_on_meta(llama(), *config);
  for (const auto& parameter : model.module->parameters()) EXPECT_TRUE(parameter.is_meta());
  EXPECT_TRUE(at::ones({1}).is_cpu());
}

TEST(OwnGradient, SharesNoMemory) {
  const Tensor one = at::zeros({3}).requires_grad_(), other = at::zeros({3}).requires_grad_();
  for (const double sum : {1.0, 2.0}) {
    at::stack({one, other}).sum(0).sum().backward();
    for (const Tensor& parameter : {one, other}) own_gradient(parameter);
    for (const Tensor& parameter : {one, other}) EXPECT_TRUE(parameter.grad().equal(at::full({3}, sum)));
  }
  one.mutable_grad().mul_(0.5);
  EXPECT_TRUE(other.grad().equal(at::full({3}, 2.0)));
}

TEST(MetaConstruction, MakesTheRegisteredTensorReal) {
  const auto config = tiny_config(llama());
  const Model model = build_on_meta(llama(), *config);
  at::Tensor parameter = model.module->named_parameters()["model.norm.weight"];
  at::Tensor real = at::full(parameter.sizes(), 2.0);
  make_real(parameter, real);
  EXPECT_TRUE(model.module->named_parameters()["model.norm.weight"].is_alias_of(real));
  EXPECT_TRUE(parameter.requires_grad());
  parameter.sum().backward();
  EXPECT_TRUE(parameter.grad().equal(at::ones_like(real)));
}

TEST(ParameterTable, HasUnitsSplitsAndTies) {
  const auto config = tiny_config(llama(), {{"tie_word_embeddings", true}});
  const Model model = build_on_meta(llama(), *config);
  const ParameterTable table = parameter_table(*model.module, *llama().plan, *config, {});
  ASSERT_EQ(table.units.size(), 5u);
  EXPECT_EQ(table.units[0].name, "");
  EXPECT_EQ(table.units[4].name, "model.layers.3");
  for (const ModelParameter& parameter : table.parameters) {
    EXPECT_TRUE(parameter.held);
    if (parameter.name == "model.embed_tokens.weight") {
      EXPECT_EQ(parameter.names, (std::vector<std::string>{"model.embed_tokens.weight", "lm_head.weight"}));
      EXPECT_EQ(parameter.unit, 0u);
      EXPECT_EQ(parameter.tensor_split, 0);
    }
    if (parameter.name == "model.layers.2.mlp.down_proj.weight") {
      EXPECT_EQ(parameter.unit, 3u);
      EXPECT_EQ(parameter.tensor_split, 1);
    }
    if (parameter.name == "model.norm.weight") {
      EXPECT_FALSE(parameter.tensor_split.has_value());
    }
  }
}

TEST(ParameterTable, MarksTheMatricesOfLayers) {
  const auto matrices = [](const std::string& architecture) {
    const Entry& entry = get_entry(architecture);
    const auto config = tiny_config(entry, {});
    const Model model = build_on_meta(entry, *config);
    std::map<std::string, bool> found;
    for (const auto& parameter : parameter_table(*model.module, *entry.plan, *config, {}).parameters)
      found[parameter.name] = parameter.layer_matrix;
    return found;
  };
  auto jamba = matrices("JambaForCausalLM"), t5 = matrices("T5ForConditionalGeneration"),
       gpt_oss = matrices("GptOssForCausalLM");
  for (const auto& [found, name, is_matrix] :
       {std::tuple(&jamba, "model.layers.0.mamba.in_proj.weight", true),
        std::tuple(&jamba, "model.layers.0.mamba.A_log", false),
        std::tuple(&jamba, "model.layers.0.mamba.conv1d.weight", false),
        std::tuple(&jamba, "model.layers.0.input_layernorm.weight", false),
        std::tuple(&jamba, "model.layers.1.feed_forward.experts.down_proj", true),
        std::tuple(&jamba, "model.layers.1.feed_forward.router.weight", true),
        std::tuple(&jamba, "model.embed_tokens.weight", false), std::tuple(&jamba, "lm_head.weight", false),
        std::tuple(&t5, "encoder.block.0.layer.0.SelfAttention.q.weight", true),
        std::tuple(&t5, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", false),
        std::tuple(&t5, "shared.weight", false), std::tuple(&gpt_oss, "model.layers.0.mlp.experts.gate_up_proj", true),
        std::tuple(&gpt_oss, "model.layers.0.mlp.experts.gate_up_proj_bias", false),
        std::tuple(&gpt_oss, "model.layers.0.mlp.experts.down_proj_bias", false)}) {
    ASSERT_TRUE(found->contains(name)) << name;
    EXPECT_EQ(found->at(name), is_matrix) << name;
  }
}

TEST(ParameterTable, KnowsExpertsByTheFunctionThatMixesThem) {
  const Entry& entry = get_entry("RangesForCausalLM");
  const auto config = entry.make_config();
  const Model model = build_on_meta(entry, *config);
  const ParameterTable table = parameter_table(*model.module, *entry.plan, *config, {});
  EXPECT_EQ(expert_count(table.parameters), 4);
  const auto weights = std::ranges::find(table.parameters, "layers.0.mixture.gate_up_proj", &ModelParameter::name);
  ASSERT_NE(weights, table.parameters.end());
  EXPECT_TRUE(weights->is_expert && weights->layer_matrix);
  EXPECT_EQ(weights->multiplied, std::vector<int64_t>{2 * 16 * 8}) << "two of the experts process a token";
}

TEST(ParameterTable, AssignsParametersToStages) {
  const StageOnRank stage(1, {2});
  for (const bool tied : {false, true}) {
    const auto config = tiny_config(llama(), {{"tie_word_embeddings", tied}});
    const Model model = build_on_meta(llama(), *config);
    std::set<std::string> held;
    for (const ModelParameter& parameter : parameter_table(*model.module, *llama().plan, *config, {&stage}).parameters)
      if (parameter.held) held.insert(parameter.name);
    EXPECT_FALSE(held.contains("model.layers.1.mlp.up_proj.weight"));
    EXPECT_TRUE(held.contains("model.layers.2.mlp.up_proj.weight"));
    EXPECT_TRUE(held.contains("model.norm.weight"));
    EXPECT_EQ(held.contains("lm_head.weight"), !tied);
    EXPECT_EQ(held.contains("model.embed_tokens.weight"), tied) << "the last stage needs the tied table";
  }
}

std::vector<int64_t> compute_costs(const Entry& entry, const Fields& fields) {
  const auto config = tiny_config(entry, fields);
  const Model model = build_on_meta(entry, *config);
  const ParameterTable table = parameter_table(*model.module, *entry.plan, *config, {});
  return layer_costs(table, *entry.plan, stack_sizes(*model.module, *entry.plan));
}

TEST(LayerCosts, CountALayersParametersAndTheHead) {
  // Queries and outputs of 4 heads of size 8, keys and values of 2 heads; gate, up and down; two norms.
  constexpr int64_t kLayer = 2 * 36 * 32 + 2 * 36 * 16 + 3 * 36 * 50 + 2 * 36, kNorm = 36;
  for (const bool tied : {false, true})
    for (const int64_t words : {62, 1000}) {
      const auto costs = compute_costs(llama(), {{"tie_word_embeddings", tied}, {"vocab_size", words}});
      EXPECT_EQ(costs, (std::vector<int64_t>{kLayer, kLayer, kLayer, kLayer + kNorm + 36 * words}))
          << "an embedding lookup costs nothing; tied: " << tied;
      EXPECT_EQ(stage_cuts({}, 2, costs), std::vector<int64_t>{words == 62 ? 2 : 3})
          << "the head costs as much as four layers";
    }
}

TEST(LayerCosts, CountOnlyTheChosenExperts) {
  const auto costs_with = [](int64_t chosen) {
    return compute_costs(get_entry("MixtralForCausalLM"),
                         {{"num_local_experts", int64_t{8}}, {"num_experts_per_tok", chosen}});
  };
  const auto two = costs_with(2), three = costs_with(3);
  for (size_t layer = 0; layer < two.size(); ++layer) EXPECT_EQ(three[layer] - two[layer], 3 * 36 * 50);
}

TEST(LayerCosts, OfTwoStacksAreConcatenated) {
  const Entry& t5 = get_entry("T5ForConditionalGeneration");
  const Fields fields = {{"num_layers", int64_t{3}}, {"num_decoder_layers", int64_t{2}}};
  const auto integers = config_integers(*tiny_config(t5, fields));
  const int64_t width = integers.at("d_model"), heads = integers.at("num_heads") * integers.at("d_kv");
  const auto costs = compute_costs(t5, fields);
  ASSERT_EQ(costs.size(), 5u);
  EXPECT_EQ(costs[0], costs[1]) << "token and relative-bias tables are lookups";
  EXPECT_EQ(costs[2], costs[1] + width) << "the norm after the encoder";
  EXPECT_EQ(costs[3], costs[1] + 4 * width * heads + width) << "a decoder layer has cross-attention";
  EXPECT_EQ(costs[4], costs[3] + width + width * integers.at("vocab_size")) << "norm and head";
}

/// Copies a parameter from the ranks' shards, like copy-out of an all-gather, and back, like copy-in of a
/// reduce-scatter. Expects each rank to have its rows, followed by zeros.
void expect_rows_on_all_ranks(const UnitLayout& layout, const ParameterPlacement& parameter) {
  const at::Tensor full = at::arange(1, parameter.elements() + 1, at::kFloat).view(parameter.shape);
  const at::Tensor by_rank = at::full({layout.ranks, layout.shard_size}, std::nan("")), again = at::zeros_like(full);
  for (const auto& [in_full, in_shards] : layout.shard_views(full, by_rank, parameter)) in_shards.copy_(in_full);
  layout.clear_padding(by_rank, parameter);
  int64_t next = 0;
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    const auto [first, count] = layout.get_rows(parameter, rank);
    EXPECT_EQ(first, next);
    next += count;
    const at::Tensor local = layout.local(by_rank[rank], parameter, rank);
    const at::Tensor rows = full.dim() == 0 ? full.view({1}) : full;
    EXPECT_TRUE(local.flatten().equal(rows.narrow(parameter.dim, first, count).flatten())) << "rank " << rank;
    const at::Tensor chunk = by_rank[rank].narrow(0, parameter.offset, parameter.chunk());
    EXPECT_TRUE(chunk.narrow(0, local.numel(), chunk.numel() - local.numel()).eq(0).all().item<bool>());
  }
  EXPECT_EQ(next, parameter.rows);
  for (const auto& [in_full, in_shards] : layout.shard_views(again, by_rank, parameter)) in_full.copy_(in_shards);
  EXPECT_TRUE(again.equal(full));
}

TEST(UnitLayout, ShardsTheDimensionWithLittlePadding) {
  struct Example {
    std::vector<int64_t> shape;
    int64_t ranks, dim;
  };
  for (const auto& [shape, ranks, dim] : {Example{{8, 128, 32}, 64, 1},  // eight experts: each rank holds parts of all
                                          {{8, 448, 64}, 24, 1},
                                          {{8, 448, 64}, 48, 1},
                                          {{60, 22, 64}, 48, 2},
                                          {{2, 50}, 3, 1},
                                          {{2, 3, 50}, 4, 2},
                                          {{5, 3}, 4, 1},  // no dimension divides well
                                          {{100, 48}, 48, 1},
                                          // A copy-out costs more than a little padding.
                                          {{50257, 8}, 8, 0},
                                          {{62, 36}, 4, 0}}) {
    SCOPED_TRACE(::testing::PrintToString(shape) + " on " + std::to_string(ranks));
    UnitLayout layout(ranks);
    layout.add({}, shape);
    EXPECT_EQ(layout.parameters.front().dim, dim);
    expect_rows_on_all_ranks(layout, layout.parameters.front());
  }
}

TEST(UnitLayout, OfPublishedExpertsHasLittlePadding) {
  const std::vector<int64_t> mixtral[] = {{8, 28672, 4096}, {8, 4096, 14336}};
  const std::vector<int64_t> qwen2_moe[] = {{60, 2816, 2048}, {60, 2048, 1408}};
  for (const int64_t ranks : {24, 48})
    for (const auto& shapes : {mixtral, qwen2_moe}) {
      UnitLayout layout(ranks);
      double elements = 0.0;
      for (size_t i = 0; i < 2; ++i) {
        layout.add({}, shapes[i]);
        elements += static_cast<double>(layout.parameters.back().elements());
      }
      EXPECT_LE(static_cast<double>(layout.shard_size), 1.1 * elements / static_cast<double>(ranks));
    }
}

TEST(UnitLayout, ShardsRowsAndPadsTheLastRanks) {
  UnitLayout layout(4);
  layout.add({}, {10, 3});
  layout.add({}, {2});
  layout.add({}, {3, 6});
  layout.add({}, {});  // a scalar
  const at::Tensor full = at::arange(4 * layout.shard_size, at::kFloat);
  for (const ParameterPlacement& parameter : layout.parameters) {
    EXPECT_EQ(parameter.dim, 0);
    expect_rows_on_all_ranks(layout, parameter);
    // The concatenated chunks are the parameter followed by padding.
    const at::Tensor chunks = layout.chunks(full, parameter).flatten();
    EXPECT_TRUE(chunks.narrow(0, 0, parameter.elements()).equal(layout.full(full, parameter).flatten()));
  }
}

TEST(Initialization, DependsOnlyOnSeedAndName) {
  Mesh mesh({}, {}, {.device = at::kCPU});
  const auto weights = [&](uint64_t seed, int64_t layers) {
    const auto config = tiny_config(llama(), {{"num_hidden_layers", layers}});
    ParallelModel model(llama(), *config, mesh, {}, seed);
    std::map<std::string, at::Tensor> found;
    for (const ShardedParameter& slice : model.parameters()) found[slice.name] = slice.local.clone();
    return found;
  };
  at::manual_seed(5);
  const at::Tensor expected_next = at::rand({3});
  at::manual_seed(5);
  const auto small = weights(1, 2), large = weights(1, 4), other = weights(2, 2);
  EXPECT_TRUE(at::rand({3}).equal(expected_next)) << "the caller's RNG state changed";
  for (const auto& [name, weight] : small) {
    EXPECT_TRUE(weight.equal(large.at(name))) << name;
    if (name.ends_with("proj.weight")) {
      EXPECT_FALSE(weight.equal(other.at(name))) << name;
      EXPECT_NEAR(weight.std().item<double>(), 0.1, 0.02) << name;
    }
  }
  EXPECT_FALSE(small.at("model.layers.0.mlp.up_proj.weight").equal(small.at("model.layers.1.mlp.up_proj.weight")));
}

TEST(ModelErrors, NameTheSizeThatDoesNotDivide) {
  const auto error = [](const Fields& fields, std::initializer_list<std::pair<Axis, int64_t>> sizes) {
    MeshShape shape;
    for (const auto& [axis, size] : sizes) shape[axis] = size;
    return ParallelModel::error(llama(), *tiny_config(llama(), fields), shape);
  };
  EXPECT_EQ(error({}, {{Axis::tp, 2}, {Axis::pp, 4}, {Axis::dp_shard, 3}, {Axis::dp_replicate, 5}}), "");
  EXPECT_EQ(error({{"intermediate_size", int64_t{63}}}, {{Axis::tp, 2}}),
            "intermediate_size = 63 cannot be split over tp = 2: choose a tp that divides it");
  EXPECT_EQ(error({{"num_attention_heads", int64_t{6}}}, {{Axis::tp, 4}}),
            "num_attention_heads = 6 cannot be split over tp = 4: choose a tp that divides it");
  EXPECT_EQ(error({{"num_attention_heads", int64_t{6}}}, {{Axis::tp, 3}}),
            "num_key_value_heads = 2 cannot be split over tp = 3: choose a tp that divides it or is a multiple of it");
  EXPECT_EQ(error({}, {{Axis::pp, 5}}),
            "pp = 5 needs at least as many layers, but model.layers has 4: choose a smaller pp");
  EXPECT_EQ(error({}, {{Axis::tp, 0}}), "tp = 0: an axis needs at least 1 rank");
}

TEST(ModelErrors, ListKnownTasksForAnUnknownTask) {
  Entry unknown = llama();
  unknown.task = "juggling";
  EXPECT_EQ(ParallelModel::error(unknown, *tiny_config(llama()), MeshShape{}),
            "LlamaForCausalLM is an entry for \"juggling\", an unknown task: write MODEL_ENTRY with one of "
            "causal-lm, masked-lm, seq2seq, next-item, masked-item, sequence-classification, token-classification, "
            "sentence-embedding, "
            "sentence-pair-classification, image-classification, contrastive-pairs, image-text-to-text");
}

TEST(Targets, OfATaskMatchTheLoss) {
  const auto targets = [](std::string_view task, const at::Tensor& labels) { return find_task(task)->targets(labels); };
  const at::Tensor tokens = at::tensor({3, 4, -100, 5}, at::kLong).view({1, 4});
  EXPECT_TRUE(targets("causal-lm", tokens).equal(at::tensor({4, -100, 5, -100}, at::kLong).view({1, 4})));
  EXPECT_TRUE(targets("masked-lm", tokens).equal(tokens));
  const at::Tensor rows = at::tensor({7, 3, -100, 7, -100}, at::kLong);
  EXPECT_TRUE(targets("sequence-classification", rows).equal(rows));
}

}  // namespace
}  // namespace modular::testing
