// Training runs in real processes: their files, resuming, and independence of the mesh.
#include <gmock/gmock.h>

#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/train/folder_lock.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using testing::HasSubstr;

class Train : public ModrunTest {
 protected:
  /// Copies a finished run of 10 steps in its state after step 5.
  void copy_at_step_5(const std::string& from, const std::string& to) const {
    std::filesystem::copy(run_folder(from), run_folder(to), std::filesystem::copy_options::recursive);
    std::filesystem::remove_all(run_folder(to) / "checkpoints/step-00000010");
    std::ofstream(run_folder(to) / "checkpoints/latest") << "step-00000005\n";
  }

  void expect_same_losses(const std::string& one, const std::string& other, size_t from = 0) const {
    const auto expected = steps(one), found = steps(other);
    ASSERT_EQ(found.size(), 10u);
    for (size_t i = from; i < 10; ++i) {
      EXPECT_NEAR(found[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 5e-5) << "step " << i + 1;
      const auto norm = expected[i]["grad_norm"].get<double>();
      EXPECT_NEAR(found[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << "step " << i + 1;
    }
  }

  /// Sets a tensor of a safetensors file to NaN.
  static void spoil(const std::filesystem::path& path, const std::string& name) {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    const SafetensorsFile file(path);
    for (const auto& [key, header] : file.tensors()) {
      tensors.emplace_back(key, file.tensor(key).clone());
      if (key == name) tensors.back().second.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    write_safetensors(path.string() + ".new", tensors, file.metadata());
    std::filesystem::rename(path.string() + ".new", path);
  }
};

TEST_F(Train, WritesMetricsConfigAndCheckpoint) {
  const auto run = train("run", {"--set", "sample.prompt=line", "--set", "sample.tokens=8"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("validation loss"));
  EXPECT_THAT(run.output, HasSubstr("step 10/10"));
  const auto metrics = steps("run");
  ASSERT_EQ(metrics.size(), 10u);
  EXPECT_NEAR(metrics[0]["loss"].get<double>(), 5.55, 0.1) << "ln 256";
  EXPECT_LT(metrics[9]["loss"].get<double>(), metrics[0]["loss"].get<double>());
  EXPECT_EQ(metrics[9]["samples"], 80);
  EXPECT_DOUBLE_EQ(metrics[0]["lr"].get<double>(), 1.5e-3);
  for (const char* file :
       {"config.toml", "data.manifest", "checkpoints/latest", "checkpoints/step-00000010/config.json"})
    EXPECT_TRUE(std::filesystem::exists(run_folder("run") / file)) << file;

  const auto eval = modrun({"eval", run_folder("run").string()});
  EXPECT_EQ(eval.status, 0) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr("validation loss"));
  const auto sample = modrun({"sample", run_folder("run").string(), "--prompt", "line 1", "--set", "sample.tokens=4"});
  EXPECT_EQ(sample.status, 0) << sample.output;
  EXPECT_THAT(sample.output, testing::StartsWith("line 1"));
}

TEST_F(Train, DoesNotOverwriteARunUnasked) {
  ASSERT_EQ(train("run").status, 0);
  const auto again = train("run", {}, {"--nproc-per-node", "2"});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.output, HasSubstr("already holds a run: add --resume"));
  EXPECT_EQ(train("run", {"--overwrite"}).status, 0);
  std::filesystem::remove_all(run_folder("run") / "checkpoints");
  const auto unsaved = train("run");
  EXPECT_EQ(unsaved.status, 2);
  EXPECT_THAT(unsaved.output, HasSubstr("already holds a run that saved no checkpoint: add --overwrite"));
}

TEST_F(Train, DoesNotRemoveCheckpointsUnasked) {
  ASSERT_EQ(train("run").status, 0);
  for (const char* file : {"metrics.jsonl", "config.toml", "data.manifest"})
    std::filesystem::remove(run_folder("run") / file);
  const auto weights = run_folder("run") / "checkpoints/step-00000010";
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--set", "model.checkpoint=" + weights.string()}}) {
    const auto again = train("run", options);
    EXPECT_EQ(again.status, 2) << again.output;
    EXPECT_THAT(again.output, HasSubstr("already holds a run: add --resume"));
    EXPECT_TRUE(std::filesystem::exists(weights / "checkpoint.json"));
  }
}

TEST_F(Train, CopiedRunFolderIsARunOfItsOwn) {
  ASSERT_EQ(train("run", {"--set", "train.steps=4"}).status, 0);
  std::filesystem::copy(run_folder("run"), run_folder("copy"), std::filesystem::copy_options::recursive);
  const std::string before = get_bytes(run_folder("run") / "metrics.jsonl");
  for (const auto& copy : {run_folder("copy"), run_folder("copy") / "config.toml"}) {
    const auto again = modrun({"train", copy.string(), "--overwrite", "--set", "train.steps=6"});
    ASSERT_EQ(again.status, 0) << again.output;
    EXPECT_EQ(steps("copy").size(), 6u);
  }
  EXPECT_EQ(get_bytes(run_folder("run") / "metrics.jsonl"), before);
  EXPECT_TRUE(std::filesystem::exists(run_folder("run") / "checkpoints/step-00000004"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("run") / "checkpoints/step-00000006"));
}

TEST_F(Train, RejectsTheFolderOfARunInProgress) {
  ASSERT_EQ(train("run").status, 0);
  const std::string before = get_bytes(run_folder("run") / "metrics.jsonl");
  const FolderLock other(run_folder("run"));
  for (const char* option : {"--resume", "--overwrite"}) {
    const auto again = train("run", {option, "--set", "train.steps=12"});
    EXPECT_NE(again.status, 0) << again.output;
    EXPECT_THAT(again.output, HasSubstr("is in use by process " + std::to_string(getpid())));
  }
  EXPECT_EQ(get_bytes(run_folder("run") / "metrics.jsonl"), before);
}

TEST_F(Train, TwoRunsOfASeedWriteTheSameBytes) {
  for (const char* name : {"one", "other"}) ASSERT_EQ(train(name).status, 0);
  expect_same_checkpoint("one", "other", "step-00000010");
}

TEST_F(Train, RejectsOptionsThatChangeTheDataOnResuming) {
  ASSERT_EQ(train("run").status, 0);
  for (const std::string setting : {"train.seq_len=16", "train.seed=2", "data.validation_every=3"}) {
    const auto resumed = train("run", {"--resume", "--set", "train.steps=12", "--set", setting});
    EXPECT_EQ(resumed.status, 2) << resumed.output;
    EXPECT_THAT(resumed.output, HasSubstr("--resume: " + setting.substr(0, setting.find('=')) + " is"));
  }
  const auto resumed = train("run", {"--resume", "--set", "train.steps=12", "--set", "optim.lr=1e-3"});
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_EQ(resumed.output.find("train.batch_size was"), resumed.output.npos) << resumed.output;
}

TEST_F(Train, RejectsAModelBeyondTheMachinesMemory) {
  const auto rejected =
      train("run", {"--set", "model.config.hidden_size=65536", "--set", "model.config.num_hidden_layers=100"},
            {"--nproc-per-node", "2"});
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("LlamaForCausalLM is too large"));
  EXPECT_THAT(rejected.output, HasSubstr("on the 2 ranks of this machine, which has"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("run")));
}

TEST_F(Train, ReportsAChangedBatchSize) {
  ASSERT_EQ(train("run").status, 0);
  const auto resumed = train("run", {"--resume", "--set", "train.steps=12", "--set", "train.batch_size=4"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("train.batch_size was 8 and is 4: the run continues at the same sample"));
  EXPECT_EQ(steps("run").back().at("samples"), 88);
}

TEST_F(Train, FrozenParametersDoNotChangeOnAnyMesh) {
  const std::vector<std::string> options = {"--set", "optim.frozen=['model.embed_tokens', 'model.layers.0']", "--set",
                                            "checkpoint.every=5"};
  ASSERT_EQ(train("alone", options).status, 0);
  const auto weights = [&](const std::string& step, const std::string& name) {
    const SafetensorsFile file(run_folder("alone") / "checkpoints" / step / "rank-00000.safetensors");
    EXPECT_EQ(file.tensors().contains("optimizer.exp_avg." + name), !name.starts_with("model.layers.0"));
    return file.tensor(name).clone();
  };
  for (const auto& [name, is_frozen] :
       {std::pair("model.layers.0.mlp.up_proj.weight", true), std::pair("model.layers.1.mlp.up_proj.weight", false)})
    EXPECT_EQ(weights("step-00000005", name).equal(weights("step-00000010", name)), is_frozen) << name;
  for (const auto& [name, settings] :
       {std::pair("sharded", std::vector<std::string>{}),
        std::pair("replicated", std::vector<std::string>{"parallel.dp_replicate=2"}),
        std::pair("staged", std::vector<std::string>{"parallel.pp=2", "train.micro_batches=2"}),
        std::pair("recomputed", std::vector<std::string>{"parallel.recompute=true", "parallel.zero_stage=1"})}) {
    std::vector<std::string> more = options;
    for (const std::string& setting : settings) more.insert(more.end(), {"--set", setting});
    const auto run = train(name, more, {"--nproc-per-node", "2"});
    ASSERT_EQ(run.status, 0) << run.output;
    expect_same_losses("alone", name);
  }
  for (const auto& [setting, answer] :
       {std::pair("optim.frozen=['model.embed']",
                  "has no \"model.embed\"; its parameters are called model.embed_tokens"),
        std::pair("optim.frozen=['model', 'lm_head']", "leaves nothing to train")}) {
    const auto rejected = train("rejected", {"--set", setting});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_THAT(rejected.output, HasSubstr(answer));
  }
}

TEST_F(Train, ReportsThatMoreStepsChangeTheSchedule) {
  ASSERT_EQ(train("run").status, 0);
  const auto longer = train("run", {"--resume", "--set", "train.steps=12"});
  ASSERT_EQ(longer.status, 0) << longer.output;
  EXPECT_THAT(longer.output, HasSubstr("train.steps was 10 and is 12: optim.lr now follows the cosine schedule"));
  const auto finished = train("run", {"--resume", "--set", "train.steps=12"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("nothing is left to train: the run is at step 12 of 12"));
  EXPECT_EQ(finished.output.find("first step"), std::string::npos) << finished.output;
}

TEST_F(Train, BlamesNonFiniteWeightsInsteadOfTheLearningRate) {
  ASSERT_EQ(train("run").status, 0);
  const std::string weights = (run_folder("run") / "checkpoints").string();
  const auto spoiled = folder_.path() / "spoiled";
  ASSERT_EQ(modrun({"export", weights, spoiled.string()}).status, 0);
  spoil(spoiled / "model.safetensors", "model.norm.weight");
  const auto blamed = train("blamed", {"--set", "model.checkpoint=" + spoiled.string()});
  EXPECT_EQ(blamed.status, 1);
  EXPECT_THAT(blamed.output, HasSubstr("weights are not finite; start from others"));
  const auto eval = modrun({"eval", run_folder("run").string(), "--checkpoint", spoiled.string()});
  EXPECT_EQ(eval.status, 1) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr("the validation loss is nan"));
}

TEST_F(Train, NonFiniteStepEndsTheRunOrIsSkipped) {
  // A rate at which a Llama diverges at once.
  const std::vector<std::string> wild = {"--set", "optim.lr=1e30", "--set", "optim.warmup_steps=0"};
  const auto stopped = train("stopped", wild);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.output, HasSubstr("step 2: the loss is"));
  EXPECT_THAT(stopped.output, HasSubstr("lower optim.lr"));
  auto skipping = wild;
  skipping.insert(skipping.end(),
                  {"--set", "train.on_nonfinite=skip", "--set", "eval.samples=0", "--set", "data.validation_every=0"});
  const auto skipped = train("skipped", skipping);
  EXPECT_EQ(skipped.status, 1) << skipped.output;
  EXPECT_THAT(skipped.output, HasSubstr("step 2 is skipped"));
  EXPECT_THAT(skipped.output, HasSubstr("9 of 10 steps were skipped"));
  EXPECT_EQ(steps("skipped").size(), 10U) << "to the end";
  EXPECT_TRUE(std::filesystem::exists(run_folder("skipped") / "checkpoints/step-00000010")) << "it is kept";
  skipping.emplace_back("--resume");
  EXPECT_EQ(train("skipped", skipping).status, 1) << "nothing is left to train";
}

TEST_F(Train, RunFailsIfMoreThanHalfOfAllStepsAreSkipped) {
  const auto run = [&](const std::string& name, int until, const std::string& rate, bool resumes) {
    std::vector<std::string> words =
        set({"optim.lr=" + rate, "train.steps=" + std::to_string(until), "optim.warmup_steps=0",
             "optim.schedule=constant", "eval.samples=0", "train.on_nonfinite=skip", "data.validation_every=0"});
    if (resumes) words.emplace_back("--resume");
    return train(name, words);
  };
  EXPECT_EQ(run("two", 2, "1e30", false).status, 0) << "1 of 2";
  EXPECT_EQ(run("three", 3, "1e30", false).status, 1) << "2 of 3";
  const auto fine = run("parts", 4, "1e-3", false);
  EXPECT_EQ(fine.status, 0) << fine.output;
  EXPECT_THAT(fine.output, testing::Not(HasSubstr("skipped")));
  const auto half = run("parts", 10, "1e30", true);  // its first step makes the weights huge
  EXPECT_EQ(half.status, 0) << half.output;
  EXPECT_THAT(half.output, HasSubstr("5 of 10 steps were skipped"));
  const auto more = run("parts", 11, "1e30", true);
  EXPECT_EQ(more.status, 1) << more.output;
  EXPECT_THAT(more.output, HasSubstr("6 of 11 steps were skipped"));
}

TEST_F(Train, RejectsUnknownValuesByName) {
  for (const auto& [setting, answer] :
       {std::pair("optim.schedule=cosin", "it must be one of cosine, linear, constant, wsd, inverse-sqrt"),
        std::pair("optim.schedule=wsd", "optim.decay_steps is 0"),
        std::pair("parallel.zero_stage=4", "must be at most 3"),
        std::pair("train.device=gpu", "it must be one of auto, cpu, cuda"),
        std::pair("train.on_nonfinite=ignore", "it must be one of stop, skip, rollback")}) {
    const auto rejected = train("run", {"--set", setting});
    EXPECT_EQ(rejected.status, 2) << rejected.output;
    EXPECT_THAT(rejected.output, HasSubstr(answer));
  }
}

TEST_F(Train, MessagesShowValuesWithoutControlCharacters) {
  const auto rejected = train("run", {"--set", "tra\x1b[31min.steps=1"});
  EXPECT_EQ(rejected.status, 2);
  EXPECT_THAT(rejected.output,
              testing::AllOf(HasSubstr("unknown key tra?[31min.steps"), testing::Not(HasSubstr("\x1b"))));
  const auto unknown = modrun({"tra\x1b[31min"});
  EXPECT_THAT(unknown.output, testing::AllOf(HasSubstr("\"tra?[31min\""), testing::Not(HasSubstr("\x1b"))));
  const auto failed = train("failed", {"--set", "data.paths=['" + std::string(300, 'x') + "']"});
  EXPECT_THAT(failed.output,
              testing::AllOf(HasSubstr(": File name too long"), testing::Not(HasSubstr("filesystem error"))));
}

TEST_F(Train, FileSizeLimitErrorNamesTheFile) {
  const std::string out = (folder_.path() / "said").string();
  std::string words;
  for (const std::string& word : training("run")) words += " " + word;
  // Through a pipe, which has no limit.
  const std::string command = "(ulimit -f 8; exec " MODRUN + words + ") 2>&1 | cat > " + out;
  const int status = std::system(("bash -o pipefail -c '" + command + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(get_bytes(out), testing::ContainsRegex("checkpoints/.*safetensors cannot be written: File too large"));
}

TEST_F(Train, ResumingOnTheSameMeshIsBitIdentical) {
  struct OnMesh {
    std::string name, ranks;
    std::vector<std::string> settings;
  };
  // Sums of three and more numbers depend on their order.
  for (const OnMesh& mesh :
       {OnMesh{"alone", "1", {}}, OnMesh{"fsdp", "3", {}}, OnMesh{"ddp", "3", {"parallel.dp_replicate=3"}},
        OnMesh{"hsdp", "4", {"parallel.dp_replicate=2", "train.micro_batches=2", "train.batch_size=16"}},
        OnMesh{"tp", "2", {"parallel.tp=2"}}, OnMesh{"pp", "2", {"parallel.pp=2", "train.micro_batches=3"}}}) {
    SCOPED_TRACE(mesh.name);
    const std::string whole = "whole-" + mesh.name, resumed = "resumed-" + mesh.name;
    std::vector<std::string> options = {"--set", "checkpoint.every=5", "--set", "train.batch_size=12"};
    for (const std::string& setting : mesh.settings) options.insert(options.end(), {"--set", setting});
    const std::vector<std::string> launcher = {"--nproc-per-node", mesh.ranks};
    const auto first = train(whole, options, launcher);
    ASSERT_EQ(first.status, 0) << first.output;
    copy_at_step_5(whole, resumed);
    options.push_back("--resume");
    const auto second = train(resumed, options, launcher);
    ASSERT_EQ(second.status, 0) << second.output;

    expect_same_checkpoint(whole, resumed, "step-00000010");
    EXPECT_EQ(steps(whole)[9]["loss"], steps(resumed)[9]["loss"]);
    EXPECT_EQ(steps(resumed).size(), 10u);
  }
}

TEST_F(Train, MeshChangesNothing) {
  ASSERT_EQ(train("alone").status, 0);
  const auto sharded = train("sharded", {}, {"--nproc-per-node", "2"});
  ASSERT_EQ(sharded.status, 0) << sharded.output;
  expect_same_losses("alone", "sharded");
  const auto accumulated = train("accumulated", {"--set", "train.micro_batches=2", "--set", "parallel.dp_replicate=2"},
                                 {"--nproc-per-node", "2"});
  ASSERT_EQ(accumulated.status, 0) << accumulated.output;
  expect_same_losses("alone", "accumulated");
}

TEST_F(Train, TensorAndPipelineParallelRunsMatchAndResumeEachOther) {
  ASSERT_EQ(train("alone").status, 0);
  const std::vector<std::string> two = {"--nproc-per-node", "2"};
  const auto tensor = train("tensor", {"--set", "parallel.tp=2", "--set", "checkpoint.every=5"}, two);
  ASSERT_EQ(tensor.status, 0) << tensor.output;
  EXPECT_THAT(tensor.output, HasSubstr("on tp 2 (cpu)"));
  expect_same_losses("alone", "tensor");

  const std::vector<std::string> pipeline = {"--set", "parallel.pp=2", "--set", "train.micro_batches=4"};
  const auto staged = train("staged", pipeline, two);
  ASSERT_EQ(staged.status, 0) << staged.output;
  EXPECT_THAT(staged.output, HasSubstr("on pp 2 (cpu)"));
  expect_same_losses("alone", "staged");

  copy_at_step_5("tensor", "resumed");
  const auto resumed = train("resumed", {"--resume", "--set", "parallel.pp=2", "--set", "train.micro_batches=4"}, two);
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  expect_same_losses("alone", "resumed", 5);
}

TEST_F(Train, VShapedStagesTrainIdenticallyAndResumeWithoutThem) {
  const std::vector<std::string> deep = {"--set", "model.config.num_hidden_layers=4"};
  ASSERT_EQ(train("alone", deep).status, 0);
  const std::vector<std::string> two = {"--nproc-per-node", "2"};
  auto staged = deep;
  for (const char* setting : {"parallel.pp=2", "parallel.schedule=zbv", "train.micro_batches=4", "checkpoint.every=5"})
    staged.insert(staged.end(), {"--set", setting});
  const auto as_v = train("as_v", staged, two);
  ASSERT_EQ(as_v.status, 0) << as_v.output;
  expect_same_losses("alone", "as_v");

  copy_at_step_5("as_v", "resumed");
  auto resuming = deep;
  resuming.emplace_back("--resume");
  const auto resumed = train("resumed", resuming);
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  expect_same_losses("alone", "resumed", 5);
}

TEST_F(Train, ResumesOnAnotherNumberOfRanks) {
  ASSERT_EQ(train("alone", {"--set", "checkpoint.every=5"}).status, 0);
  copy_at_step_5("alone", "sharded");
  const auto sharded = train("sharded", {"--resume"}, {"--nproc-per-node", "2"});
  ASSERT_EQ(sharded.status, 0) << sharded.output;
  expect_same_losses("alone", "sharded", 5);

  ASSERT_EQ(train("two", {"--set", "checkpoint.every=5"}, {"--nproc-per-node", "2"}).status, 0);
  copy_at_step_5("two", "one");
  const auto one = train("one", {"--resume"});
  ASSERT_EQ(one.status, 0) << one.output;
  expect_same_losses("two", "one", 5);
}

TEST_F(Train, RejectsDataThatChangedSinceTheStart) {
  ASSERT_EQ(train("run", {"--set", "checkpoint.every=5"}).status, 0);
  std::filesystem::resize_file(folder_.path() / "data/2.txt", 100);
  const auto resumed = train("run", {"--resume", "--set", "train.steps=20"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.output, HasSubstr("data/2.txt: has 100 bytes but"));
}

TEST_F(Train, RejectsTruncatedTextByItsManifest) {
  const auto data = folder_.path() / "data";
  const std::string list = "cd '" + data.string() + "' && find . -name '*.txt' -printf '%s %P\\n' > texts.manifest";
  ASSERT_EQ(std::system(list.c_str()), 0);
  const std::vector<std::string> options = {"--set", "data.paths=['" + (data / "texts.manifest").string() + "']"};
  ASSERT_EQ(train("whole", options).status, 0);
  std::filesystem::resize_file(data / "2.txt", 500);
  const auto cut_off = train("cut off", options, {"--nproc-per-node", "2"});
  EXPECT_EQ(cut_off.status, 2);
  EXPECT_THAT(cut_off.output, HasSubstr("data/2.txt: has 500 bytes but"));
  EXPECT_THAT(cut_off.output, HasSubstr("was cut off or changed"));
  EXPECT_FALSE(std::filesystem::exists(run_folder("cut off")));
}

TEST_F(Train, MaskedLanguageModelTrainsIdenticallyOnEveryMeshAndResumed) {
  const std::vector<std::string> options = {
      "--set", "model.entry=BertForMaskedLM", "--set", "model.config.vocab_size=257",
      "--set", "data.mask_token=256",         "--set", "checkpoint.every=5"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = options;
    all.insert(all.end(), more);
    return all;
  };
  const auto alone = train("alone", options);
  ASSERT_EQ(alone.status, 0) << alone.output;
  EXPECT_NEAR(steps("alone")[0]["loss"].get<double>(), 5.55, 0.1) << "ln 257";
  EXPECT_LT(steps("alone")[9]["loss"].get<double>(), steps("alone")[0]["loss"].get<double>());
  const auto split = train("split", with({"--set", "parallel.dp_replicate=2"}), {"--nproc-per-node", "2"});
  ASSERT_EQ(split.status, 0) << split.output;
  expect_same_losses("alone", "split");
  copy_at_step_5("alone", "resumed");
  const auto resumed = train("resumed", with({"--resume"}));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_EQ(steps("alone")[9]["loss"], steps("resumed")[9]["loss"]);
}

TEST_F(Train, RejectsUntrainableDataOrModels) {
  const auto labels = train("run", {"--set", "model.entry=BertForSequenceClassification"});
  EXPECT_EQ(labels.status, 2);
  EXPECT_THAT(labels.output, HasSubstr("needs labelled examples"));
  const std::vector<std::string> masked = {"--set", "model.entry=BertForMaskedLM", "--set",
                                           "model.config.vocab_size=257"};
  const auto no_token = train("run", masked);
  EXPECT_EQ(no_token.status, 2);
  EXPECT_THAT(no_token.output,
              HasSubstr("data.mask_token is -1: set it to the id that replaces a masked token, from 256 to 256"));
  auto with_token = masked;
  with_token.insert(with_token.end(), {"--set", "data.mask_token=256", "--set", "model.config.hidden_dropout_prob=1"});
  const auto dropout = train("run", with_token);
  EXPECT_EQ(dropout.status, 2);
  EXPECT_THAT(dropout.output,
              HasSubstr("model.config.hidden_dropout_prob is 1: a dropout probability is at least 0 and less than 1"));
}

TEST_F(Train, PositionsAfterPaddingsIdEndEarlier) {
  if (modrun({"entries"}).output.find("RobertaForMaskedLM") == std::string::npos)
    GTEST_SKIP() << "built without RoBERTa";
  const auto run = train("run", {"--set", "model.entry=RobertaForMaskedLM", "--set", "model.config.vocab_size=257",
                                 "--set", "model.config.max_position_embeddings=33", "--set", "data.mask_token=256"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("train.seq_len (32) must not exceed model.config.max_position_embeddings (33) less "
                                    "2, as positions start after that of padding"));
}

TEST_F(Train, NonFiniteLossStopsTheRun) {
  const auto run =
      train("run", {"--set", "optim.lr=1e30", "--set", "optim.max_grad_norm=0", "--set", "optim.warmup_steps=0"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.output, HasSubstr("lower optim.lr"));
}

}  // namespace
}  // namespace modular
