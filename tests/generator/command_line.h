// Runs modgen as a program on a copy of the specs of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "checks/regenerate.h"
#include "generator/source/files.h"

namespace modgen {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code;
  std::string output;
};

inline Outcome modgen(const std::string& arguments, const char* streams = " 2>&1") {
  std::FILE* pipe = popen((MODGEN " " + arguments + streams).c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot start modgen");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

inline bool says(const Outcome& outcome, const std::string& text) {
  return outcome.output.find(text) != std::string::npos;
}

class CommandLine : public testing::Test {
 protected:
  /// A project with the specs of one of the folders beside this file.
  void use(const std::string& folder_of_specs) {
    fs::copy(fs::path(MODULAR_SOURCE_DIR) / "tests/generator" / folder_of_specs / "modular", root / "modular",
             fs::copy_options::recursive);
  }

  const TemporaryFolder folder;
  const fs::path root = folder.path() / "project";
  const std::string in_root = "--root " + root.string() + " ";
  const fs::path generated = root / "generated";
  void SetUp() override { fs::create_directories(root); }
};

}  // namespace modgen
