// Helpers for specs under test, which are written to a separate folder and generated in memory.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "generator/generate.h"

namespace modgen {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The shipped Llama spec.
inline std::string llama_spec() { return read_file(std::filesystem::path(MODULAR_SOURCE_DIR) / "modular/llama.h"); }

/// `text` with its only occurrence of `from` replaced.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "not in the spec: " << from;
  if (at == std::string::npos) return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "more than once in the spec: " << from;
  return text.replace(at, from.size(), to);
}

/// The folder with the specs of the golden tree "parallel".
inline std::filesystem::path parallel_specs() {
  return std::filesystem::path(MODULAR_SOURCE_DIR) / "tests/generator/golden/parallel/modular";
}

inline std::string parallel_spec(const std::string& family) { return read_file(parallel_specs() / (family + ".h")); }

/// Generates a family from `spec`, in a tree with the spec and the files of folder `others`, next to the shipped tree.
inline GenerateResult generate_spec(const std::string& family, const std::string& spec,
                                    const std::filesystem::path& others = {}) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string folder = std::string(test->test_suite_name()) + "." + test->name();
  for (char& letter : folder)
    if (letter == '/') letter = '_';
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "modgen_weave" / folder;
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root / "modular");
  if (!others.empty()) std::filesystem::copy(others, root / "modular");
  std::ofstream(root / "modular" / (family + ".h"), std::ios::trunc) << spec;
  GenerateOptions options;
  options.root = root.string();
  options.families = {family};
  GenerateResult result = generate(options);
  std::filesystem::remove_all(root);
  return result;
}

/// Generates a family of the golden tree "parallel" from a changed `spec`.
inline GenerateResult generate_parallel(const std::string& family, const std::string& spec) {
  return generate_spec(family, spec, parallel_specs());
}

inline std::string all_text(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += to_text(diagnostic) + "\n";
  return text;
}

/// The text of method `name` of class `owner` in generated code, from its signature to its closing brace.
inline std::string method_text(const std::string& code, const std::string& owner, const std::string& signature) {
  const size_t in_class = code.find("class " + owner + " ");
  const size_t begin = code.find(signature, in_class);
  if (in_class == std::string::npos || begin == std::string::npos) return "";
  size_t end = code.find('{', begin);
  for (int depth = 0; end < code.size(); ++end) {
    depth += code[end] == '{' ? 1 : code[end] == '}' ? -1 : 0;
    if (depth == 0) break;
  }
  return code.substr(begin, end + 1 - begin);
}

}  // namespace modgen
