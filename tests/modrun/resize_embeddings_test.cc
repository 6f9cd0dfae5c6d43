// model.resize_embeddings: rows for the ids of a tokenizer that the weights lack, drawn as transformers draws them and
// alike on every mesh, in exports that transformers reads.
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

/// The cases of resized_folders.py, written once.
class ResizeEmbeddings : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    written_ = new TemporaryFolder();
    python("write", {});
  }
  static void TearDownTestSuite() { delete written_; }

  static fs::path folder(const std::string& name) { return written_->path() / name; }

  static std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static void python(const std::string& what, const Words& cases) {
    std::string command = PARITY_PYTHON " " RESIZED_FOLDERS " " + what + " '" + written_->path().string() + "'";
    for (const std::string& name : cases) command += " " + name;
    const fs::path log = written_->path() / "python.log";
    EXPECT_EQ(std::system((command + " > " + log.string() + " 2>&1").c_str()), 0) << text_of(log);
  }

  static Words settings(const Words& values) {
    Words words;
    for (const std::string& value : values) words.insert(words.end(), {"--set", value});
    return words;
  }

  /// One step that changes nothing, from the weights of the case, into a run of its own.
  static Finished train(const std::string& name, const std::string& run, const Words& more, int ranks = 1) {
    Words words = {"train"};
    if (ranks > 1) words = {"--nproc-per-node", std::to_string(ranks), "train"};
    return modrun(
        with(words, settings(with({"train.dir=" + folder(run).string(), "model.checkpoint=" + folder(name).string(),
                                   "data.format=examples", "data.paths=['" + folder(name + "-data").string() + "']",
                                   "eval.samples=0", "train.batch_size=6", "train.steps=1", "optim.lr=0"},
                                  more))));
  }

  static void expect_grown(const std::string& name, const std::string& run, const std::string& exported,
                           const Words& more, int ranks = 1) {
    const Finished trained = train(name, run, with({"model.resize_embeddings=true"}, more), ranks);
    ASSERT_EQ(trained.status, 0) << trained.output;
    const Finished done = modrun({"export", (folder(run) / "checkpoints").string(), folder(exported).string()});
    ASSERT_EQ(done.status, 0) << done.output;
  }

  inline static TemporaryFolder* written_ = nullptr;
};

TEST_F(ResizeEmbeddings, DrawsRowsAsTransformersAndKeepsTheOldOnes) {
  const Words names = {"llama", "few", "gpt2", "bert", "roberta", "t5", "clip"};
  for (const std::string& name : names) {
    const bool is_padded = name == "few" || name == "gpt2";
    const Words multiple = is_padded ? Words{"model.pad_vocab_to_multiple_of=8"} : Words{};
    expect_grown(name, name + "-run", name + "-grown", multiple);
    if (name == "clip") continue;
    const Finished forward = modrun(with({"forward", "--checkpoint", folder(name).string(), "--inputs",
                                          (folder(name + "-data") / "a.safetensors").string(), "--outputs",
                                          folder(name + "-outputs.safetensors").string()},
                                         settings(with({"model.resize_embeddings=true"}, multiple))));
    EXPECT_EQ(forward.status, 0) << forward.output;
  }
  python("check", names);
}

TEST_F(ResizeEmbeddings, DrawsTheSameRowsOnEveryMeshAndWhenResumed) {
  expect_grown("llama", "alone", "from-alone", {});
  const std::string expected = text_of(folder("from-alone") / "model.safetensors");
  const std::vector<std::pair<Words, int>> meshes = {
      {{"parallel.tp=2"}, 2}, {{"parallel.dp_shard=3"}, 3}, {{"parallel.dp_shard=2", "model.readers=first"}, 2}};
  for (size_t mesh = 0; mesh < meshes.size(); ++mesh) {
    const std::string exported = "from-mesh-" + std::to_string(mesh);
    expect_grown("llama", "mesh-" + std::to_string(mesh), exported, meshes[mesh].first, meshes[mesh].second);
    EXPECT_TRUE(text_of(folder(exported) / "model.safetensors") == expected) << mesh;
  }
  expect_grown("llama", "seed", "from-seed", {"train.seed=2"});
  EXPECT_FALSE(text_of(folder("from-seed") / "model.safetensors") == expected);
  fs::rename(folder("llama"), folder("away"));
  const Finished resumed = modrun(with({"train", folder("alone").string(), "--resume"}, settings({"train.steps=2"})));
  fs::rename(folder("away"), folder("llama"));
  EXPECT_EQ(resumed.status, 0) << resumed.output;
  ASSERT_EQ(modrun({"export", (folder("alone") / "checkpoints").string(), folder("resumed").string()}).status, 0);
  EXPECT_TRUE(text_of(folder("resumed") / "model.safetensors") == expected);
  // With adapters, and from a checkpoint of another run.
  expect_grown("llama", "adapted", "from-adapted", {"lora.layers=['q_proj']", "optim.name=sgd"});
  EXPECT_TRUE(text_of(folder("from-adapted") / "model.safetensors") == expected);
  const Finished imported = modrun({"import", folder("llama").string(), folder("imported").string()});
  ASSERT_EQ(imported.status, 0) << imported.output;
  fs::create_directory(folder("imported-data"));
  fs::copy(folder("llama-data") / "a.safetensors", folder("imported-data") / "a.safetensors");
  expect_grown("imported", "of-imported", "from-imported", {});
  EXPECT_TRUE(text_of(folder("from-imported") / "model.safetensors") == expected);
}

TEST_F(ResizeEmbeddings, TakesNoRowsAway) {
  expect_grown("llama", "given", "from-given",
               {"model.config.vocab_size=150", "model.tokenizer=''", "data.trim=false"});
  EXPECT_EQ(text_of(folder("from-given") / "model.safetensors").size(),
            text_of(folder("llama") / "model.safetensors").size());
  const Finished fewer = train("llama", "fewer", {"model.resize_embeddings=true", "model.config.vocab_size=100"});
  EXPECT_EQ(fewer.status, 2);
  EXPECT_THAT(fewer.output, HasSubstr("model.config.vocab_size is 100, and the weights have 150 rows"));
  const Finished padded = train("llama", "padded", {"model.pad_vocab_to_multiple_of=8"});
  EXPECT_EQ(padded.status, 2);
  EXPECT_THAT(padded.output, HasSubstr("set model.resize_embeddings = true"));
  fs::copy(folder("llama"), folder("bare"));
  fs::remove(folder("bare") / "tokenizer.json");
  fs::copy(folder("llama-data"), folder("bare-data"));
  const Finished bare = train("bare", "bare-run", {"model.resize_embeddings=true"});
  EXPECT_EQ(bare.status, 2);
  EXPECT_THAT(bare.output, HasSubstr("there is no tokenizer whose ids say how many rows"));
}

// What `prepare` advises, `train` takes.
TEST_F(ResizeEmbeddings, IsWhatPrepareAdvises) {
  const fs::path text = written_->write("text.txt", "w1 w2 w151 w152 w153 w154 w155 w156 w3 w4 w5 w6 w7 w8 w9 w10\n");
  const auto prepare = [&](const Words& more) {
    return modrun(with({"prepare", text.string(), "--checkpoint", folder("llama").string(), "--python", PARITY_PYTHON,
                        "--out", folder("prepared").string()},
                       more));
  };
  const Finished advised = prepare({});
  EXPECT_EQ(advised.status, 2);
  EXPECT_THAT(advised.output, HasSubstr("add rows with --set model.resize_embeddings=true"));
  const Finished prepared = prepare({"--set", "model.resize_embeddings=true"});
  ASSERT_EQ(prepared.status, 0) << prepared.output;
  EXPECT_THAT(prepared.output, HasSubstr("--set model.resize_embeddings=true"));
  const size_t command = prepared.output.find("modrun train");
  ASSERT_NE(command, std::string::npos) << prepared.output;
  std::string line = prepared.output.substr(command + 6);
  line = line.substr(0, line.find('\n'));
  line = MODRUN + line + " --set train.dir=" + folder("of-prepared").string() +
         " --set train.seq_len=4 --set train.batch_size=1 --set train.steps=1 --set eval.samples=0";
  EXPECT_EQ(std::system((line + " > " + folder("log").string() + " 2>&1").c_str()), 0) << text_of(folder("log"));
}

}  // namespace
}  // namespace modular
