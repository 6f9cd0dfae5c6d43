// PEFT folders as initial weights: inference, merging, import, training and export match PEFT; errors for unsupported
// folders name the key.
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/begun_weights/begun_weights_test.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PeftFolder : public BegunWeights {
 protected:
  PeftFolder() : BegunWeights("peft", PEFT_FOLDERS) {}

  fs::path adapter_path(const std::string& name) const { return written(name) / "adapter"; }
  std::string get_examples(const std::string& name) const { return written(name) / "examples/a.safetensors"; }

  /// Two steps of gradient descent on all examples of the case, from its adapter or from the weights set in `more`.
  Words training(const std::string& name, const Words& more = {}) const {
    return with({"train"}, set_options(with({"train.dir=" + (out(name) / "run").string(),
                                             "model.checkpoint=" + adapter_path(name).string(), "data.format=examples",
                                             "data.paths=['" + (written(name) / "examples").string() + "']",
                                             "eval.samples=0", "train.batch_size=6", "train.steps=2", "optim.name=sgd",
                                             "optim.momentum=0", "optim.lr=0.2", "optim.schedule=constant",
                                             "optim.warmup_steps=0", "optim.weight_decay=0", "optim.max_grad_norm=0"},
                                            more)));
  }

  /// The error message for the adapter "llama" with another value in adapter_config.json.
  std::string message_with(const std::string& key, const nlohmann::json& value) const {
    const fs::path changed = out("changed");
    fs::remove_all(changed);
    fs::copy(adapter_path("llama"), changed);
    auto config = nlohmann::json::parse(get_text(changed / "adapter_config.json"));
    config[key] = value;
    std::ofstream(changed / "adapter_config.json") << config;
    const Finished run = modrun({"import", changed.string(), out("imported").string()});
    EXPECT_NE(run.status, 0) << key;
    EXPECT_FALSE(fs::exists(out("imported"))) << key;
    return run.output;
  }
};

TEST_F(PeftFolder, ForwardMergeAndTrainingMatchPeft) {
  const std::map<std::string, Words> meshes = {{"llama", {"parallel.tp=2"}},
                                               {"bert", {}},
                                               {"gpt2", {"parallel.dp_shard=2"}},
                                               {"t5", {}},
                                               {"saved", {}},
                                               {"tied", {}},
                                               {"tokens", {"parallel.tp=2"}},
                                               {"tied-tokens", {"parallel.dp_shard=2"}},
                                               {"saved-tokens", {}},
                                               {"grown-tokens", {}},
                                               {"t5-tokens", {}},
                                               {"bert-tokens", {}}};
  Words names;
  for (const char* name :
       {"llama", "layers", "rows", "head", "pattern", "bert", "roberta", "gpt2", "t5", "saved", "tied", "tokens",
        "tied-tokens", "saved-tokens", "grown-tokens", "t5-tokens", "bert-tokens"}) {
    names.emplace_back(name);
    fs::create_directory(out(name));
    expect_done({"forward", "--checkpoint", adapter_path(name).string(), "--inputs", get_examples(name), "--outputs",
                 (out(name) / "outputs.safetensors").string()});
    if (!meshes.contains(name)) continue;
    expect_done({"export", adapter_path(name).string(), (out(name) / "merged").string()});
    const Words& mesh = meshes.at(name);
    expect_done(with(mesh.empty() ? Words{} : Words{"--nproc-per-node", "2"}, training(name, mesh)));
    expect_done({"export", (out(name) / "run/checkpoints").string(), (out(name) / "trained").string(), "--adapter",
                 "--base", (written(name) / "base").string()});
  }
  check(names);
}

TEST_F(PeftFolder, ImportedAdapterWorksWithoutTheFolderAndExportsUnchanged) {
  const fs::path adapter = out("adapter");
  fs::copy(adapter_path("pattern"), adapter);
  expect_done({"import", adapter.string(), out("imported").string()});
  expect_done({"export", out("imported").string(), out("from-import").string()});
  expect_done({"export", adapter.string(), out("merged").string()});
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_EQ(get_text(out("from-import") / file), get_text(out("merged") / file)) << file;
  expect_done({"export", out("imported").string(), out("back").string(), "--adapter", "--base", "base"});
  const SafetensorsFile before(adapter / "adapter_model.safetensors"), after(out("back") / "adapter_model.safetensors");
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  for (const auto& [name, header] : before.tensors())
    EXPECT_TRUE(before.tensor(name).equal(after.tensor(name))) << name;
  expect_done(training("pattern", {"train.steps=1", "model.checkpoint=" + adapter.string()}));
  fs::remove_all(adapter);
  expect_done({"train", (out("pattern") / "run").string(), "--resume", "--set", "train.steps=2"});
  expect_done({"predict", "--checkpoint", adapter_path("pattern").string(), "--inputs", get_examples("pattern"),
               "--outputs", out("predicted.safetensors").string()});
  expect_done({"sample", "--checkpoint", adapter_path("gpt2").string(), "--prompt", "a", "--set", "sample.tokens=4",
               "--set", "train.seq_len=16"});
}

TEST_F(PeftFolder, ResumesBitwiseAndKeepsTheIdsOfTrainedRows) {
  const fs::path adapter = out("adapter");
  fs::copy(adapter_path("tokens"), adapter);
  const Words four = {"train.steps=4",      "optim.momentum=0.9", "optim.lr=0.01",
                      "train.batch_size=2", "parallel.tp=2",      "model.checkpoint=" + adapter.string()};
  const auto exported = [&](const std::string& name) {
    expect_done({"export", (out(name) / "run/checkpoints").string(), (out(name) / "trained").string(), "--adapter",
                 "--base", (written("tokens") / "base").string()});
    expect_done({"export", (out(name) / "run/checkpoints").string(), (out(name) / "merged").string()});
    return get_text(out(name) / "trained/adapter_model.safetensors") +
           get_text(out(name) / "trained/adapter_config.json") + get_text(out(name) / "merged/model.safetensors");
  };
  const auto train = [&](const std::string& name, const Words& more) {
    expect_done(with({"--nproc-per-node", "2"},
                     training("tokens", with(four, with(more, {"train.dir=" + (out(name) / "run").string()})))));
  };
  train("full", {});
  train("cut", {"checkpoint.every=2", "checkpoint.keep=0"});
  fs::remove_all(out("cut") / "run/checkpoints/step-00000004");
  fs::remove_all(adapter);
  std::ofstream(out("cut") / "run/checkpoints/latest") << "step-00000002\n";
  expect_done({"--nproc-per-node", "2", "train", (out("cut") / "run").string(), "--resume=step-00000002"});
  EXPECT_TRUE(exported("cut") == exported("full"));
  const auto config = nlohmann::json::parse(get_text(out("cut") / "trained/adapter_config.json"));
  EXPECT_EQ(config.at("trainable_token_indices"),
            nlohmann::json({{"model.embed_tokens", {200, 7, 31}}, {"lm_head", {9}}}));
}

TEST_F(PeftFolder, UsesTheBaseGivenByTheUser) {
  const fs::path lost = out("lost"), outputs = out("outputs.safetensors"), base = written("layers") / "base";
  fs::copy(adapter_path("layers"), lost);
  auto config = nlohmann::json::parse(get_text(lost / "adapter_config.json"));
  config["base_model_name_or_path"] = "someone/llama";
  std::ofstream(lost / "adapter_config.json") << config;
  const Words forward = {"forward",   "--checkpoint",  lost.string(), "--inputs", get_examples("layers"),
                         "--outputs", outputs.string()};
  const Finished run = modrun(forward);
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("\"base_model_name_or_path\" is \"someone/llama\", which is not a folder on this "
                                    "machine: download that model and name its folder with --set model.base=FOLDER"));
  expect_done(with(forward, {"--set", "model.base=" + base.string()}));
  const SafetensorsFile expected(written("layers") / "expected.safetensors"), found(outputs);
  EXPECT_TRUE(at::allclose(found.tensor("logits"), expected.tensor("logits"), 1e-4, 1e-5));
  expect_done({"export", lost.string(), out("merged").string(), "--base", base.string()});
  expect_done({"import", lost.string(), out("imported").string(), "--base", base.string()});
}

TEST_F(PeftFolder, UnsupportedOptionsAreErrorsThatNameTheKey) {
  const std::vector<std::pair<std::string, nlohmann::json>> changes = {
      {"peft_type", "LOHA"},
      {"use_dora", true},
      {"bias", "all"},
      {"init_lora_weights", "pissa"},
      {"task_type", "QUESTION_ANS"},
      {"layer_replication", {{0, 1}}},
      {"trainable_token_indices", {1, 2}},
      {"trainable_token_indices", {1, 1}},
      {"trainable_token_indices", {-1}},
      {"trainable_token_indices", {{"embed_tokens", 3}}},
      {"trainable_token_indices", "all"},
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

TEST_F(PeftFolder, TensorsThatDoNotMatchTheBaseAreErrors) {
  using Tensors = std::map<std::string, at::Tensor>;
  const std::string layer = "base_model.model.model.layers.0.self_attn.q_proj";
  const auto message = [&](const std::string& name, const nlohmann::json& trained, const auto& change,
                           const nlohmann::json& keys = nlohmann::json::object()) {
    const fs::path changed = out("changed");
    fs::remove_all(changed);
    fs::copy(adapter_path(name), changed);
    auto config = nlohmann::json::parse(get_text(changed / "adapter_config.json"));
    config["modules_to_save"] = trained;
    config.update(keys);
    std::ofstream(changed / "adapter_config.json") << config;
    Tensors tensors;
    {
      const SafetensorsFile file(changed / "adapter_model.safetensors");
      for (const auto& [key, header] : file.tensors()) tensors[key] = file.tensor(key).clone();
    }
    change(tensors);
    fs::remove(changed / "adapter_model.safetensors");
    write_safetensors(changed / "adapter_model.safetensors", {tensors.begin(), tensors.end()});
    const Finished run = modrun({"import", changed.string(), out("imported").string()});
    EXPECT_TRUE(run.status == 1 || run.status == 2) << run.status;
    EXPECT_FALSE(fs::exists(out("imported")));
    return run.output;
  };
  EXPECT_THAT(message("llama", nullptr, [&](Tensors& tensors) { tensors.erase(layer + ".lora_B.weight"); }),
              HasSubstr("has only one of the two matrices of model.layers.0.self_attn.q_proj's adapter"));
  EXPECT_THAT(message("llama", nullptr, [&](Tensors& tensors) { tensors["w"] = at::ones(2); }),
              HasSubstr("holds \"w\": the names of PEFT's tensors begin with \"base_model.model.\""));
  EXPECT_THAT(message("llama", nullptr, [&](Tensors& tensors) { tensors["base_model.model.w"] = at::ones(2); }),
              HasSubstr("holds \"base_model.model.w\" [2], which is neither an adapter"));
  EXPECT_THAT(
      message("llama", nullptr, [&](Tensors& tensors) { tensors[layer + ".lora_A.weight"] = at::ones({4, 31}); }),
      HasSubstr("the adapter of model.layers.0.self_attn.q_proj has the matrices [4, 31] and [32, 4]"));
  EXPECT_THAT(message("gpt2", nullptr,
                      [](Tensors& tensors) {
                        tensors["base_model.model.transformer.wte.weight"] = at::ones({256, 32});
                        tensors["base_model.model.lm_head.weight"] = at::zeros({256, 32});
                      }),
              HasSubstr("\"transformer.wte.weight\" and \"lm_head.weight\" differ, though the base ties them"));
  // Rows of tables, and their ids.
  const std::string rows = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";
  const auto with_rows = [&](const std::string& name, const nlohmann::json& ids, const auto& change) {
    return message(name, nullptr, change, {{"trainable_token_indices", ids}});
  };
  const auto as_it_is = [](Tensors&) {};
  EXPECT_THAT(with_rows("tokens", {{"embed_tokens", {200, 7, 31}}}, as_it_is),
              HasSubstr("\"lm_head.trainable_tokens_delta\" has rows of a table, but \"trainable_token_indices\""));
  EXPECT_THAT(with_rows("tokens", {{"embed_tokens", {200, 7}}, {"lm_head", {9}}}, as_it_is),
              HasSubstr("is [3, 32], and \"trainable_token_indices\" has 2 ids for a table of [256, 32]"));
  EXPECT_THAT(with_rows("tokens", {{"embed_tokens", {256, 7, 31}}, {"lm_head", {9}}}, as_it_is),
              HasSubstr("\"trainable_token_indices\" has 256, and the table of model.embed_tokens is [256, 32]"));
  EXPECT_THAT(with_rows("tokens", {{"embed_tokens", {200, 7, 31}}, {"lm_head", {9}}},
                        [&](Tensors& tensors) { tensors.erase(rows); }),
              HasSubstr("\"trainable_token_indices\" has ids of \"embed_tokens\", but"));
  EXPECT_THAT(with_rows("tied-tokens", {{"wte", {5, 130, 6}}, {"lm_head", {5, 130, 7}}}, as_it_is),
              HasSubstr("has different ids for"));
  EXPECT_THAT(with_rows("tied-tokens", {{"lm_head", {5, 130, 6}}},
                        [](Tensors& tensors) {
                          const std::string of_table = "base_model.model.transformer.wte.token_adapter";
                          tensors["base_model.model.lm_head.token_adapter.trainable_tokens_delta"] =
                              tensors.at(of_table + ".trainable_tokens_delta");
                          tensors.erase(of_table + ".trainable_tokens_delta");
                        }),
              HasSubstr("has rows of a module that the base ties to \"transformer.wte.weight\""));
  EXPECT_THAT(message("tokens", {"lm_head"}, as_it_is),
              HasSubstr("names rows of lm_head, which is also trained in another way"));
  // A table that training did not change must equal the base's.
  const std::string table = "base_model.model.model.embed_tokens.weight";
  const at::Tensor of_base =
      SafetensorsFile(written("llama") / "base/model.safetensors").tensor("model.embed_tokens.weight").clone();
  const auto with_table = [&](double more) {
    return message("llama", nullptr, [&](Tensors& tensors) { tensors[table] = of_base + more; });
  };
  EXPECT_THAT(with_table(0.5), HasSubstr("holds \"model.embed_tokens.weight\", which differs from that of"));
}

}  // namespace
}  // namespace modular
