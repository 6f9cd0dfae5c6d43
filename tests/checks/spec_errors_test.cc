// modcheck's output for specs that cannot be generated: modgen's locations, in every format.
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
  /// Introduces an error in the parallel plan: a layer whose sum over ranks is missing.
  void break_the_plan() { replace("modular/llama.h", "TP_ROWWISE nn::Linear down_proj", "nn::Linear down_proj"); }
  int find_line(const std::string& file, const std::string& text) {
    const std::string all = bytes(file);
    return 1 + static_cast<int>(std::count(all.begin(), all.begin() + static_cast<long>(all.find(text)), '\n'));
  }
};

TEST_F(SpecErrors, ArePrintedAsModgenPrintsThem) {
  append("modular/gemma.h", "this is not C++\n");
  const Outcome found = check();
  EXPECT_EQ(found.exit_code, 2) << found.output;
  const std::string line = std::to_string(find_line("modular/gemma.h", "this is not C++"));
  EXPECT_NE(found.output.find("modular/gemma.h:" + line + ":1: error: "), std::string::npos) << found.output;
  EXPECT_NE(found.output.find("\n  this is not C++\n  ^\n"), std::string::npos) << found.output;
  EXPECT_NE(found.output.find("generated/gemma.h:1: unchecked: nothing can be generated to compare with"),
            std::string::npos)
      << found.output;
  EXPECT_EQ(found.output.find("generated/llama.h"), std::string::npos) << found.output;
}

TEST_F(SpecErrors, OfAPlanAreReportedInTheSpecForAllInheritingFamilies) {
  break_the_plan();
  const Json json = Json::parse(check("--format json").output);
  size_t in_llama = 0, unchecked = 0;
  for (const Json& difference : json) {
    unchecked += difference["verdict"] == "unchecked";
    if (difference["verdict"] != "rejected" || difference["file"] != "modular/llama.h") continue;
    ++in_llama;
    EXPECT_EQ(difference["line"], find_line("modular/llama.h", "return down_proj(")) << difference.dump(1);
    EXPECT_GT(difference["column"], 1);
    EXPECT_FALSE(difference["advice"].get<std::string>().empty());
    EXPECT_EQ(difference["can_be_fixed"], false);
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

TEST_F(SpecErrors, HaveRelatedLocationsAndFixesInSarif) {
  // The error follows multi-byte characters: SARIF columns and offsets count characters.
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
    const Json& location = result["locations"][0]["physicalLocation"];
    EXPECT_TRUE(location["artifactLocation"]["uri"].is_string() && location["region"]["startLine"] >= 1)
        << result.dump(1);
    if (result["ruleId"] != "rejected") continue;
    rejected = true;
    EXPECT_EQ(location["artifactLocation"]["uri"], "modular/gemma.h");
    EXPECT_EQ(location["region"]["startLine"], find_line("modular/gemma.h", "#define GEMMA_SIZE"));
    EXPECT_EQ(location["region"]["startColumn"], 9);
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
