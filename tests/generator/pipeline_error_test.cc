// Diagnostics of modgen. Each folder of rejected/ is a tree with specs that cannot be flattened faithfully, whose first
// lines state the error, and modgen's diagnostics in expected.txt. Each folder of warned/ is a tree that is generated
// with warnings. MODULAR_UPDATE_GOLDENS=1 rewrites expected.txt.
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

/// Generates all families of `root` and compares the diagnostics with its expected.txt.
GenerateResult generate_as_expected(const fs::path& root) {
  GenerateOptions options;
  options.root = root.string();
  options.families = families_in(options.root);
  GenerateResult result = generate(options);
  std::string text;
  for (const Diagnostic& diagnostic : result.diagnostics) text += to_text(diagnostic);
  if (std::getenv("MODULAR_UPDATE_GOLDENS")) write_file(root / "expected.txt", text);
  EXPECT_EQ(read_file(root / "expected.txt"), text);
  return result;
}

class Rejected : public testing::TestWithParam<std::string> {};

TEST_P(Rejected, ReportsTheExpectedErrors) {
  const GenerateResult result = generate_as_expected(kRejectedSpecs / GetParam());
  EXPECT_FALSE(result.ok());
  for (const Output& output : result.outputs)
    EXPECT_TRUE(output.bytes.empty()) << output.path << " has text in spite of an error";
}

INSTANTIATE_TEST_SUITE_P(Specs, Rejected, testing::ValuesIn(trees_in(kRejectedSpecs)),
                         [](const auto& info) { return info.param; });

class Warned : public testing::TestWithParam<std::string> {};

TEST_P(Warned, ReportsTheExpectedWarningsAndGenerates) {
  const GenerateResult result = generate_as_expected(kWarned / GetParam());
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(result.diagnostics.empty());
  for (const Output& output : result.outputs) EXPECT_FALSE(output.bytes.empty()) << output.path;
}

INSTANTIATE_TEST_SUITE_P(Specs, Warned, testing::ValuesIn(trees_in(kWarned)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
