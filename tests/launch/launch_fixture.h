// Starts the launch probe (launch_probe.cc) as a user starts modrun, in a temporary folder per test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/programs.h"

namespace modular {

class LaunchTest : public ::testing::Test {
 protected:
  LaunchTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "launch-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~LaunchTest() override { std::filesystem::remove_all(folder_); }

  testing::Started start(const std::vector<std::string>& command, std::vector<std::string> variables = {}) {
    variables.push_back("TMPDIR=" + folder_);  // logs of failed runs are kept there
    return testing::start_program(command, folder_, variables);
  }

  testing::Started probe(std::vector<std::string> arguments, const std::vector<std::string>& variables = {}) {
    arguments.insert(arguments.begin(), MODULAR_LAUNCH_PROBE);
    return start(arguments, variables);
  }

  static testing::Ended end(const testing::Started& run) { return testing::end_of_program(run); }

  std::string folder_;
};

}  // namespace modular
