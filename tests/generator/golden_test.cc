// Golden families: each folder of golden/ is a separate tree, with specs in modular/, whose first line states their
// purpose, and modgen's output in generated/. MODULAR_UPDATE_GOLDENS=1 rewrites the files that exist.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checks/unified_diff.h"
#include "generator/generate.h"
#include "generator/print/format.h"
#include "generator/source/files.h"
#include "generator/source/names.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

const fs::path kGolden = fs::path(MODULAR_SOURCE_DIR) / "tests/generator/golden";

std::string all_text(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += to_text(diagnostic);
  return text;
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGolden)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The names of the tree's other specs, without those that MODULAR_FAMILY keeps explicitly: a title, or the name of a
/// member.
std::vector<std::string> other_names(const fs::path& root, const std::string& family) {
  std::vector<std::string> names;
  std::string macro_arguments;
  for (const std::string& one : families_in(root.string())) {
    const std::string text = read_file(root / "modular" / (one + ".h"));
    const size_t begin = text.find("MODULAR_FAMILY(") + 15;
    macro_arguments += text.substr(begin, text.find(';', begin) - begin);
    if (one != family) names.insert(names.end(), {text.substr(begin, text.find_first_of("),", begin) - begin), one});
  }
  std::erase_if(names, [&](const std::string& name) {
    return macro_arguments.find("\"" + name + "\"") != std::string::npos ||
           macro_arguments.find("\"" + upper_case(name) + "\"") != std::string::npos;  // "clip" is a verb, too
  });
  return names;
}

bool has_word_part(const std::string& text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    const bool begins = at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]));
    const size_t end = at + part.size();
    const bool ends = end >= text.size() || !std::islower(static_cast<unsigned char>(text[end]));
    if (begins && ends) return true;
  }
  return false;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsUpToDate) {
  const fs::path root = kGolden / GetParam();
  GenerateOptions options;
  options.root = root.string();
  for (const std::string& family : families_in(options.root))
    if (fs::exists(root / "generated" / (family + ".h"))) options.families.push_back(family);
  ASSERT_FALSE(options.families.empty());
  const GenerateResult result = generate(options);
  ASSERT_TRUE(result.ok()) << all_text(result.diagnostics);
  for (const Output& output : result.outputs) {
    const fs::path path = root / output.path;
    if (std::getenv("MODULAR_UPDATE_GOLDENS")) write_file(path, output.bytes);
    const std::string expected = read_file(path);
    EXPECT_EQ(expected, output.bytes) << unified_diff(path.string(), expected, "generated now", output.bytes);

    EXPECT_EQ(format(output.bytes, {range(0, output.bytes.size())}), output.bytes)
        << output.path << " is not formatted";

    const std::string code = output.bytes.substr(output.bytes.find("#pragma once"));
    for (const std::string& name : other_names(root, output.family))
      EXPECT_FALSE(has_word_part(code, name)) << output.path << " names family " << name;
  }
}

TEST_P(Golden, IsTheSameFromAnyFolderAndRun) {
  const fs::path root = kGolden / GetParam();
  GenerateOptions options;
  options.root = root.string();
  options.families = families_in(options.root);
  const GenerateResult first = generate(options);
  const fs::path before = fs::current_path();
  fs::current_path(root / "modular");
  options.root = "..";
  const GenerateResult second = generate(options);
  fs::current_path(before);
  ASSERT_EQ(first.outputs.size(), second.outputs.size());
  for (size_t index = 0; index < first.outputs.size(); ++index) {
    EXPECT_EQ(first.outputs[index].bytes, second.outputs[index].bytes);
    EXPECT_EQ(first.outputs[index].plan_json, second.outputs[index].plan_json);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
