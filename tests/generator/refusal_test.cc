// Specs that cannot be flattened faithfully: each folder of refused/ is a tree whose specs' first lines say what is
// wrong, with what modgen says in expected.txt. MODULAR_UPDATE_GOLDENS=1 rewrites expected.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "generator/generate.h"
#include "generator/source/files.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

const fs::path kRefused = fs::path(MODULAR_SOURCE_DIR) / "tests/generator/refused";

std::vector<std::string> refused_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRefused)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Refused : public testing::TestWithParam<std::string> {};

TEST_P(Refused, SaysWhereAndWhat) {
  const fs::path root = kRefused / GetParam();
  GenerateOptions options;
  options.root = root.string();
  options.families = families_in(options.root);
  const GenerateResult result = generate(options);
  EXPECT_FALSE(result.ok());
  std::string said;
  for (const Diagnostic& diagnostic : result.diagnostics) said += to_text(diagnostic);
  if (std::getenv("MODULAR_UPDATE_GOLDENS")) write_file(root / "expected.txt", said);
  EXPECT_EQ(read_file(root / "expected.txt"), said);
  for (const Output& output : result.outputs)
    EXPECT_TRUE(output.bytes.empty()) << output.path << " has text in spite of an error";
}

INSTANTIATE_TEST_SUITE_P(Specs, Refused, testing::ValuesIn(refused_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
