// What modcheck says where specs do not generate: modgen's own places, in every format.
#include <nlohmann/json.hpp>

#include "tests/checks/modcheck_project.h"

namespace modgen {
namespace {

using Json = nlohmann::json;

class SpecErrors : public ModcheckProject {
 protected:
  void replace(const std::string& file, const std::string& before, const std::string& after) {
    std::string text = bytes(file);
    ASSERT_NE(text.find(before), std::string::npos) << before;
    write(file, text.replace(text.find(before), before.size(), after));
  }
  /// An error of the parallel plan: a layer whose sum over ranks nothing takes.
  void break_the_plan() { replace("modular/llama.h", "TP_ROWWISE nn::Linear down_proj", "nn::Linear down_proj"); }
  int find_line(const std::string& file, const std::string& text) {
    const std::string all = bytes(file);
    return 1 + static_cast<int>(std::count(all.begin(), all.begin() + static_cast<long>(all.find(text)), '\n'));
  }
};

TEST_F(SpecErrors, ArePrintedAsModgenPrintsThem) {
  append("modular/gemma.h", "this is no C++\n");
  const Outcome found = check();
  EXPECT_EQ(found.exit_code, 2) << found.output;
  const std::string line = std::to_string(find_line("modular/gemma.h", "this is no C++"));
  EXPECT_NE(found.output.find("modular/gemma.h:" + line + ":1: error: "), std::string::npos) << found.output;
  EXPECT_NE(found.output.find("\n  this is no C++\n  ^\n"), std::string::npos) << found.output;
  EXPECT_NE(found.output.find("generated/gemma.h:1: unchecked: nothing can be generated to compare with"),
            std::string::npos)
      << found.output;
  EXPECT_EQ(found.output.find("generated/llama.h"), std::string::npos) << found.output;
}

TEST_F(SpecErrors, OfAPlanAreLocatedInTheSpecAndInThoseThatInheritThem) {
  break_the_plan();
  const Json json = Json::parse(check("--format json").output);
  size_t in_llama = 0, unchecked = 0;
  for (const Json& one : json) {
    unchecked += one["verdict"] == "unchecked";
    if (one["verdict"] != "rejected" || one["file"] != "modular/llama.h") continue;
    ++in_llama;
    EXPECT_EQ(one["line"], find_line("modular/llama.h", "return down_proj(")) << one.dump(1);
    EXPECT_GT(one["column"], 1);
    EXPECT_FALSE(one["advice"].get<std::string>().empty());
    EXPECT_EQ(one["can_be_fixed"], false);
  }
  EXPECT_EQ(in_llama, 1u) << json.dump(1);
  EXPECT_EQ(unchecked, 3u) << json.dump(1);
}

TEST_F(SpecErrors, AreAnnotationsOnGithub) {
  break_the_plan();
  const std::string output = check("--format github").output;
  const std::string line = std::to_string(find_line("modular/llama.h", "return down_proj("));
  EXPECT_NE(output.find("::error file=modular/llama.h,line=" + line + ",col="), std::string::npos) << output;
  EXPECT_NE(output.find(",title=modcheck rejected::"), std::string::npos) << output;
}

TEST_F(SpecErrors, HaveRelatedPlacesAndFixesInSarif) {
  // After characters of several bytes: SARIF's columns and offsets count characters.
  append("modular/gemma.h", "/* «» */ #define GEMMA_SIZE 4\n");
  replace("modular/gemma.h", "/* «» */ #", "// «»\n#");
  const Json log = Json::parse(check("--format sarif").output);
  EXPECT_EQ(log["version"], "2.1.0");
  const Json& run = log["runs"][0];
  EXPECT_EQ(run["columnKind"], "unicodeCodePoints");
  std::vector<std::string> rules;
  for (const Json& rule : run["tool"]["driver"]["rules"]) rules.push_back(rule["id"]);
  bool rejected = false;
  for (const Json& result : run["results"]) {
    EXPECT_EQ(std::count(rules.begin(), rules.end(), result["ruleId"].get<std::string>()), 1) << result.dump(1);
    const Json& place = result["locations"][0]["physicalLocation"];
    EXPECT_TRUE(place["artifactLocation"]["uri"].is_string() && place["region"]["startLine"] >= 1) << result.dump(1);
    if (result["ruleId"] != "rejected") continue;
    rejected = true;
    EXPECT_EQ(place["artifactLocation"]["uri"], "modular/gemma.h");
    EXPECT_EQ(place["region"]["startLine"], find_line("modular/gemma.h", "#define GEMMA_SIZE"));
    EXPECT_EQ(place["region"]["startColumn"], 9);
    const Json& change = result["fixes"][0]["artifactChanges"][0];
    EXPECT_EQ(change["artifactLocation"]["uri"], "modular/gemma.h");
    const Json& replacement = change["replacements"][0];
    EXPECT_EQ(replacement["insertedContent"]["text"], "#undef GEMMA_SIZE\n");
    EXPECT_EQ(replacement["deletedRegion"]["charLength"], 0);
    const std::string spec = bytes("modular/gemma.h");
    const auto characters = std::count_if(spec.begin(), spec.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_EQ(replacement["deletedRegion"]["charOffset"], characters);
  }
  EXPECT_TRUE(rejected) << log.dump(1);
}

}  // namespace
}  // namespace modgen
