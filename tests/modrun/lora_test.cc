// Low-rank adapters: the only trained parameters, identical on every mesh, resumed bit-identically, and exported in
// PEFT's format and merged.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Lora : public ModrunTest {
 protected:
  /// A briefly trained model as a Hugging Face folder: the base of adapters.
  fs::path base(const std::string& name, const Words& settings = {}) const {
    const auto run = train(name, set(with({"eval.samples=0"}, settings)));
    EXPECT_EQ(run.status, 0) << run.output;
    const fs::path folder = folder_.path() / (name + "-exported");
    const auto exported = modrun({"export", (run_folder(name) / "checkpoints").string(), folder.string()});
    EXPECT_EQ(exported.status, 0) << exported.output;
    return folder;
  }

  Finished adapt(const std::string& name, const fs::path& base, const Words& settings, int ranks = 1) const {
    const Words own = {"model.entry=LlamaForCausalLM",
                       "model.entry=LlamaForCausalLM",
                       "model.checkpoint=" + base.string(),
                       "lora.layers=['q_proj', 'v_proj', 'mlp']",
                       "lora.rank=3",
                       "train.batch_size=12",
                       "train.steps=6",
                       "optim.lr=1e-2"};
    return train(name, set(with(own, settings)), {"--nproc-per-node", std::to_string(ranks)});
  }

  fs::path checkpoints(const std::string& name) const { return run_folder(name) / "checkpoints"; }

  void expect_alike(const std::string& name, const std::vector<double>& losses_alone) const {
    const std::vector<double> found = losses(name);
    ASSERT_EQ(found.size(), losses_alone.size()) << name;
    for (size_t step = 0; step < found.size(); ++step)
      EXPECT_NEAR(found[step], losses_alone[step], 1e-5 * losses_alone[step]) << name << ", step " << step;
  }

  /// Adapts `entry` from `weights` for six steps of gradient descent on `labels` of texts, each step on all of them,
  /// and repeats the last four in PEFT.
  void expect_as_in_peft(const fs::path& weights, const char* entry, const at::Tensor& ids, const at::Tensor& labels,
                         const Words& settings, const Words& mesh, int ranks) const {
    const fs::path examples = folder_.path() / "adapted/a.safetensors";
    fs::create_directories(examples.parent_path());
    write_safetensors(examples, {{"input_ids", ids}, {"labels", labels}});
    const Words descent =
        with({"model.entry=" + std::string(entry), "data.format=examples",
              "data.paths=['" + examples.parent_path().string() + "']", "data.validation_every=0", "eval.samples=0",
              "train.batch_size=6", "optim.name=sgd", "optim.momentum=0", "optim.lr=0.5", "optim.schedule=constant",
              "optim.warmup_steps=0", "optim.weight_decay=0", "optim.max_grad_norm=0", "lora.alpha=5"},
             settings);
    const auto two = adapt("two", weights, with(with(descent, mesh), {"train.steps=2"}), ranks);
    ASSERT_EQ(two.status, 0) << two.output;
    const auto six = adapt("six", weights, descent);
    ASSERT_EQ(six.status, 0) << six.output;
    const auto exported = [&](const std::string& run, const std::string& name, const Words& options) {
      const fs::path folder = folder_.path() / name;
      const auto made = modrun(with({"export", checkpoints(run).string(), folder.string()}, options));
      EXPECT_EQ(made.status, 0) << made.output;
      return folder.string();
    };
    const Words adapter = {"--adapter", "--base", weights.string()};
    std::string command = PARITY_PYTHON " " PEFT_CHECK;
    for (const std::string& argument :
         {weights.string(), exported("two", "after-two", adapter), exported("six", "after-six", adapter),
          exported("six", "merged", {}), examples.string(), std::string("0.5"), std::string("4")})
      command += " '" + argument + "'";
    EXPECT_EQ(std::system((command + " 2> " + (folder_.path() / "peft.log").string()).c_str()), 0)
        << get_bytes(folder_.path() / "peft.log");
  }

  std::string error(const Words& settings) const {
    const auto run = train("rejected", set(settings));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  }
};

// With dropout of the adapters' inputs, and one head of keys and values shared by both tp ranks.
TEST_F(Lora, TrainsIdenticallyOnEveryMesh) {
  const fs::path weights = base("first", {"model.config.num_key_value_heads=1"});
  const Words settings = {"lora.dropout=0.2", "lora.layers=['all-linear']"};
  ASSERT_EQ(adapt("alone", weights, settings).status, 0);
  const std::vector<double> alone = losses("alone");
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_LT(alone.back(), alone.front());
  const std::vector<std::pair<Words, int>> meshes = {
      {{"train.micro_batches=3", "parallel.recompute=full"}, 1},
      {{"parallel.tp=2"}, 2},
      {{"parallel.dp_shard=3"}, 3},
      {{"parallel.dp_replicate=2", "parallel.pp=2", "train.micro_batches=2"}, 4},
      {{"parallel.pp=2", "parallel.tp=2"}, 4},
      {{"parallel.dp_shard=2", "parallel.zero_stage=1", "parallel.offload=['optimizer']"}, 2}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    const std::string name = "mesh" + std::to_string(i);
    const auto run = adapt(name, weights, with(settings, meshes[i].first), meshes[i].second);
    ASSERT_EQ(run.status, 0) << run.output;
    expect_alike(name, alone);
  }
}

TEST_F(Lora, KeepsTheBaseWeightsBitIdentical) {
  const fs::path weights = base("first");
  ASSERT_EQ(adapt("adapted", weights, {"optim.weight_decay=0.5"}).status, 0);
  const SafetensorsFile before(weights / "model.safetensors"),
      after(checkpoints("adapted") / "step-00000006/rank-00000.safetensors");
  int kept = 0, adapters = 0;
  for (const auto& [name, header] : after.tensors()) {
    if (name.starts_with("model.") && name.ends_with(".lora_B.weight")) {
      ++adapters;
      EXPECT_GT(after.tensor(name).abs().max().item<float>(), 0.0F) << name;
    }
    if (!before.tensors().contains(name)) continue;
    ++kept;
    EXPECT_TRUE(after.tensor(name).equal(before.tensor(name))) << name;
  }
  EXPECT_EQ(kept, static_cast<int>(before.tensors().size()));
  EXPECT_EQ(adapters, 2 * 5);  // of five layers in each of two blocks
}

TEST_F(Lora, ResumesBitIdenticallyWithoutItsBase) {
  const fs::path weights = base("first");
  const Words settings = {"lora.dropout=0.1", "parallel.dp_shard=3", "optim.schedule=constant"};
  ASSERT_EQ(adapt("whole", weights, settings, 3).status, 0);
  ASSERT_EQ(adapt("half", weights, with(settings, {"train.steps=3"}), 3).status, 0);
  fs::remove_all(weights);
  const auto run =
      modrun({"--nproc-per-node", "3", "train", run_folder("half").string(), "--resume", "--set", "train.steps=6"});
  ASSERT_EQ(run.status, 0) << run.output;
  expect_same_checkpoint("whole", "half", "step-00000006");
  // A new run that starts from the adapters, unchanged.
  const auto further =
      train("further",
            set({"model.entry=LlamaForCausalLM", "model.checkpoint=" + checkpoints("half").string(), "train.steps=1"}));
  ASSERT_EQ(further.status, 0) << further.output;
  EXPECT_THAT(get_bytes(run_folder("further") / "config.toml"),
              HasSubstr("layers = [\"q_proj\", \"v_proj\", \"mlp\"]"));
  const auto other =
      train("other", set({"model.entry=LlamaForCausalLM", "model.checkpoint=" + checkpoints("half").string(),
                          "lora.layers=['q_proj']"}));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(
      other.output,
      HasSubstr(
          "lora.layers is [\"q_proj\"], and [\"q_proj\", \"v_proj\", \"mlp\"] of the adapters in model.checkpoint"));
}

TEST_F(Lora, MatchesPeftForALanguageModel) {
  const fs::path weights = base("first", {"model.config.num_key_value_heads=2"});
  at::manual_seed(1);
  const at::Tensor ids = at::randint(1, 256, {6, 12}, at::kLong);
  expect_as_in_peft(weights, "LlamaForCausalLM", ids, ids, {}, {"parallel.tp=2"}, 2);
}

TEST_F(Lora, MatchesPeftForAClassifierWithItsHead) {
  at::manual_seed(2);
  const at::Tensor ids = at::randint(1, 256, {6, 12}, at::kLong), labels = at::arange(6).remainder(3);
  fs::create_directories(folder_.path() / "first");
  write_safetensors(folder_.path() / "first/a.safetensors", {{"input_ids", ids}, {"labels", labels}});
  const fs::path weights =
      base("first", {"model.entry=LlamaForSequenceClassification", "model.config.num_labels=3",
                     "model.config.pad_token_id=0", "data.format=examples", "train.batch_size=6",
                     "data.paths=['" + (folder_.path() / "first").string() + "']", "data.validation_every=0"});
  expect_as_in_peft(weights, "LlamaForSequenceClassification", ids, labels, {"lora.trained=['score']"},
                    {"parallel.dp_shard=3"}, 3);
  fs::remove_all(run_folder("two")), fs::remove_all(run_folder("six"));
  for (const char* name : {"after-two", "after-six", "merged"}) fs::remove_all(folder_.path() / name);
  expect_as_in_peft(weights, "LlamaForSequenceClassification", ids, labels, {}, {}, 1);  // with its original head
}

TEST_F(Lora, MatchesPeftForTransposedWeights) {
  folder_.write("tiny.toml",
                "[model]\nentry = 'GPT2LMHeadModel'\n"
                "[model.config]\nvocab_size = 256\nn_positions = 32\nn_embd = 32\nn_layer = 2\nn_head = 4\n"
                "resid_pdrop = 0\nembd_pdrop = 0\nattn_pdrop = 0\n"
                "[train]\nsteps = 10\nbatch_size = 8\nseq_len = 32\n[data]\npaths = ['" +
                    (folder_.path() / "data").string() + "']\n");
  const fs::path weights = base("first");
  at::manual_seed(3);
  const at::Tensor ids = at::randint(1, 256, {6, 12}, at::kLong);
  expect_as_in_peft(weights, "GPT2LMHeadModel", ids, ids, {"lora.layers=['c_attn', 'mlp.c_proj']"},
                    {"parallel.pp=2", "parallel.tp=2"}, 4);
}

TEST_F(Lora, EvaluatesSamplesAndPredictsWithItsAdapters) {
  const fs::path weights = base("first");
  ASSERT_EQ(adapt("adapted", weights, {}).status, 0);
  const auto evaluated = modrun({"eval", run_folder("adapted").string()});
  ASSERT_EQ(evaluated.status, 0) << evaluated.output;
  const fs::path merged = folder_.path() / "merged";
  ASSERT_EQ(modrun({"export", checkpoints("adapted").string(), merged.string()}).status, 0);
  const auto of_merged =
      modrun({"eval", config_.string(), "--checkpoint", merged.string(), "--set", "train.batch_size=12"});
  ASSERT_EQ(of_merged.status, 0) << of_merged.output;
  const auto get_loss = [](const std::string& text) { return std::stod(text.substr(text.find("loss ") + 5)); };
  EXPECT_NEAR(get_loss(evaluated.output), get_loss(of_merged.output), 2e-4);
  const auto plain = modrun({"eval", run_folder("adapted").string(), "--checkpoint", weights.string()});
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.output, HasSubstr("holds no adapters, which lora.layers requires: leave it out"));
}

// As a Hugging Face folder, with the adapters merged into the weights, a checkpoint is that of a model without
// adapters.
TEST_F(Lora, ParametersInFullAreMerged) {
  const fs::path weights = base("first");
  ASSERT_EQ(adapt("adapted", weights, {"checkpoint.form=full"}).status, 0);
  const fs::path whole = folder_.path() / "whole", merged = folder_.path() / "merged";
  fs::create_directories(whole);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy(checkpoints("adapted") / "step-00000006" / file, whole / file);
  ASSERT_EQ(modrun({"export", checkpoints("adapted").string(), merged.string()}).status, 0);
  EXPECT_EQ(get_bytes(whole / "model.safetensors"), get_bytes(merged / "model.safetensors"));
  const auto imported = modrun({"import", whole.string(), (folder_.path() / "imported").string()});
  EXPECT_EQ(imported.status, 0) << imported.output;
}

TEST_F(Lora, RejectsLayersThatCannotBeAdapted) {
  EXPECT_THAT(error({"lora.layers=['q_prj']"}),
              HasSubstr("lora.layers has \"q_prj\", which is not a linear layer of LlamaForCausalLM: its linear layers "
                        "are called down_proj, "
                        "gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj"));
  EXPECT_THAT(error({"lora.layers=['lm_head']", "model.config.tie_word_embeddings=true"}),
              HasSubstr("a layer of LlamaForCausalLM whose weight is tied, model.embed_tokens.weight and "
                        "lm_head.weight"));
  EXPECT_THAT(error({"lora.rank=4"}), HasSubstr("lora.rank is set, and lora.layers names no layers"));
  EXPECT_THAT(error({"lora.layers=['q_proj']", "lora.rank=0"}), HasSubstr("lora.rank"));
  EXPECT_THAT(error({"lora.layers=['q_proj']", "lora.dropout=1"}),
              HasSubstr("lora.dropout is 1: it is a probability, less than 1"));
  EXPECT_THAT(error({"lora.layers=['q_proj']", "lora.trained=['lm_haed']"}),
              HasSubstr("lora.trained: LlamaForCausalLM has no \"lm_haed\": did you mean lm_head?"));
  EXPECT_THAT(
      error({"lora.layers=['q_proj']", "lora.trained=['model.layers']"}),
      HasSubstr("lora.trained has \"model.layers\", which contains model.layers.0.self_attn.q_proj, a layer with "
                "an adapter"));
  EXPECT_THAT(error({"lora.layers=['q_proj']", "optim.frozen=['model.layers']"}),
              HasSubstr("optim.frozen leaves nothing to train"));
  EXPECT_THAT(error({"lora.layers=['q_proj']", "optim.groups=[{match=['lm_head']}]"}),
              HasSubstr("optim.groups has \"lm_head\", which matches no trained parameter"));
  for (const char* alpha : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(error({"lora.layers=['q_proj']", std::string("lora.alpha=") + alpha}), HasSubstr("lora.alpha"));
  const fs::path weights = base("whole", {"train.steps=1"});
  fs::create_directories(folder_.path() / "rows");
  write_safetensors(folder_.path() / "rows/a.safetensors",
                    {{"input_ids", at::ones({8, 4}, at::kLong)}, {"labels", at::arange(8).remainder(2)}});
  EXPECT_THAT(error({"model.entry=LlamaForSequenceClassification", "model.checkpoint=" + weights.string(),
                     "lora.layers=['q_proj']", "data.format=examples", "data.validation_every=0", "eval.samples=0",
                     "data.paths=['" + (folder_.path() / "rows").string() + "']"}),
              HasSubstr("model.checkpoint has no \"score.weight\", and lora.layers trains only adapters"));
  ASSERT_EQ(train("plain", set({"train.steps=1"})).status, 0);
  const auto exported = modrun(
      {"export", checkpoints("plain").string(), (folder_.path() / "none").string(), "--adapter", "--base", "base"});
  EXPECT_NE(exported.status, 0);
  EXPECT_THAT(exported.output, HasSubstr("holds no adapters: leave --adapter out, or train with lora.layers"));
  EXPECT_FALSE(fs::exists(folder_.path() / "none"));
}

}  // namespace
}  // namespace modular
