// model.resize_embeddings: rows for the ids of a tokenizer that the weights lack, drawn as transformers draws them and
// alike on every mesh, in exports that transformers reads.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/begun_weights/begun_weights_test.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResizeEmbeddings : public BegunWeights {
 protected:
  ResizeEmbeddings() : BegunWeights("resized", RESIZED_FOLDERS) {}

  /// One step that changes nothing, from `weights` with the data of the case, into a run of its own.
  Finished train(const fs::path& weights, const std::string& name, const std::string& run, const Words& more,
                 int ranks = 1) const {
    const Words words = ranks > 1 ? Words{"--nproc-per-node", std::to_string(ranks), "train"} : Words{"train"};
    return modrun(
        with(words, settings(with({"train.dir=" + out(run).string(), "model.checkpoint=" + weights.string(),
                                   "data.format=examples", "data.paths=['" + written(name + "-data").string() + "']",
                                   "eval.samples=0", "train.batch_size=6", "train.steps=1", "optim.lr=0"},
                                  more))));
  }

  /// The export of that with added rows: its model.safetensors.
  std::string grown(const fs::path& weights, const std::string& name, const std::string& exported, const Words& more,
                    int ranks = 1) const {
    const Finished trained =
        train(weights, name, exported + "-run", with({"model.resize_embeddings=true"}, more), ranks);
    EXPECT_EQ(trained.status, 0) << trained.output;
    return run_export(exported + "-run", exported);
  }

  std::string run_export(const std::string& run, const std::string& exported) const {
    expect_done({"export", (out(run) / "checkpoints").string(), out(exported).string()});
    return get_text(out(exported) / "model.safetensors");
  }
};

TEST_F(ResizeEmbeddings, DrawsRowsAsTransformersAndKeepsTheOldOnes) {
  const Words names = {"llama", "few", "gpt2", "bert", "roberta", "t5", "clip"};
  for (const std::string& name : names) {
    const bool is_padded = name == "few" || name == "gpt2";
    const Words multiple = is_padded ? Words{"model.pad_vocab_to_multiple_of=8"} : Words{};
    grown(written(name), name, name + "-grown", multiple);
    if (name != "llama" && name != "bert" && name != "t5") continue;
    expect_done(with({"forward", "--checkpoint", written(name).string(), "--inputs",
                      (written(name + "-data") / "a.safetensors").string(), "--outputs",
                      out(name + "-outputs.safetensors").string()},
                     settings(with({"model.resize_embeddings=true"}, multiple))));
  }
  check(names);
}

TEST_F(ResizeEmbeddings, DrawsTheSameRowsOnEveryMeshAndFromEverySource) {
  const fs::path weights = out("weights");
  fs::copy(written("llama"), weights);
  const std::string expected = grown(weights, "llama", "alone", {});
  EXPECT_TRUE(grown(weights, "llama", "fsdp", {"parallel.dp_shard=3"}, 3) == expected);
  EXPECT_TRUE(grown(weights, "llama", "first", {"parallel.pp=1", "parallel.dp_shard=2", "model.readers=first"}, 2) ==
              expected);
  EXPECT_TRUE(grown(weights, "llama", "tp", {"parallel.tp=2", "lora.layers=['q_proj']"}, 2) == expected);
  EXPECT_FALSE(grown(weights, "llama", "seed", {"train.seed=2"}) == expected);
  expect_done({"import", weights.string(), out("imported").string()});
  EXPECT_TRUE(grown(out("imported"), "llama", "of-imported", {}) == expected);
  fs::remove_all(weights);
  expect_done(with({"train", out("alone-run").string(), "--resume"}, settings({"train.steps=2"})));
  EXPECT_TRUE(run_export("alone-run", "resumed") == expected);
  // The table has as many rows as there are ids, and more after it was padded.
  const std::string padded = grown(out("alone"), "llama", "padded", {"model.pad_vocab_to_multiple_of=64"});
  EXPECT_TRUE(grown(out("padded"), "llama", "kept", {}) == padded);
}

TEST_F(ResizeEmbeddings, GoesOnToTheBit) {
  for (const std::string name : {"llama", "bert"}) {
    const Words more = {"model.resize_embeddings=true", "train.steps=4",      "optim.lr=0.01",
                        "train.batch_size=2",           "checkpoint.every=2", "checkpoint.keep=0"};
    for (const std::string run : {"whole", "cut"})
      ASSERT_EQ(train(written(name), name, name + "-" + run, more, 2).status, 0);
    fs::remove_all(out(name + "-cut") / "checkpoints/step-00000004");
    expect_done({"--nproc-per-node", "2", "train", out(name + "-cut").string(), "--resume=step-00000002"});
    EXPECT_TRUE(run_export(name + "-cut", name + "-resumed") == run_export(name + "-whole", name + "-alone")) << name;
  }
}

TEST_F(ResizeEmbeddings, SaysWhatItCannotKnow) {
  fs::create_directory(out("ids"));
  const at::Tensor ids = at::arange(48).view({6, 8});
  write_safetensors(out("ids") / "a.safetensors", {{"input_ids", ids}, {"labels", ids}});
  const auto message = [&](const fs::path& weights, const Words& more) {
    const Finished run = train(weights, "llama", "run", with({"data.paths=['" + out("ids").string() + "']"}, more));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  };
  const fs::path weights = written("llama");
  EXPECT_THAT(message(weights, {"model.resize_embeddings=true", "model.config.vocab_size=100"}),
              HasSubstr("model.config.vocab_size is 100, and the weights have 150 rows"));
  EXPECT_THAT(message(weights, {"model.pad_vocab_to_multiple_of=8"}), HasSubstr("set model.resize_embeddings = true"));
  fs::copy(weights, out("bare"));
  fs::remove(out("bare") / "tokenizer.json");
  EXPECT_THAT(message(out("bare"), {"model.resize_embeddings=true"}),
              HasSubstr("there is no tokenizer whose ids say how many rows"));
  EXPECT_THAT(message(weights, {"model.tokenizer=" + weights.string()}),
              HasSubstr("add rows with model.resize_embeddings = true"));
}

// What `prepare` advises, `train` takes.
TEST_F(ResizeEmbeddings, IsWhatPrepareAdvises) {
  const fs::path text = out_.write("text.txt", "w1 w2 w151 w152 w153 w154 w155 w156 w3 w4 w5 w6 w7 w8 w9 w10\n");
  const Words prepare = {"prepare",  text.string(), "--checkpoint", written("llama").string(),
                         "--python", PARITY_PYTHON, "--out",        out("prepared").string()};
  const Finished advised = modrun(prepare);
  EXPECT_EQ(advised.status, 2);
  EXPECT_THAT(advised.output, HasSubstr("add rows with --set model.resize_embeddings=true"));
  const Finished prepared = modrun(with(prepare, {"--set", "model.resize_embeddings=true"}));
  ASSERT_EQ(prepared.status, 0) << prepared.output;
  const size_t begin = prepared.output.find("modrun train");
  ASSERT_NE(begin, std::string::npos) << prepared.output;
  const std::string line = prepared.output.substr(begin + 6, prepared.output.find('\n', begin) - begin - 6);
  EXPECT_THAT(line, HasSubstr("--set model.resize_embeddings=true"));
  const std::string command = MODRUN + line + " --set train.dir=" + out("run").string() +
                              " --set train.seq_len=4 --set train.batch_size=1 --set train.steps=1"
                              " --set eval.samples=0 > " +
                              out("log").string() + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << get_text(out("log"));
}

}  // namespace
}  // namespace modular
