// modgen --emit: descriptions of families for other programs.
#include <nlohmann/json.hpp>

#include "tests/generator/command_line.h"

namespace modgen {
namespace {

using Json = nlohmann::json;

class EmitTest : public CommandLine {
 protected:
  Outcome emit(const std::string& arguments) {
    const Outcome outcome = modgen(in_root + "--emit " + arguments, " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_FALSE(fs::exists(generated));
    return outcome;
  }
  Json json(const std::string& arguments) { return Json::parse(emit(arguments).output); }
};

const Json* named(const Json& list, const std::string& name) {
  for (const Json& one : list)
    if (one["name"] == name) return &one;
  ADD_FAILURE() << "no " << name << " in " << list.dump(1);
  return nullptr;
}

TEST_F(EmitTest, DepsNamesEachClassWithItsBases) {
  use("golden/alias_and_inferred_classes");
  const Json deps = json("deps beta");
  ASSERT_TRUE(deps.contains("beta") && deps.size() == 1) << deps.dump(1);
  const Json& beta = deps["beta"];
  EXPECT_EQ(beta["prefix"], "Beta");
  EXPECT_EQ(beta["spec"], "modular/beta.h");
  EXPECT_EQ(beta["generated"], "generated/beta.h");
  EXPECT_EQ(beta["includes"], Json({"alpha"}));
  EXPECT_EQ(std::count(beta["reads"].begin(), beta["reads"].end(), "modular/alpha.h"), 1);

  const Json& declared = *named(beta["classes"], "BetaBlock");
  EXPECT_EQ(declared["declared"], true);
  EXPECT_EQ(declared["alias"], true);
  EXPECT_EQ(declared["file"], "modular/beta.h");
  EXPECT_EQ(declared["bases"], Json({"alpha::AlphaBlock"}));
  EXPECT_EQ(declared["uses"], Json({"BetaConfig", "BetaProjection"}));

  const Json& inferred = *named(beta["classes"], "BetaProjection");
  EXPECT_EQ(inferred["declared"], false);
  EXPECT_EQ(inferred["file"], "modular/alpha.h");
  EXPECT_EQ(inferred["bases"], Json({"alpha::AlphaProjection"}));
}

TEST_F(EmitTest, DepsCoversAllLevels) {
  use("golden/three_levels");
  const Json deps = json("deps --all");
  bool two = false;
  for (const auto& [family, outline] : deps.items())
    for (const Json& one : outline["classes"]) two |= one["bases"].size() == 2;
  EXPECT_TRUE(two) << deps.dump(1);
}

TEST_F(EmitTest, LayoutHasThePlacementOfEachParameter) {
  use("golden/with_an_entry");
  const Json layout = json("layout --all");
  ASSERT_TRUE(layout.contains("AlphaForCausalLM") && layout.contains("BetaForCausalLM")) << layout.dump(1);
  const Json& alpha = layout["AlphaForCausalLM"];
  EXPECT_EQ(alpha["family"], "alpha");
  EXPECT_EQ(alpha["config"], "AlphaConfig");
  EXPECT_EQ(alpha["parameters"].size(), 4u);
  const Json& embed = *named(alpha["parameters"], "embed.weight");
  EXPECT_EQ(embed["shape"], Json({"vocab_size", "hidden_size"}));
  EXPECT_EQ(embed["fsdp_unit"], "");
  EXPECT_EQ(embed["tensor_split"]["dim"], 0);
  EXPECT_EQ(embed["pipeline_stage"], "first");
  const Json& down = *named(alpha["parameters"], "layers.*.down.weight");
  EXPECT_EQ(down["module"], "layers.*.down");
  EXPECT_EQ(down["fsdp_unit"], "layers.*");
  EXPECT_EQ(down["tensor_split"]["dim"], 1);
  EXPECT_EQ(down["pipeline_stage"], "split");
  EXPECT_FALSE(down.contains("tied"));
}

TEST_F(EmitTest, LayoutOfTheCatalogueHasShapesTiesPartsAndConditions) {
  const Outcome outcome = modgen("--root " MODULAR_SOURCE_DIR " --emit layout llama gpt2", " 2>/dev/null");
  const Json layout = Json::parse(outcome.output);
  const Json& llama = layout["LlamaForCausalLM"]["parameters"];
  EXPECT_EQ((*named(llama, "lm_head.weight"))["tied"]["to"], "model.embed_tokens.weight");
  EXPECT_EQ((*named(llama, "lm_head.weight"))["tied"]["flag"], "tie_word_embeddings");
  EXPECT_EQ((*named(llama, "model.norm.weight"))["shape"], Json({"hidden_size"}));
  EXPECT_EQ((*named(llama, "model.norm.weight"))["tensor_split"], nullptr);
  EXPECT_EQ((*named(llama, "model.layers.*.self_attn.k_proj.bias"))["only_where"], "attention_bias");
  const Json& fused = *named(layout["GPT2LMHeadModel"]["parameters"], "transformer.h.*.attn.c_attn.weight");
  EXPECT_EQ(fused["shape"][0], "n_embd") << "stored as [in, out]";
  EXPECT_EQ(fused["tensor_split"]["dim"], 1);
  EXPECT_EQ(fused["tensor_split"]["parts"].size(), 3u);
}

TEST_F(EmitTest, DotHasDepsAndLayout) {
  use("golden/with_an_entry");
  const Outcome deps = emit("deps --format dot --all");
  EXPECT_EQ(deps.output.rfind("digraph deps {\n", 0), 0u);
  EXPECT_TRUE(says(deps, "  \"beta::BetaForCausalLM\" -> \"alpha::AlphaForCausalLM\";\n")) << deps.output;
  const Outcome layout = emit("layout --format dot alpha");
  EXPECT_TRUE(says(layout, "label=\"unit layers.*\"")) << layout.output;
  EXPECT_TRUE(says(layout, "[label=\"layers.*.down.weight\\n[hidden_size, hidden_size]\\ntp: dimension 1\""))
      << layout.output;
  EXPECT_EQ(std::count(layout.output.begin(), layout.output.end(), '{'),
            std::count(layout.output.begin(), layout.output.end(), '}'));
  const Outcome plan = modgen(in_root + "--emit plan --format dot alpha");
  EXPECT_EQ(plan.exit_code, 2);
  EXPECT_TRUE(says(plan, "--emit plan has no form in dot")) << plan.output;
}

TEST_F(EmitTest, PlanHasTheValueThatCrossesBetweenTwoStacks) {
  use("golden/parallel");
  const Json plans = json("plan two_towers tiny");
  const Json& pair = plans["TwoTowersForCausalLM"];
  ASSERT_EQ(pair["stacks"].size(), 2u);
  EXPECT_EQ(pair["stacks"][0]["split_list"], "");
  EXPECT_EQ(pair["stacks"][0]["first"], Json({"model.left", "model.bridge"}));
  ASSERT_EQ(pair["stage_cuts"].size(), 1u);
  EXPECT_EQ(pair["stage_cuts"][0]["carried"], "crossing");
  EXPECT_EQ(pair["stage_cuts"][0]["shape"], Json({"batch", "seq", "hidden_size"}));
  EXPECT_EQ((*named(pair["parameters"], "model.table.weight"))["stage"], "all");
  EXPECT_EQ((*named(pair["parameters"], "model.right.norm.weight"))["stage"], "last");
  EXPECT_EQ(plans["TinyForCausalLM"]["stacks"].size(), 1u);
}

TEST_F(EmitTest, PlansOfSeveralFamiliesAreOneObject) {
  use("golden/with_an_entry");
  const Json plans = json("plan --all");
  EXPECT_TRUE(plans.contains("AlphaForCausalLM") && plans.contains("BetaForCausalLM"));
  EXPECT_EQ(plans["AlphaForCausalLM"], json("plan alpha")["AlphaForCausalLM"]);
}

}  // namespace
}  // namespace modgen
