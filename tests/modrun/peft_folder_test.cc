// Folders of PEFT as weights: computed with, merged, imported, trained and written back as PEFT computes and trains
// them, and what cannot be read said by its key.
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

/// The cases of peft_folders.py, written once.
class PeftFolder : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    written_ = new TemporaryFolder();
    python("write", {});
  }
  static void TearDownTestSuite() { delete written_; }

  static fs::path folder(const std::string& name) { return written_->path() / name; }

  static void python(const std::string& what, const Words& cases) {
    std::string command = PARITY_PYTHON " " PEFT_FOLDERS " " + what + " '" + written_->path().string() + "'";
    for (const std::string& name : cases) command += " " + name;
    const fs::path log = written_->path() / "python.log";
    EXPECT_EQ(std::system((command + " > " + log.string() + " 2>&1").c_str()), 0) << text_of(log);
  }

  static std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static void expect_done(const Words& arguments) {
    const Finished done = modrun(arguments);
    EXPECT_EQ(done.status, 0) << done.output;
  }

  /// Two steps of gradient descent on all examples of the case, from its adapter or what `weights` says.
  static Words training(const std::string& name, const Words& settings = {}) {
    const fs::path place = folder(name);
    Words words = {"train"};
    for (const std::string& setting :
         with({"train.dir=" + (place / "run").string(), "model.checkpoint=" + (place / "adapter").string(),
               "data.format=examples", "data.paths=['" + (place / "examples").string() + "']", "eval.samples=0",
               "train.batch_size=6", "train.steps=2", "optim.name=sgd", "optim.momentum=0", "optim.lr=0.2",
               "optim.schedule=constant", "optim.warmup_steps=0", "optim.weight_decay=0", "optim.max_grad_norm=0"},
              settings))
      words.insert(words.end(), {"--set", setting});
    return words;
  }

  /// What modrun says of the adapter "llama" with another value in adapter_config.json.
  static std::string message_with(const std::string& key, const nlohmann::json& value) {
    const fs::path changed = folder("changed");
    fs::remove_all(changed);
    fs::copy(folder("llama") / "adapter", changed);
    auto config = nlohmann::json::parse(text_of(changed / "adapter_config.json"));
    config[key] = value;
    std::ofstream(changed / "adapter_config.json") << config;
    const Finished run = modrun({"import", changed.string(), folder("imported").string()});
    EXPECT_NE(run.status, 0) << key;
    EXPECT_FALSE(fs::exists(folder("imported"))) << key;
    return run.output;
  }

  inline static TemporaryFolder* written_ = nullptr;
};

TEST_F(PeftFolder, IsComputedMergedAndTrainedAsInPeft) {
  const std::map<std::string, Words> meshes = {
      {"llama", {"parallel.tp=2"}}, {"bert", {}}, {"gpt2", {"parallel.dp_shard=2"}}, {"t5", {}}};
  Words names;
  for (const char* name : {"llama", "layers", "pattern", "bert", "roberta", "gpt2", "t5"}) {
    names.emplace_back(name);
    const fs::path place = folder(name), adapter = place / "adapter";
    expect_done({"forward", "--checkpoint", adapter.string(), "--inputs", (place / "examples/a.safetensors").string(),
                 "--outputs", (place / "outputs.safetensors").string()});
    expect_done({"export", adapter.string(), (place / "merged").string()});
    if (!meshes.contains(name)) continue;
    const Words& mesh = meshes.at(name);
    expect_done(with(mesh.empty() ? Words{} : Words{"--nproc-per-node", "2"}, training(name, mesh)));
    expect_done({"export", (place / "run/checkpoints").string(), (place / "trained").string(), "--adapter", "--base",
                 (place / "base").string()});
  }
  python("check", names);
}

TEST_F(PeftFolder, GoesOnWithoutTheFolderAndMergesLikeItsCheckpoint) {
  const fs::path place = folder("pattern"), adapter = place / "adapter";
  expect_done(training("pattern", {"train.steps=1"}));
  expect_done({"import", adapter.string(), (place / "imported").string()});
  expect_done({"export", (place / "imported").string(), (place / "from-import").string()});
  expect_done({"export", adapter.string(), (place / "from-adapter").string()});
  EXPECT_EQ(text_of(place / "from-import/model.safetensors"), text_of(place / "from-adapter/model.safetensors"));
  EXPECT_EQ(text_of(place / "from-import/config.json"), text_of(place / "from-adapter/config.json"));
  fs::rename(adapter, place / "away");
  expect_done({"train", (place / "run").string(), "--resume", "--set", "train.steps=2"});
  expect_done({"export", (place / "run/checkpoints").string(), (place / "trained").string(), "--adapter", "--base",
               (place / "base").string()});
  fs::rename(place / "away", adapter);
  expect_done({"predict", "--checkpoint", adapter.string(), "--inputs", (place / "examples/a.safetensors").string(),
               "--outputs", (place / "predicted.safetensors").string()});
  expect_done({"sample", "--checkpoint", (folder("gpt2") / "adapter").string(), "--prompt", "a", "--set",
               "sample.tokens=4", "--set", "train.seq_len=16"});
}

TEST_F(PeftFolder, FindsItsBaseWhereTheUserSays) {
  const fs::path place = folder("layers"), lost = folder("lost"), outputs = folder("outputs.safetensors");
  fs::copy(place / "adapter", lost);
  auto config = nlohmann::json::parse(text_of(lost / "adapter_config.json"));
  config["base_model_name_or_path"] = "someone/llama";
  std::ofstream(lost / "adapter_config.json") << config;
  const Words forward = {
      "forward",   "--checkpoint",  lost.string(), "--inputs", (place / "examples/a.safetensors").string(),
      "--outputs", outputs.string()};
  const Finished run = modrun(forward);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("\"base_model_name_or_path\" is \"someone/llama\", which is no folder on this "
                                    "machine: download that model and name its folder with --set model.base=FOLDER"));
  expect_done(with(forward, {"--set", "model.base=" + (place / "base").string()}));
  const SafetensorsFile expected(place / "expected.safetensors"), found(outputs);
  EXPECT_TRUE(at::allclose(found.tensor("logits"), expected.tensor("logits"), 1e-4, 1e-5));
  expect_done({"export", lost.string(), folder("lost-merged").string(), "--base", (place / "base").string()});
  expect_done({"import", lost.string(), folder("lost-imported").string(), "--base", (place / "base").string()});
}

TEST_F(PeftFolder, WhatNoModelHereIsNamesItsKey) {
  const std::vector<std::pair<std::string, nlohmann::json>> changes = {
      {"peft_type", "LOHA"},
      {"use_dora", true},
      {"bias", "all"},
      {"init_lora_weights", "pissa"},
      {"task_type", "QUESTION_ANS"},
      {"layer_replication", {{0, 1}}},
      {"trainable_token_indices", {1, 2}},
      {"target_parameters", {"experts.weight"}},
      {"lora_bias", true},
      {"a_key_of_tomorrow", "on"},
      {"alpha_pattern", {{"layers.0.self_attn.q_proj", 9}}},
      {"alpha_pattern", {{"(a+)+", 9}}},
      {"lora_alpha", "many"},
      {"lora_dropout", 1},
      {"modules_to_save", 3},
      {"use_rslora", "yes"},
      {"base_model_name_or_path", 7}};
  for (const auto& [key, value] : changes)
    EXPECT_THAT(message_with(key, value), HasSubstr("adapter_config.json: \"" + key + "\"")) << value;
}

}  // namespace
}  // namespace modular
