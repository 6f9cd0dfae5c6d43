// modgen --suggest, on a decoder that only uses libtorch (suggest/tiny_llm.cc).
#include <nlohmann/json.hpp>

#include "tests/generator/command_line.h"

namespace modgen {
namespace {

using Json = nlohmann::json;

const std::string kModel = MODULAR_SOURCE_DIR "/tests/generator/suggest/tiny_llm.cc";

class Suggest : public CommandLine {
 protected:
  Json suggest(const std::string& families) {
    const Outcome outcome = modgen(in_root + "--format json --suggest " + kModel + " " + families, " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0);
    return Json::parse(outcome.output);
  }
};

const Json& class_named(const Json& suggestions, const std::string& name) {
  for (const Json& one : suggestions["classes"])
    if (one["name"] == name) return one;
  throw std::runtime_error("no class " + name);
}

TEST_F(Suggest, RanksTheCatalogueForEachClass) {
  const Json found = suggest("");
  EXPECT_EQ(found["prefix"], "Tiny");
  ASSERT_EQ(found["classes"].size(), 4u) << "the config is not a module";
  const Json& norm = class_named(found, "TinyRMSNorm")["candidates"];
  EXPECT_EQ(norm[0]["family"], "llama");
  EXPECT_EQ(norm[0]["class"], "LlamaRMSNorm");
  EXPECT_EQ(norm[0]["file"].get<std::string>().ends_with("modular/llama.h"), true);
  EXPECT_EQ(norm[0]["same_members"], Json({"weight", "eps"}));
  EXPECT_EQ(norm[0]["methods"],
            Json({{{"name", "constructor"}, {"percent", 100}}, {{"name", "forward"}, {"percent", 100}}}));
  EXPECT_EQ(norm[0]["to_add"], Json({"rms_norm()"}));
  for (const Json& one : found["classes"])
    for (size_t index = 1; index < one["candidates"].size(); ++index)
      EXPECT_GE(one["candidates"][index - 1]["percent"], one["candidates"][index]["percent"]) << one.dump(1);
  EXPECT_EQ(class_named(found, "TinyStatistics")["candidates"].size(), 0u);
}

TEST_F(Suggest, SeesThroughStyleAndDefinitionsBehindTheClass) {
  const Json found = suggest("llama");
  const Json& mlp = class_named(found, "TinyMLP")["candidates"][0];
  EXPECT_EQ(mlp["class"], "LlamaMLP");
  EXPECT_EQ(mlp["same_members"], Json({"gate_proj", "up_proj", "down_proj"}))
      << "written gate_proj_, of torch::nn::Linear";
  const Json& layer = class_named(found, "TinyDecoderLayer")["candidates"][0];
  EXPECT_EQ(layer["class"], "LlamaDecoderLayer");
  EXPECT_EQ(layer["to_remove"], Json({"self_attn"}));
  for (const Json& method : layer["methods"]) EXPECT_GE(method["percent"], 75) << layer.dump(1);
}

TEST_F(Suggest, ListsTheRemainingWorkAsText) {
  const Outcome outcome = modgen(in_root + "--suggest " + kModel + " llama");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* line :
       {"tiny_llm.cc:13: TinyRMSNorm\n", " llama::LlamaRMSNorm  (",
        "        inherited: weight, eps, constructor(), forward()\n", "        to add: rms_norm()\n",
        "        to remove: self_attn\n", "TinyStatistics\n  nothing in the catalogue is similar to it\n"})
    EXPECT_TRUE(says(outcome, line)) << line << outcome.output;
}

TEST_F(Suggest, FindsAnIdenticalClass) {
  // A catalogue class under another name, with other comments and layout.
  std::string copy = read_file(MODULAR_SOURCE_DIR "/generated/llama.h");
  copy = copy.substr(copy.find("class LlamaMLPImpl"));
  copy = copy.substr(0, copy.find("};\n") + 3);
  for (size_t at; (at = copy.find("Llama")) != std::string::npos;) copy.replace(at, 5, "Own");
  for (const auto& [woven, plain] : {std::pair{"    auto x_tp = tp::enter(x);\n", ""},
                                     std::pair{"tp::exit(down_proj, ", "down_proj("}, std::pair{"x_tp", "x"}})
    for (size_t at; (at = copy.find(woven)) != std::string::npos;) copy.replace(at, std::string(woven).size(), plain);
  const fs::path file = folder.path() / "own.h";
  write_file(file,
             "#pragma once\n#include \"runtime/model/model.h\"\nnamespace modular::own {\nstruct OwnConfig {\n"
             "  int64_t hidden_size, intermediate_size;\n  bool mlp_bias;\n  std::string hidden_act;\n"
             "  double initializer_range;\n};\n" +
                 copy + "}  // namespace modular::own\n");
  const Outcome outcome = modgen(in_root + "--suggest " + file.string() + " llama");
  EXPECT_TRUE(says(outcome, "  100 % llama::LlamaMLP  (")) << outcome.output;
}

TEST_F(Suggest, ReportsUnreadableInput) {
  write_file(folder.path() / "broken.cc", "#include <torch/torch.h>\nclass A : public torch::nn::Modul {};\n");
  const Outcome broken = modgen(in_root + "--suggest " + (folder.path() / "broken.cc").string());
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_TRUE(says(broken, "broken.cc:2:29: error: ")) << broken.output;
  write_file(folder.path() / "plain.cc", "struct A {};\n");
  EXPECT_TRUE(says(modgen(in_root + "--suggest " + (folder.path() / "plain.cc").string()),
                   "plain.cc has no class that derives from torch::nn::Module"));
  EXPECT_TRUE(says(modgen(in_root + "--suggest nowhere.cc"), "there is no file nowhere.cc"));
  EXPECT_TRUE(says(modgen(in_root + "--format dot --suggest " + kModel), "--suggest prints text, or JSON"));
}

}  // namespace
}  // namespace modgen
