// What modgen says. Specs that cannot be flattened faithfully: each folder of rejected/ is a tree whose specs' first
// lines say what is wrong, with what modgen says in expected.txt. Each folder of warned/ is one that is generated with
// warnings. MODULAR_UPDATE_GOLDENS=1 rewrites expected.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "generator/generate.h"
#include "generator/source/files.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

const fs::path kRejectedSpecs = fs::path(MODULAR_SOURCE_DIR) / "tests/generator/rejected",
               kWarned = fs::path(MODULAR_SOURCE_DIR) / "tests/generator/warned";

std::vector<std::string> trees_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Generates all families of `root` and holds what is said to its expected.txt.
GenerateResult generate_as_expected(const fs::path& root) {
  GenerateOptions options;
  options.root = root.string();
  options.families = families_in(options.root);
  GenerateResult result = generate(options);
  std::string said;
  for (const Diagnostic& diagnostic : result.diagnostics) said += to_text(diagnostic);
  if (std::getenv("MODULAR_UPDATE_GOLDENS")) write_file(root / "expected.txt", said);
  EXPECT_EQ(read_file(root / "expected.txt"), said);
  return result;
}

class Rejected : public testing::TestWithParam<std::string> {};

TEST_P(Rejected, SaysWhereAndWhat) {
  const GenerateResult result = generate_as_expected(kRejectedSpecs / GetParam());
  EXPECT_FALSE(result.ok());
  for (const Output& output : result.outputs)
    EXPECT_TRUE(output.bytes.empty()) << output.path << " has text in spite of an error";
}

INSTANTIATE_TEST_SUITE_P(Specs, Rejected, testing::ValuesIn(trees_in(kRejectedSpecs)),
                         [](const auto& info) { return info.param; });

class Warned : public testing::TestWithParam<std::string> {};

TEST_P(Warned, SaysWhereAndWhatAndGenerates) {
  const GenerateResult result = generate_as_expected(kWarned / GetParam());
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(result.diagnostics.empty());
  for (const Output& output : result.outputs) EXPECT_FALSE(output.bytes.empty()) << output.path;
}

INSTANTIATE_TEST_SUITE_P(Specs, Warned, testing::ValuesIn(trees_in(kWarned)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
