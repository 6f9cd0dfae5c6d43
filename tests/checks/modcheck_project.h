// Fixture that runs the modcheck program on a copy of some of this project's specs.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "checks/digest.h"
#include "checks/records.h"
#include "checks/regenerate.h"
#include "generator/source/files.h"

namespace modgen {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code;
  std::string output;
};

inline Outcome run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), count);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

class ModcheckProject : public testing::Test {
 protected:
  void SetUp() override {
    // The prelude and the contract come from the shipped tree, as in a user's project.
    for (const char* name : {"modular/llama.h", "modular/mistral.h", "modular/gemma.h", "generator"}) {
      fs::create_directories((root / name).parent_path());
      fs::copy(fs::path(MODULAR_SOURCE_DIR) / name, root / name, fs::copy_options::recursive);
    }
    const Outcome outcome = run(MODGEN " --all --root " + root.string());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  }

  Outcome check(const std::string& arguments = "") {
    return run(MODCHECK " --root " + root.string() + " " + arguments);
  }

  std::string bytes(const std::string& file) { return read_file(root / file); }
  void write(const std::string& file, const std::string& bytes) { write_file(root / file, bytes); }
  void append(const std::string& file, const std::string& text) { write(file, bytes(file) + text); }

  /// Updates the record to match the current output.
  void forge_record(const std::string& family) {
    Record record = parse_record(bytes("generated/" + family + ".lock"));
    record.output = digest(bytes("generated/" + family + ".h"));
    write("generated/" + family + ".lock", to_text(record));
  }

  /// Expects modcheck to exit with `exit_code` and print `text`. For drift, expects --fix to clean the tree.
  void expect(int exit_code, const std::string& text) {
    const Outcome found = check();
    EXPECT_EQ(found.exit_code, exit_code) << found.output;
    EXPECT_NE(found.output.find(text), std::string::npos) << found.output;
    if (exit_code != 1) return;
    const Outcome fixed = check("--fix");
    EXPECT_EQ(fixed.exit_code, 0) << fixed.output;
    const Outcome again = check("--full");
    EXPECT_EQ(again.exit_code, 0) << again.output;
  }

  const TemporaryFolder folder;
  const fs::path root = folder.path() / "project";
};

}  // namespace modgen
