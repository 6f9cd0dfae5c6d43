// Runs modrun with the folders that generate.py wrote, with a separate output folder for each test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/files/open_file.h"
#include "tests/modrun/modrun_process.h"

namespace modular {

class BegunWeights : public testing::Test {
 protected:
  using Words = std::vector<std::string>;

  /// `kind`: the folder of generate.py; `checker`: the script that compares the contents of out_ with it.
  BegunWeights(const char* kind, std::string checker)
      : written_(std::filesystem::path(BEGUN_WEIGHTS) / kind), checker_(std::move(checker)) {}

  std::filesystem::path written(const std::string& name) const { return written_ / name; }
  std::filesystem::path out(const std::string& name) const { return out_.path() / name; }

  static std::string get_text(const std::filesystem::path& path) { return read_file(path); }

  static Words set_options(const Words& values) {
    Words words;
    for (const std::string& value : values) words.insert(words.end(), {"--set", value});
    return words;
  }

  static void expect_done(const Words& arguments) {
    const Finished done = modrun(arguments);
    EXPECT_EQ(done.status, 0) << done.output;
  }

  void check(const Words& cases) const {
    std::string command = PARITY_PYTHON " " + checker_ + " '" + written_.string() + "' '" + out_.path().string() + "'";
    for (const std::string& name : cases) command += " " + name;
    const std::filesystem::path log = out("python.log");
    EXPECT_EQ(std::system((command + " > " + log.string() + " 2>&1").c_str()), 0) << get_text(log);
  }

  TemporaryFolder out_;

 private:
  std::filesystem::path written_;
  std::string checker_;
};

}  // namespace modular
