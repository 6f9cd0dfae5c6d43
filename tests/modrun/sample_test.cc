// modrun sample with several prompts: one JSON line per prompt, equal to its output for that prompt alone.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Sampling : public ModrunTest {
 protected:
  Sampling() {
    const auto run = train("run", {"--set", "train.steps=3"});
    EXPECT_EQ(run.status, 0) << run.output;
  }

  Finished sampled(const Words& options, const Words& launcher = {}) const {
    const Words words = with(
        launcher, {"sample", run_folder("run").string(), "--set", "sample.tokens=6", "--set", "sample.temperature=0"});
    return modrun(with(words, options));
  }

  /// The JSON lines that it prints.
  std::vector<json> lines(const Words& options, const Words& launcher = {}) const {
    const Finished run = sampled(options, launcher);
    EXPECT_EQ(run.status, 0) << run.output;
    std::vector<json> found;
    std::istringstream text(run.output);
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("{")) found.push_back(json::parse(line));
    return found;
  }

  /// The output for a single prompt.
  std::string alone(const std::string& prompt) const {
    const Finished run = sampled({"--prompt", prompt});
    EXPECT_EQ(run.status, 0) << run.output;
    return run.output;
  }
};

TEST_F(Sampling, PrintsOneJsonLinePerText) {
  const Words prompts = {"line 1", "of", "file 12345"};
  std::vector<json> expected;
  for (const std::string& prompt : prompts) {
    const std::string printed = alone(prompt);
    const size_t at = printed.find(prompt);
    ASSERT_NE(at, std::string::npos) << printed;
    const std::string rest = printed.substr(at + prompt.size());
    expected.push_back({{"prompt", prompt}, {"text", rest.substr(0, rest.size() - 1)}});
  }
  const Words named = {"--prompt", prompts[0], "--prompt", prompts[1], "--prompt", prompts[2]};
  EXPECT_EQ(lines(named), expected);
  EXPECT_EQ(lines(with(named, {"--set", "sample.batch=2"})), expected);
  EXPECT_EQ(lines(named, {"--nproc-per-node", "2"}), expected);

  const std::string file = folder_.write("prompts.txt", "line 1\nof\r\nfile 12345").string();
  EXPECT_EQ(lines({"--prompts", file}), expected);
  const std::string one = folder_.write("one.txt", "line 1\n").string();
  EXPECT_EQ(lines({"--prompts", one}), std::vector<json>{expected[0]});
}

// A model can generate sequences that clear a screen or set a window's title.
TEST_F(Sampling, TextIsPrintableOnATerminalAndUnchangedInAPipe) {
  EXPECT_THAT(alone("\x1b[2Jline"), HasSubstr("\x1b[2Jline"));
  const std::string out = (folder_.path() / "terminal").string();
  const std::string command = "script -qec \"" MODRUN " sample " + run_folder("run").string() +
                              " --set sample.tokens=6 --prompt $'\\x1b[2Jline'\" /dev/null > " + out;
  ASSERT_EQ(std::system(("SHELL=/bin/bash " + command).c_str()), 0);
  EXPECT_THAT(get_bytes(out), testing::AllOf(HasSubstr("?[2Jline"), testing::Not(HasSubstr("\x1b"))));
}

TEST_F(Sampling, ReadsPromptsFromJsonLines) {
  const std::string file =
      folder_.write("prompts.jsonl", "{\"prompt\": \"a\\nb\"}\n{\"prompt\": \"of\", \"id\": 3}\n").string();
  const auto found = lines({"--prompts", file});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].at("prompt"), "a\nb");
  EXPECT_EQ(found[1].at("prompt"), "of");
}

TEST_F(Sampling, RejectsFilesWithoutPrompts) {
  const auto error = [&](const std::string& name, const std::string& text) {
    const Finished run = sampled({"--prompts", folder_.write(name, text).string()});
    EXPECT_NE(run.status, 0);
    return run.output;
  };
  EXPECT_THAT(error("empty.txt", ""), HasSubstr("empty.txt is empty: write one text to continue per line"));
  EXPECT_THAT(error("hole.txt", "a\n\nb\n"), HasSubstr("hole.txt:2: there is no text to continue"));
  EXPECT_THAT(error("no.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n"), HasSubstr("no.jsonl:2: "));
  EXPECT_THAT(error("broken.jsonl", "{\"prompt\": \"a\"\n"), HasSubstr("broken.jsonl:1: "));
  EXPECT_THAT(sampled({"--prompts", (folder_.path() / "none").string()}).output, HasSubstr("none is not a file"));
}

}  // namespace
}  // namespace modular
