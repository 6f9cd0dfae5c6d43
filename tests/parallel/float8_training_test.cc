// float8 layers: their selection, and training that matches bfloat16 within the float8 rounding error, on one rank and
// on several.
#include <gtest/gtest.h>

#include "runtime/ops/fused.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Fields kOfSixteens = {{"hidden_size", int64_t{64}},
                            {"intermediate_size", int64_t{96}},
                            {"head_dim", int64_t{16}},
                            {"num_hidden_layers", int64_t{2}}};
const Fields kGpt2 = {
    {"n_embd", int64_t{64}}, {"n_layer", int64_t{2}}, {"n_head", int64_t{4}}, {"n_positions", int64_t{64}}};

using Paths = std::vector<std::string>;

TEST(Float8Layers, MatchThePatternsAndHaveSuitableSizes) {
  const Entry& entry = get_entry("LlamaForCausalLM");
  const auto layers = [&](const Fields& fields, const Paths& patterns) {
    return float8_layers(*build_on_meta(entry, *tiny_config(entry, fields)).module, patterns);
  };
  EXPECT_EQ(layers(kOfSixteens, {"model.layers.1.mlp"}),
            (Paths{"model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj", "model.layers.1.mlp.down_proj"}));
  EXPECT_EQ(layers(kOfSixteens, {"model.layers.*.self_attn.o_proj", "lm_head", "model.embed_tokens"}),
            (Paths{"model.layers.0.self_attn.o_proj", "model.layers.1.self_attn.o_proj"}));  // lm_head has 62 tokens
  EXPECT_EQ(layers({}, {"model"}), Paths{});
}

TEST(Float8, TrainsLikeBfloat16WithinRounding) {
  install_fused_functions();
  for (const auto& [architecture, fields, layers] :
       {std::tuple{"LlamaForCausalLM", kOfSixteens, "model.layers"}, {"GPT2LMHeadModel", kGpt2, "transformer.h"}}) {
    SCOPED_TRACE(architecture);
    Variant variant = {.name = "bfloat16", .fields = fields};
    variant.options.bf16 = true;
    variant.options.dropout = false;
    Mesh alone({}, {}, {.device = at::kCPU});
    const Report expected = train(alone, get_entry(architecture), variant);
    variant.options.float8 = {layers};
    const Report found = train(alone, get_entry(architecture), variant);
    EXPECT_NE(found[0], expected[0]) << "no layer is in float8";
    for (size_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(found[2 * step], expected[2 * step], 0.02 * expected[2 * step]) << "the loss of step " << step;
      EXPECT_NEAR(found[2 * step + 1], expected[2 * step + 1], 0.15 * expected[2 * step + 1])
          << "the gradient's norm of step " << step;
    }
  }
}

TEST(Float8, TrainsTheSameOnSeveralRanks) {
  const auto fsdp_and_tp = MeshShape{{1, 1, 2, 1, 2}};
  Variant variant = {.name = "float8", .fields = kOfSixteens};
  variant.options.bf16 = true;
  variant.options.float8 = {"model.layers"};
  const auto train_on = [&](Mesh& mesh) {
    install_fused_functions();
    return train(mesh, get_entry("LlamaForCausalLM"), variant);
  };
  const auto reports = run_ranks(4, [&](const Environment& environment) {
    Mesh mesh(environment, fsdp_and_tp, {.device = at::kCPU});
    return train_on(mesh);
  });
  Mesh alone({}, {}, {.device = at::kCPU});
  const Report expected = train_on(alone);
  for (const Report& found : reports) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t step = 0; step < kSteps; ++step)
      EXPECT_NEAR(found[2 * step], expected[2 * step], 0.02 * expected[2 * step]) << "the loss of step " << step;
  }
}

}  // namespace
}  // namespace modular::testing
