// Commands on the folder of a run run nothing that the folder names, unless its user says so.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class TrustFolder : public ModrunTest {
 protected:
  TrustFolder() {
    const auto run = train("run", {"--set", "train.steps=2"});
    EXPECT_EQ(run.status, 0) << run.output;
    folder_.write("runs/run/tokenizer/tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})");
    program_ = folder_.write("program", "#!/bin/sh\n: > '" + executed().string() + "'\nexit 1\n");
    fs::permissions(program_, fs::perms::owner_all);
  }

  fs::path executed() const { return folder_.path() / "executed"; }

  /// Writes `value` for a key of the run's config.toml, whose line begins so within its section.
  void name_in_folder(const std::string& section, const std::string& key, const std::string& value) const {
    std::string text = get_bytes(run_folder("run") / "config.toml");
    const size_t begin = text.find("\n" + key + " = ", text.find("[" + section + "]")) + 1;
    text.replace(begin, text.find('\n', begin) - begin, fmt::format("{} = '{}'", key, value));
    folder_.write("runs/run/config.toml", text);
  }

  /// Runs a command on the folder, with what it asks for beside.
  Finished on_folder(const std::string& command, const Words& more = {}) const {
    return modrun(with({command, run_folder("run").string()}, more));
  }

  Words with_tokenizer() const {
    return {"--set", "data.format=tokens", "--set", "data.paths=['" + (folder_.path() / "ids").string() + "']"};
  }

  fs::path program_;
};

TEST_F(TrustFolder, AConfigThatModrunStoredIsAFoldersAlsoWithoutItsManifest) {
  name_in_folder("metrics", "python", program_.string());
  name_in_folder("metrics", "wandb", "project");
  const std::string config = get_bytes(run_folder("run") / "config.toml");
  fs::remove(run_folder("run") / "data.manifest");
  folder_.write("study/trials.jsonl", "");
  folder_.write("study/best.toml", config);
  folder_.write("study/pareto/0001.toml", config);
  for (const fs::path& stored : {run_folder("run") / "config.toml", folder_.path() / "study/best.toml",
                                 folder_.path() / "study/pareto/0001.toml"}) {
    modrun({"train", stored.string(), "--set", "train.dir=" + run_folder("other").string(), "--overwrite"});
    EXPECT_FALSE(fs::exists(executed())) << stored;
  }
  modrun({"train", (folder_.path() / "study/best.toml").string(), "--trust-folder", "--set",
          "train.dir=" + run_folder("other").string(), "--overwrite"});
  EXPECT_TRUE(fs::exists(executed()));
}

TEST_F(TrustFolder, NoCommandRunsWhatTheFolderNames) {
  for (const auto& [section, key] : {std::pair("sample", "python"), {"metrics", "python"}, {"parallel", "backend"}})
    name_in_folder(section, key, program_.string());
  name_in_folder("metrics", "wandb", "project");
  name_in_folder("sample", "prompt", "text");
  name_in_folder("model", "tokenizer", (run_folder("run") / "tokenizer").string());
  const std::string inputs = (folder_.path() / "inputs.safetensors").string(),
                    outputs = (folder_.path() / "outputs").string();
  const std::vector<std::pair<std::string, Words>> commands = {
      {"train", {"--resume", "--set", "train.steps=3"}},
      {"train", {"--resume", "--set", "train.steps=3", "--set", "metrics.wandb="}},
      {"train", {"--overwrite"}},
      {"eval", {}},
      {"sample", {"--prompt", "a"}},
      {"predict", {"--inputs", inputs, "--outputs", outputs}},
      {"forward",
       {"--checkpoint", (run_folder("run") / "checkpoints").string(), "--inputs", inputs, "--outputs", outputs}},
      {"measure", {"--steps", "1", "--warm-up", "0"}},
      {"plan", {}},
      {"advise", {"--memory", "80GiB", "--flops", "1e15", "--memory-speed", "3TB/s", "--link", "450GB/s"}},
      {"bench", {"--steps", "1", "--rounds", "1", "--strategies", "none"}},
      {"search", {}},
      {"settings", {}},
      {"report", {"--out", outputs}},
  };
  for (const auto& [command, more] : commands)
    for (const std::string& named : {run_folder("run").string(), (run_folder("run") / "config.toml").string()}) {
      const auto run = modrun(with({command, named}, more), /*seconds=*/30);
      EXPECT_LT(run.status, 124) << command << ": " << run.output;
      EXPECT_FALSE(fs::exists(executed())) << command << ": " << run.output;
      fs::remove(executed());
    }
}

TEST_F(TrustFolder, AProgramIsReplacedByTheUsualOneAndTheNoteSaysHowToTakeIt) {
  name_in_folder("sample", "python", program_.string());
  const auto run = on_folder("eval");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("runs/run/config.toml:"),
                                HasSubstr(fmt::format("sample.python is \"{}\", and what the folder of a run names is "
                                                      "not run: add --set sample.python=\"{}\"",
                                                      program_.string(), program_.string())),
                                HasSubstr("--trust-folder"), HasSubstr("\"python3\" is used")));
  const size_t first = run.output.find("sample.python is");
  EXPECT_EQ(run.output.find("sample.python is", first + 1), run.output.npos) << run.output;
  const auto ranks = modrun({"--nproc-per-node", "2", "eval", run_folder("run").string()});
  EXPECT_EQ(ranks.status, 0) << ranks.output;
  EXPECT_EQ(ranks.output.find("sample.python is", ranks.output.find("sample.python is") + 1), ranks.output.npos)
      << ranks.output;

  EXPECT_THAT(on_folder("eval", {"--trust-folder"}).output, Not(HasSubstr("sample.python is")));
  EXPECT_THAT(on_folder("eval", {"--set", "sample.python=python3"}).output, Not(HasSubstr("sample.python is")));
}

TEST_F(TrustFolder, ALibraryOfCollectivesIsAnErrorUntilTheUserTakesIt) {
  name_in_folder("parallel", "backend", COUNTING_BACKEND);
  const Words launcher = {"--nproc-per-node", "2", "eval", run_folder("run").string()};
  const auto run = modrun(launcher);
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("parallel.backend is \"" COUNTING_BACKEND "\", and what the folder of a run "
                                          "names is not run"),
                                HasSubstr("--trust-folder")));
  for (const Words& more :
       {Words{"--trust-folder"}, {"--set", "parallel.backend=" COUNTING_BACKEND}, {"--set", "parallel.backend=gloo"}}) {
    const auto taken = modrun(with(launcher, more));
    EXPECT_EQ(taken.status, 0) << taken.output;
  }
  EXPECT_EQ(on_folder("plan").status, 0) << "which loads none";
}

TEST_F(TrustFolder, ThePythonOfAFolderIsRunWhereTheUserSaysSo) {
  name_in_folder("sample", "python", program_.string());
  const Words sample = with(with_tokenizer(), {"--prompt", "a"});
  on_folder("sample", sample);
  EXPECT_FALSE(fs::exists(executed()));
  on_folder("sample", with(sample, {"--trust-folder"}));
  EXPECT_TRUE(fs::exists(executed()));
  fs::remove(executed());
  on_folder("sample", with(sample, {"--set", "sample.python=" + program_.string()}));
  EXPECT_TRUE(fs::exists(executed()));
}

TEST_F(TrustFolder, AConfigThatTheUserNamesAsAFileIsTaken) {
  name_in_folder("sample", "python", program_.string());
  const auto copy = folder_.write("mine.toml", get_bytes(run_folder("run") / "config.toml"));
  const auto run = modrun(with({"sample", copy.string()}, with(with_tokenizer(), {"--prompt", "a"})));
  EXPECT_TRUE(fs::exists(executed())) << run.output;
}

TEST_F(TrustFolder, ASearchOfAFolderRunsNoCommandOfIt) {
  std::ofstream(run_folder("run") / "config.toml", std::ios::app)
      << "[search]\ndir = '" << (folder_.path() / "study").string() << "'\nobjective_command = '" << program_.string()
      << "'\ndirection = 'minimize'\ntrials = 1\n[search.space]\n'optim.lr' = [1e-3]\n";
  const auto config = (run_folder("run") / "config.toml").string();
  const auto run = modrun({"search", config});
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output, HasSubstr("search.objective_command names a program, and what the folder of a run names is "
                                    "not run: pass it with --set, or add --trust-folder"));
  EXPECT_FALSE(fs::exists(executed()));
  modrun({"search", config, "--trust-folder", "--set", "train.steps=1", "--set", "checkpoint.every=-1"});
  EXPECT_TRUE(fs::exists(executed()));
}

TEST_F(TrustFolder, AChatTemplateHasBoundedMemoryAndOutput) {
  folder_.write("runs/run/tokenizer/tokenizer.json",
                R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})");
  const std::vector<std::pair<std::string, std::string>> templates = {
      {"{{ ('a' * 8000000000) | length }}", "the chat template takes more than 4 GiB of memory"},
      {"{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
       "the chat template writes more than 16 Mi characters"},
  };
  for (const auto& [written, problem] : templates) {
    folder_.write("runs/run/tokenizer/chat_template.jinja", written);
    const auto run = on_folder(
        "sample", with(with_tokenizer(), {"--chat", "--prompt", "a", "--set", "sample.python=" PARITY_PYTHON}));
    EXPECT_NE(run.status, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr(problem));
  }
}

TEST_F(TrustFolder, AChatTemplateThatDoesNotEndIsAnError) {
  const fs::path project = fs::path(SEARCH_DOCUMENT).parent_path().parent_path().parent_path();
  const std::string program =
      "import sys; sys.path.insert(0, '" + (project / "runtime/tokenizer").string() +
      "')\n"
      "import chat_template; chat_template.SECONDS = 0.2\n"
      "loops = ''.join('{% for i' + str(n) + ' in range(99999) %}' for n in range(9)) + '{% endfor %}' * 9\n"
      "for source in (loops, '{{ 3 ** (10 ** 9) }}'):\n"  // the second one while it is compiled
      "    try: chat_template.ChatTemplate(source, {}).prompt([])\n"
      "    except ValueError as error: print(error)\n";
  const auto ended = testing::end_of_program(testing::start_program({PARITY_PYTHON, "-c", program}, folder_.path()));
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_THAT(ended.lines, ::testing::ElementsAre("the chat template takes more than 0.2 s: it may never end",
                                                  "the chat template takes more than 0.2 s: it may never end"))
      << ended.output;
}

TEST_F(TrustFolder, AModuleInTheWorkingDirectoryIsNotImported) {
  folder_.write("runs/run/json.py", "open('" + executed().string() + "', 'w')\n");
  const Words sample = with({"sample", "."}, with(with_tokenizer(), {"--prompt", "a"}));
  const fs::path before = fs::current_path();
  fs::current_path(run_folder("run"));
  const auto run = modrun(sample);
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(executed())) << run.output;
}

}  // namespace
}  // namespace modular
