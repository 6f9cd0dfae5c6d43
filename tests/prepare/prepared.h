// Data that modrun prepare creates from small texts, with tokenizers that reference.py trains.
#pragma once

#include <algorithm>
#include <map>

#include "runtime/files/open_file.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {

using Words = std::vector<std::string>;

class PrepareCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(made())) << made() << " is missing: ctest -R prepare.generate makes it";
  }

  /// Runs reference.py with these arguments.
  testing::Ended reference(const Words& arguments) const {
    return testing::end_of_program(testing::start_program(with({PARITY_PYTHON, REFERENCE}, arguments), folder_.path()));
  }

  /// Output of generate.py, shared by all tests: they must not write there.
  static std::filesystem::path made() { return PREPARE_GENERATED; }
  static std::string tokenizer(const std::string& kind) { return (made() / kind).string(); }
  static std::string texts(const std::string& suffix) { return (made() / ("texts" + suffix)).string(); }
  /// Texts that are hard to tokenize.
  static std::string hard() { return (made() / "hard.jsonl").string(); }
  std::string out(const std::string& name = "out") const { return (folder_.path() / name).string(); }

  /// Runs modrun prepare with small shards.
  Words preparing(const Words& arguments, const std::string& name = "out") const {
    Words words = with({"prepare", "--out", out(name), "--shard-size", "3000"}, arguments);
    if (std::ranges::find(words, "--python") == words.end()) words = with(words, {"--python", PARITY_PYTHON});
    return words;
  }
  Finished prepare(const Words& arguments, const std::string& name = "out") const {
    return modrun(preparing(arguments, name));
  }

  /// The bytes of all files below a folder.
  static std::map<std::string, std::string> get_files(const std::filesystem::path& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) files[std::filesystem::relative(entry.path(), folder)] = read_file(entry.path());
    return files;
  }

  TemporaryFolder folder_;
};

}  // namespace modular
