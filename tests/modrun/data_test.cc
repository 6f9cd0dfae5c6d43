// Data of runs: passes over it, and its validation split.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cmath>

#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Data : public ModrunTest {
 protected:
  /// Number of samples of 32 tokens in the concatenated text of all files, without every `validation_every`-th file.
  int64_t samples(int validation_every) const {
    int64_t bytes = 0;
    for (int file = 0; file < 8; ++file)
      if (validation_every == 0 || (file + 1) % validation_every != 0)
        bytes += static_cast<int64_t>(fs::file_size(folder_.path() / "data" / fmt::format("{}.txt", file)));
    return bytes / 32;
  }

  std::string error(const Words& settings) const {
    const auto run = train("rejected", set(settings));
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(fs::exists(run_folder("rejected")));
    return run.output;
  }

  /// Kills a run after some step and resumes it to its end.
  void kill_and_resume(const std::string& name, const Words& options, int64_t after, const Words& launcher = {}) const {
    const Words words = with({MODRUN}, training(name, options, launcher));
    const auto run = testing::start_program(words, folder_.path());
    testing::await(run,
                   [&] { return fs::exists(run_folder(name) / "checkpoints/latest") && steps_so_far(name) >= after; });
    kill(-run.pid, SIGKILL);
    kill(run.pid, SIGKILL);
    testing::end_of_program(run);
    const auto resumed = train(name, with(options, {"--resume"}), launcher);
    ASSERT_EQ(resumed.status, 0) << resumed.output;
  }
};

TEST_F(Data, EpochsHaveTheSameStepsOnEveryMesh) {
  const int64_t count = samples(4);
  const auto expected = static_cast<int64_t>(std::ceil(1.5 * static_cast<double>(count) / 8));
  const Words options = set({"train.epochs=1.5", "checkpoint.every=0"});
  const auto alone = train("alone", options);
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_THAT(alone.output,
              HasSubstr(fmt::format("train.epochs = 1.5 of {} samples, 8 per step: {} steps", count, expected)));
  const auto all = steps("alone");
  EXPECT_EQ(static_cast<int64_t>(all.size()), expected);
  EXPECT_LT(all.back()["lr"].get<double>(), 0.01 * 3e-3) << "the schedule ends with the last step";

  const auto split = train("split", with(options, set({"train.batch_size_per_rank=4"})), {"--nproc-per-node", "2"});
  ASSERT_EQ(split.status, 0) << split.output;
  const auto other = steps("split");
  ASSERT_EQ(other.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(other[i]["loss"].get<double>(), all[i]["loss"].get<double>(), 1e-3);
}

TEST_F(Data, ResumedEpochsCountSamples) {
  const int64_t count = samples(4);
  const auto steps_for = [&](double epochs, int64_t batch) {
    return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(count) / static_cast<double>(batch)));
  };
  ASSERT_EQ(train("run", set({"train.epochs=0.5"})).status, 0);
  const auto longer = modrun({"train", run_folder("run").string(), "--resume", "--set", "train.epochs=1"});
  ASSERT_EQ(longer.status, 0) << longer.output;
  EXPECT_THAT(longer.output,
              HasSubstr(fmt::format("--resume: train.steps was {} by train.epochs = 0.5 and is {} by train.epochs = 1",
                                    steps_for(0.5, 8), steps_for(1, 8))));
  EXPECT_EQ(static_cast<int64_t>(steps("run").size()), steps_for(1, 8));
  const auto ended = modrun({"train", run_folder("run").string(), "--resume"});
  EXPECT_THAT(ended.output, HasSubstr("raise train.epochs to continue"));

  // Steps of another size count by their samples.
  ASSERT_EQ(train("run", set({"train.epochs=1.5", "train.batch_size=16"}), {}).status, 2) << "holds a run";
  const auto wider = train("run", with({"--resume"}, set({"train.epochs=1.5", "train.batch_size=16"})));
  ASSERT_EQ(wider.status, 0) << wider.output;
  const int64_t seen = 8 * steps_for(1, 8);
  const auto left = static_cast<int64_t>(std::ceil(1.5 * static_cast<double>(count))) - seen;
  EXPECT_EQ(static_cast<int64_t>(steps("run").size()), steps_for(1, 8) + (left + 15) / 16);
  EXPECT_EQ(steps("run").back()["samples"], seen + (left + 15) / 16 * 16);
}

TEST_F(Data, KilledRunOfEpochsResumesBitIdentically) {
  const Words options =
      set({"train.epochs=0.6", "checkpoint.every=5", "data.validation_every=0", "data.validation_fraction=0.1"});
  ASSERT_EQ(train("whole", options).status, 0);
  kill_and_resume("killed", options, 8);
  expect_same_checkpoint("whole", "killed", fmt::format("step-{:08}", steps("whole").size()));
}

TEST_F(Data, RejectsStepsWithEpochs) {
  EXPECT_THAT(error({"train.steps=10", "train.epochs=2"}),
              HasSubstr("--set train.epochs=2: train.epochs = 2 and train.steps = 10 (--set train.steps=10) both set "
                        "the length of the run: leave one of the two out"));
  EXPECT_THAT(error({"train.epochs=-1"}), HasSubstr("train.epochs must be at least 0"));
  EXPECT_THAT(error({"train.epochs=1e300"}), HasSubstr("overflow the sample count: lower it"));
  EXPECT_THAT(error({"train.epochs=inf"}), HasSubstr("train.epochs must be a finite number"));
  ASSERT_EQ(train("run", set({"train.epochs=0.1"})).status, 0);
  const auto longer = modrun({"train", run_folder("run").string(), "--resume", "--set", "train.steps=30"});
  EXPECT_EQ(longer.status, 0) << longer.output;
  EXPECT_EQ(steps("run").size(), 30u) << "the command line's counts";
}

TEST_F(Data, ValidationFractionTakesTheEndOfOneFile) {
  const int64_t count = samples(0), validation = std::llround(0.1 * static_cast<double>(count));
  std::string all;
  for (int file = 0; file < 8; ++file) all += get_bytes(folder_.path() / "data" / fmt::format("{}.txt", file));
  const std::string one = folder_.write("one.txt", all).string();
  const std::string paths = fmt::format("data.paths=['{}']", one);
  const Words part = set({"data.validation_every=0", paths, "data.validation_fraction=0.1", "eval.samples=0"});
  ASSERT_EQ(train("part", part).status, 0);
  // The same in two files, one of which is selected for validation by name.
  folder_.write("two/a.txt", all.substr(0, static_cast<size_t>(count - validation) * 32));
  folder_.write("two/b.txt", all.substr(static_cast<size_t>(count - validation) * 32));
  const Words files =
      set({"data.validation_every=0", fmt::format("data.paths=['{}']", (folder_.path() / "two").string()),
           "data.validation=['*b.txt']", "eval.samples=0"});
  ASSERT_EQ(train("files", files).status, 0);
  const auto by_part = events("part", "evaluation").at(0), by_files = events("files", "evaluation").at(0);
  EXPECT_EQ(by_part["targets"], validation * 31);
  EXPECT_EQ(by_part["val_loss"], by_files["val_loss"]);
  expect_same_checkpoint("part", "files", "step-00000010");
  const auto eval = modrun({"eval", run_folder("part").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr(fmt::format("over {} tokens", validation * 31)));

  const auto resumed =
      train("part", with(part, {"--resume", "--set", "data.validation_fraction=0.2", "--set", "train.steps=12"}));
  EXPECT_EQ(resumed.status, 2) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("--resume: data.validation_fraction is 0.2, and was 0.1 when the run began: "
                                        "its next samples would come from other data"));
}

TEST_F(Data, RejectsContradictoryValidationOptions) {
  EXPECT_THAT(error({"data.validation_fraction=0.1"}),
              HasSubstr("data.validation_fraction = 0.1 takes the last samples of all files, and data.validation_every "
                        "selects files: leave one of the two out"));
  EXPECT_THAT(error({"data.validation_fraction=1", "data.validation_every=0"}),
              HasSubstr("data.validation_fraction is 1: it is a fraction of the samples, less than 1"));
  const std::string one = folder_.write("one.txt", std::string(40, 'a')).string();
  EXPECT_THAT(error({"data.validation_fraction=0.5", "data.validation_every=0", fmt::format("data.paths=['{}']", one)}),
              HasSubstr("data.validation_fraction: the data is a single sample, which cannot be split"));
}

TEST_F(Data, PackedDocumentsAreIndependentOnEveryMesh) {
  // Each line is a document: the previous one does not help to predict it.
  const Words options = set({"data.pack=true", "data.end_of_text=10", "eval.samples=0"});
  const auto alone = train("alone", options);
  ASSERT_EQ(alone.status, 0) << alone.output;
  for (const Words& mesh :
       {Words{"parallel.dp_shard=2", "train.micro_batches=2"}, Words{"parallel.tp=2"}, Words{"parallel.cp=2"},
        Words{"parallel.pp=2", "train.micro_batches=2", "parallel.recompute=full"}}) {
    const auto run = train("split", with(options, set(mesh)), {"--nproc-per-node", "2"});
    ASSERT_EQ(run.status, 0) << run.output;
    const auto one = steps("alone"), other = steps("split");
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(other.at(i)["loss"].get<double>(), one[i]["loss"].get<double>(), 5e-5) << mesh[0];
    fs::remove_all(run_folder("split"));
  }
  // In each validation row, the first token of a document is not a target.
  int64_t targets = 0;
  std::string text;
  for (const int file : {3, 7}) text += get_bytes(folder_.path() / fmt::format("data/{}.txt", file));
  for (size_t i = 0; i < text.size() / 32 * 32; ++i) targets += i % 32 > 0 && text[i - 1] != '\n' ? 1 : 0;
  EXPECT_EQ(events("alone", "evaluation").at(0)["targets"], targets);

  const auto resumed =
      train("alone", with(options, {"--resume", "--set", "train.steps=12", "--set", "data.end_of_text=11"}));
  EXPECT_EQ(resumed.status, 2) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("--resume: data.end_of_text is 11, and was 10 when the run began"));
  const auto plan = modrun(with({"plan", config_.string(), "--ranks", "2"}, options));
  EXPECT_EQ(plan.status, 0) << plan.output;
}

TEST_F(Data, RejectsPackingWithoutDocuments) {
  EXPECT_THAT(error({"data.end_of_text=10"}), HasSubstr("data.end_of_text is 10, which only data.pack reads"));
  EXPECT_THAT(
      error({"data.pack=true", "data.end_of_text=256"}),
      HasSubstr("data.end_of_text is 256, and model.config.vocab_size 256: set it to the id of the token that"));
  EXPECT_THAT(error({"data.pack=true", "data.format=nanogpt"}),
              HasSubstr("files of nanogpt do not mark where one ends: set data.end_of_text"));
  EXPECT_THAT(error({"data.pack=true", "data.format=examples"}), HasSubstr("data.pack is for texts"));
  folder_.write("tiny.toml", fmt::format("[train]\nsteps = 2\nbatch_size = 8\nseq_len = 32\n[data]\npaths = ['{}']\n",
                                         (folder_.path() / "data").string()));
  const std::string entries = modrun({"entries"}).output;
  int tried = 0;
  for (const std::string entry : {"Mamba2ForCausalLM", "BambaForCausalLM", "JambaForCausalLM"}) {
    if (entries.find(entry) == entries.npos) continue;  // built with other families
    ++tried;
    EXPECT_THAT(error({"data.pack=true", "model.entry=" + entry, "model.config.num_hidden_layers=4"}),
                HasSubstr(entry + "'s states continue from one document of a row into the next"));
  }
  EXPECT_EQ(tried > 0, entries.find("Mamba2") != entries.npos);
}

/// Two sets: lines of text, and random letters, from which less can be learned.
class Sets : public Data {
 protected:
  Sets() {
    std::string letters;
    for (int i = 0; i < 6000; ++i) letters += static_cast<char>('a' + (i * i + i / 7) % 26);
    for (const char* name : {"0", "1", "2"}) folder_.write(fmt::format("letters/{}.txt", name), letters);
    folder_.write("sets.toml",
                  fmt::format("[model]\nentry = 'llama'\n"
                              "[model.config]\nvocab_size = 256\nhidden_size = 32\nintermediate_size = 48\n"
                              "num_hidden_layers = 2\nnum_attention_heads = 4\n"
                              "[train]\nsteps = 12\nbatch_size = 8\nseq_len = 32\n"
                              "[optim]\nlr = 3e-3\n[eval]\nsamples = 8\n"
                              "[data]\nvalidation_every = 3\n"
                              "[data.sets.lines]\npaths = ['{0}/data']\nweight = 3\n"
                              "[data.sets.letters]\npaths = ['{0}/letters']\n",
                              folder_.path().string()));
    config_ = folder_.path() / "sets.toml";
  }

  std::vector<std::string> sampled_sets(const std::string& name) const {
    std::vector<std::string> sets;
    for (const auto& step : steps(name)) sets.push_back(step.at("set"));
    return sets;
  }
};

TEST_F(Sets, EachStepSamplesTheSameSetOnEveryMesh) {
  const auto alone = train("alone");
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_THAT(alone.output,
              HasSubstr("letters with 0.0 M tokens to train on, 0.0 M tokens for validation; lines with"));
  const auto sets = sampled_sets("alone");
  EXPECT_EQ(std::ranges::count(sets, "lines"), 9);
  EXPECT_EQ(std::ranges::count(sets, "letters"), 3);
  for (const auto& [name, settings, ranks] :
       {std::tuple("sharded", Words{"train.micro_batches=2"}, "4"),
        std::tuple("staged", Words{"parallel.pp=2", "train.micro_batches=2"}, "2")}) {
    const auto run = train(name, set(settings), {"--nproc-per-node", ranks});
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(sampled_sets(name), sets);
    const auto one = steps("alone"), other = steps(name);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(other.at(i)["loss"].get<double>(), one[i]["loss"].get<double>(), 5e-5) << name << " step " << i + 1;
  }
  ASSERT_EQ(train("seeded", set({"train.seed=3", "data.sets.letters.weight=3"})).status, 0);
  ASSERT_EQ(train("other", set({"train.seed=4", "data.sets.letters.weight=3"})).status, 0);
  EXPECT_NE(sampled_sets("seeded"), sampled_sets("other"));
}

TEST_F(Sets, EvaluationReportsTheLossOfEachSet) {
  ASSERT_EQ(train("run").status, 0);
  const auto all = events("run", "evaluation").at(0);
  std::vector<double> losses;
  for (const std::string name : {"lines", "letters"}) {
    losses.push_back(all["metrics"].at("val_loss/" + name));
    EXPECT_TRUE(all["metrics"].contains("perplexity/" + name));
  }
  EXPECT_NEAR(all["val_loss"].get<double>(), (losses[0] + losses[1]) / 2, 1e-9) << "of as many targets";
  EXPECT_NEAR(all["metrics"]["perplexity"].get<double>(), std::exp(all["val_loss"].get<double>()), 1e-6);
  EXPECT_GT(std::abs(losses[0] - losses[1]), 0.01);
  // One set alone, with the same validation files.
  const auto letters = modrun(
      {"eval", run_folder("run").string(), "--set", "data.sets.lines.paths=" + (folder_.path() / "letters").string()});
  ASSERT_EQ(letters.status, 0) << letters.output;
  EXPECT_THAT(letters.output, HasSubstr(fmt::format("validation loss {:.6f}", losses[1])));
}

TEST_F(Sets, ARunThatWasKilledGoesOnToTheBit) {
  const Words options = set({"train.steps=60", "checkpoint.every=7"});
  ASSERT_EQ(train("whole", options).status, 0);
  kill_and_resume("killed", options, 20);
  EXPECT_EQ(sampled_sets("killed"), sampled_sets("whole"));
  expect_same_checkpoint("whole", "killed", "step-00000060");
}

TEST_F(Sets, RejectsInvalidSets) {
  EXPECT_THAT(error({"data.sets.lines.weights=2"}),
              HasSubstr("unknown key data.sets.lines.weights: did you mean weight?"));
  for (const char* weight : {"0", "-1", "inf", "nan"})
    EXPECT_THAT(error({fmt::format("data.sets.lines.weight={}", weight)}),
                HasSubstr("data.sets.lines.weight must be a finite number above 0, but is"));
  EXPECT_THAT(error({"data.sets.more.weight=2"}), HasSubstr("data.sets.more has no paths: name files"));
  EXPECT_THAT(error({"data.sets={more={}}"}), HasSubstr("data.sets.more has no paths: name files"));
  EXPECT_THAT(error({"data.sets=3"}), HasSubstr("data.sets must be a table of sets"));
  EXPECT_THAT(error({"data.sets.lines=3"}),
              HasSubstr("data.sets.lines must be a table of paths, weight, format and loss"));
  EXPECT_THAT(error({"data.sets.lines.paths=3"}), HasSubstr("data.sets.lines.paths must be an array"));
  EXPECT_THAT(error({"data.sets.more.format=word", "data.sets.more.paths=x"}),
              HasSubstr("data.sets.more: data.format is \"word\""));
  EXPECT_THAT(error({"data.sets.lines.format=examples"}), HasSubstr("mixes sets of examples with other formats"));
  EXPECT_THAT(error({"data.paths=['x']"}), HasSubstr("data.sets and data.paths both name data"));
  const auto short_one = folder_.write("short.txt", "few").string();
  EXPECT_THAT(error({"data.sets.more.paths=" + short_one}),
              HasSubstr("data.sets.more: the data has 3 tokens, less than one sample"));
  EXPECT_THAT(error({"data.sets.more.paths=" + (folder_.path() / "data/2.txt").string()}),
              HasSubstr("2.txt: data.sets.more trains on it and data.sets.lines validates on it"));

  ASSERT_EQ(train("run").status, 0);
  const auto other = train("run", {"--resume", "--set", "train.steps=14", "--set", "data.sets.lines.weight=1"});
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("--resume: data.sets is"));
  const auto again = modrun({"train", run_folder("run").string(), "--resume", "--set", "train.steps=14"});
  EXPECT_EQ(again.status, 0) << again.output;
}

}  // namespace
}  // namespace modular
