// What predict writes of a file's rows is what follows from the logits of forward, each row once and in its place, on
// every mesh.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
using Words = std::vector<std::string>;

constexpr int64_t kRows = 23, kSeq = 6, kVocabulary = 40;

class Predict : public ModrunTest {
 protected:
  Predict() {
    at::manual_seed(1);
    folder_.write("tiny.toml", "[train]\nsteps = 3\nbatch_size = 8\n[optim]\nlr = 3e-3\n");
  }

  fs::path inputs() const { return folder_.path() / "rows.safetensors"; }
  std::string checkpoint() const { return (run_folder("run") / "checkpoints").string(); }

  void train_case(const char* entry, const Words& settings, const Tensors& rows) const {
    fs::remove_all(run_folder("run"));
    write_safetensors(inputs(), rows);
    Words options = {"--set", std::string("model.entry=") + entry,       "--set", "data.format=examples",
                     "--set", "data.paths=['" + inputs().string() + "']"};
    for (const std::string& setting : settings) options.insert(options.end(), {"--set", "model.config." + setting});
    const auto run = train("run", options);
    ASSERT_EQ(run.status, 0) << run.output;
  }

  std::map<std::string, at::Tensor> predicted(const Words& mesh = {}, int ranks = 1, int batch = 4) const {
    const fs::path outputs = folder_.path() / "predicted.safetensors";
    Words words = {"--nproc-per-node", std::to_string(ranks), "predict",   run_folder("run").string(),
                   "--inputs",         inputs().string(),     "--outputs", outputs.string(),
                   "--batch-size",     std::to_string(batch)};
    const auto run = modrun(with(words, mesh));
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr("23 samples are predicted in "));
    std::map<std::string, at::Tensor> tensors;
    const SafetensorsFile file(outputs);
    for (const auto& [name, header] : file.tensors()) tensors[name] = file.tensor(name).clone();
    return tensors;
  }

  at::Tensor logits() const {
    const fs::path outputs = folder_.path() / "out.safetensors";
    const auto run =
        modrun({"forward", "--checkpoint", checkpoint(), "--inputs", inputs().string(), "--outputs", outputs.string()});
    EXPECT_EQ(run.status, 0) << run.output;
    return SafetensorsFile(outputs).tensor("logits").clone();
  }

  void expect_same_on_meshes(const std::map<std::string, at::Tensor>& alone) const {
    const std::tuple<Words, int, int> meshes[] = {
        {{"--dp-replicate", "3"}, 3, 4}, {{"--tp", "2"}, 2, 23}, {{"--pp", "2", "--dp-shard", "2"}, 4, 5}};
    for (const auto& [mesh, ranks, batch] : meshes)
      for (const auto& [name, tensor] : predicted(mesh, ranks, batch))
        EXPECT_TRUE(at::allclose(tensor.to(at::kFloat), alone.at(name).to(at::kFloat), 0.0, 1e-5)) << name;
  }
};

const Words kBert = {"vocab_size=40",        "max_position_embeddings=16", "hidden_size=32",
                     "intermediate_size=48", "num_hidden_layers=2",        "num_attention_heads=4"};

at::Tensor ids(at::IntArrayRef shape) { return at::randint(2, kVocabulary, shape, at::kLong); }

TEST_F(Predict, ClassesAndTheirProbabilities) {
  const at::Tensor tokens = ids({kRows, kSeq});
  train_case("BertForSequenceClassification", with(kBert, {"num_labels=3"}),
             {{"input_ids", tokens}, {"labels", tokens.select(1, 0).remainder(3)}});
  const auto found = predicted();
  const at::Tensor scores = logits().softmax(-1);
  EXPECT_TRUE(at::equal(found.at("labels"), scores.argmax(-1)));
  EXPECT_TRUE(at::allclose(found.at("scores"), scores, 0.0, 1e-6));
  expect_same_on_meshes(found);
  // Rows that nobody has labelled are what it is for.
  write_safetensors(inputs(), {{"input_ids", tokens}});
  EXPECT_TRUE(at::equal(predicted().at("labels"), found.at("labels")));
}

TEST_F(Predict, Numbers) {
  const at::Tensor tokens = ids({kRows, kSeq});
  train_case("BertForSequenceClassification", with(kBert, {"num_labels=1"}),
             {{"input_ids", tokens}, {"labels", tokens.select(1, 0).to(at::kFloat) / 40}});
  const auto found = predicted();
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(at::allclose(found.at("scores"), logits(), 0.0, 1e-6));
}

TEST_F(Predict, EmbeddingsOfEachTextOfASample) {
  train_case("BertModel", kBert, {{"input_ids", ids({kRows, 2, kSeq})}});
  const auto found = predicted();
  EXPECT_TRUE(at::allclose(found.at("embeddings"), logits().unflatten(0, {kRows, 2}), 0.0, 1e-6));
  expect_same_on_meshes(found);
}

TEST_F(Predict, TheItemsThatAreLikeliestAfterASession) {
  if (modrun({"entries"}).output.find("SessionForNextItem") == std::string::npos) return;  // built with other families
  at::Tensor items = ids({kRows, kSeq});
  const at::Tensor lengths = at::randint(1, kSeq + 1, {kRows, 1}, at::kLong);
  items = items * at::arange(kSeq).lt(lengths);
  train_case("SessionForNextItem", {"vocab_size=40"}, {{"input_ids", items}});
  const auto found = predicted();
  const at::Tensor last = logits().index({at::arange(kRows), lengths.flatten() - 1}).softmax(-1);
  const auto [scores, best] = last.topk(20, -1);
  EXPECT_TRUE(at::equal(found.at("items"), best));
  EXPECT_TRUE(at::allclose(found.at("scores"), scores, 0.0, 1e-6));
  expect_same_on_meshes(found);
}

TEST_F(Predict, OutputsThatCannotBeWrittenAreRejectedBeforeARankStarts) {
  train_case("BertModel", kBert, {{"input_ids", ids({kRows, 2, kSeq})}});
  for (const std::string& outputs : {(folder_.path() / "none/x").string(), folder_.path().string()}) {
    const auto run =
        modrun({"predict", run_folder("run").string(), "--inputs", inputs().string(), "--outputs", outputs});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr("cannot be written: name a file in a folder that is there"));
  }
  write_safetensors(inputs(), {{"input_ids", ids({kRows, 2, 40})}});
  const auto run = modrun({"predict", run_folder("run").string(), "--inputs", inputs().string(), "--outputs", "x"});
  EXPECT_THAT(run.output, HasSubstr("has 40 tokens per row, and BertModel has positions for 16"));
}

TEST_F(Predict, OfALanguageModelIsRejectedWithWhatThereIs) {
  train_case(
      "llama",
      {"vocab_size=40", "hidden_size=32", "intermediate_size=48", "num_hidden_layers=2", "num_attention_heads=4"},
      {{"input_ids", ids({kRows, kSeq})}});
  const auto run = modrun({"predict", run_folder("run").string(), "--inputs", inputs().string(), "--outputs", "x"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.output, HasSubstr("LlamaForCausalLM is for causal-lm: use `modrun sample` to generate text "
                                    "with a language model, or `modrun forward` to write logits"));
}

}  // namespace
}  // namespace modular
