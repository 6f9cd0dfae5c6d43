// Validation metrics, in metrics.jsonl and from eval, are the same on every mesh and cover each row once.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <map>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/evaluation/row_metrics.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
using Words = std::vector<std::string>;

// The last step of 12 has a single validation row: most ranks of a mesh only have padding then.
constexpr int64_t kRows = 48, kValidation = 13, kSeq = 6, kVocabulary = 40;

struct Case {
  const char* entry;
  Words settings;
  Tensors (*rows)(int64_t count);
};

at::Tensor ids(int64_t rows) { return at::randint(2, kVocabulary, {rows, kSeq}, at::kLong); }

class EvalMetrics : public ModrunTest {
 protected:
  EvalMetrics() {
    at::manual_seed(1);
    folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 12\n[optim]\nlr = 3e-3\n[eval]\nsamples = 0\n");
  }

  fs::path validation() const { return folder_.path() / "examples/held-out.safetensors"; }

  Words options(const Case& given, const Words& more = {}) const {
    Words all = {"--set", "model.entry=" + std::string(given.entry),
                 "--set", "data.format=examples",
                 "--set", "data.paths=['" + (folder_.path() / "examples").string() + "']",
                 "--set", "data.validation=['*held-out*']"};
    for (const Words& words : {given.settings, more})
      for (const std::string& setting : words) all.insert(all.end(), {"--set", setting});
    return all;
  }

  /// Trains the case in run_folder("run").
  void train_case(const Case& given, const Words& more = {}) const {
    fs::remove_all(run_folder("run"));
    fs::create_directories(folder_.path() / "examples");
    write_safetensors(folder_.path() / "examples/a.safetensors", given.rows(kRows));
    write_safetensors(validation(), given.rows(kValidation));
    const auto run = train("run", options(given, more));
    ASSERT_EQ(run.status, 0) << run.output;
  }

  /// Output of `modrun eval` for the run, by name.
  std::map<std::string, double> evaluated(const Words& mesh, int ranks) const {
    Words words = {"--nproc-per-node", std::to_string(ranks), "eval", run_folder("run").string()};
    for (const std::string& setting : mesh) words.insert(words.end(), {"--set", setting});
    const auto run = modrun(words);
    EXPECT_EQ(run.status, 0) << run.output;
    std::map<std::string, double> values;
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream in(line.starts_with("validation loss ") ? "loss " + line.substr(16) : line);
      std::string name;
      double value = 0.0;
      if (in >> name >> value) values[name] = value;
    }
    return values;
  }

  /// Logits of all validation rows in one batch, by another command.
  at::Tensor logits() const {
    const fs::path outputs = folder_.path() / "out.safetensors";
    const auto run = modrun({"forward", "--checkpoint", (run_folder("run") / "checkpoints").string(), "--inputs",
                             validation().string(), "--outputs", outputs.string()});
    EXPECT_EQ(run.status, 0) << run.output;
    return SafetensorsFile(outputs).tensor("logits").clone();
  }

  /// Expects every mesh to compute the loss to 1e-5, and metrics to all digits.
  void expect_same_on_meshes(const std::map<std::string, double>& alone, const std::vector<Words>& meshes) const {
    for (const Words& mesh : meshes) {
      int ranks = 1;
      for (const std::string& setting : mesh)
        if (setting.starts_with("parallel.")) ranks *= std::stoi(setting.substr(setting.find('=') + 1));
      const auto values = evaluated(mesh, ranks);
      EXPECT_EQ(values.size(), alone.size());
      for (const auto& [name, value] : alone)
        EXPECT_NEAR(values.count(name) ? values.at(name) : -1.0, value, name == "loss" ? 1e-5 : 0.0)
            << name << " on " << testing::PrintToString(mesh);
    }
  }
};

const std::vector<Words> kMeshes = {
    {"parallel.dp_shard=2"},
    {"parallel.dp_replicate=3"},
    {"parallel.dp_replicate=2", "parallel.dp_shard=2"},
    {"parallel.tp=2"},
    {"parallel.pp=2", "train.micro_batches=3"},
    {"parallel.tp=2", "parallel.pp=2"},
    {"parallel.dp_shard=2", "parallel.tp=2"},
    {"parallel.pp=2", "parallel.dp_replicate=2", "train.micro_batches=2"},
};

const Words kBert = {"model.config.vocab_size=40",       "model.config.max_position_embeddings=16",
                     "model.config.hidden_size=32",      "model.config.intermediate_size=48",
                     "model.config.num_hidden_layers=2", "model.config.num_attention_heads=4"};

TEST_F(EvalMetrics, ClassMetricsMatchTheLogitsOnEveryMesh) {
  Words settings = kBert;
  settings.push_back("model.config.num_labels=3");
  const Case given = {"BertForSequenceClassification", settings, [](int64_t rows) -> Tensors {
                        const at::Tensor tokens = ids(rows);
                        return {{"input_ids", tokens}, {"labels", tokens.select(1, 0).remainder(3)}};
                      }};
  train_case(given);
  const auto alone = evaluated({}, 1);
  ClassCounts counts = ClassCounts::zeros(3);
  counts.add(logits(), SafetensorsFile(validation()).tensor("labels"));
  for (const char* name : {"accuracy", "f1"})
    EXPECT_NEAR(alone.at(name), get_value(find_metric(name, "sequence-classification"), counts, 0.0), 1e-6) << name;
  expect_same_on_meshes(alone, kMeshes);

  const auto evaluations = events("run", "evaluation");
  ASSERT_EQ(evaluations.size(), 1u);
  EXPECT_EQ(evaluations[0]["targets"], kValidation);
  EXPECT_NEAR(evaluations[0]["metrics"]["accuracy"].get<double>(), alone.at("accuracy"), 1e-6);
}

TEST_F(EvalMetrics, ItemMetricsMatchTheLogitsOnEveryMesh) {
  if (modrun({"entries"}).output.find("SessionForNextItem") == std::string::npos) return;  // built with other families
  Words settings = {"model.config.vocab_size=40"};
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    settings.push_back(std::string("model.config.") + dropout + "=0");
  const Case given = {"SessionForNextItem", settings, [](int64_t rows) -> Tensors {
                        return {{"input_ids", (at::randint(2, 40, {rows, 1}) + at::arange(kSeq)).remainder(38) + 2}};
                      }};
  train_case(given, {"eval.metrics=['recall@3', 'ndcg@5', 'mrr', 'accuracy']"});
  const auto alone = evaluated({}, 1);
  ClassCounts counts = ClassCounts::zeros(kVocabulary);
  counts.add(logits().narrow(1, 0, kSeq - 1), SafetensorsFile(validation()).tensor("input_ids").narrow(1, 1, kSeq - 1));
  for (const char* name : {"recall@3", "ndcg@5", "mrr", "accuracy"})
    EXPECT_NEAR(alone.at(name), get_value(find_metric(name, "next-item"), counts, 0.0), 1e-6) << name;
  expect_same_on_meshes(alone, kMeshes);
}

TEST_F(EvalMetrics, EmbeddingMetricsCoverAllRowsOnEveryMesh) {
  const Case given = {"BertModel", kBert, [](int64_t rows) -> Tensors {
                        return {{"input_ids", ids(rows)}, {"labels", at::arange(rows).remainder(5)}};
                      }};
  train_case(given, {"eval.metrics=['mrr@10', 'recall@3']"});
  const auto alone = evaluated({}, 1);
  RowRanking ranking;
  ranking.add(logits().unsqueeze(1), SafetensorsFile(validation()).tensor("labels"), at::arange(kValidation));
  const std::vector<double> expected = ranking.values(
      {find_metric("mrr@10", "sentence-embedding"), find_metric("recall@3", "sentence-embedding")}, Mesh({}, {}));
  EXPECT_NEAR(alone.at("mrr@10"), expected[0], 1e-6);
  EXPECT_NEAR(alone.at("recall@3"), expected[1], 1e-6);
  for (const Words& mesh : {Words{"parallel.dp_replicate=3"}, Words{"parallel.dp_shard=2", "parallel.tp=2"}}) {
    const auto values = evaluated(mesh, mesh.size() == 1 ? 3 : 4);
    for (const auto& [name, value] : alone) EXPECT_NEAR(values.at(name), value, name == "loss" ? 1e-5 : 0.0) << name;
  }
}

/// Pairs of texts in which the second repeats some tokens of the first.
at::Tensor pairs_of_texts(int64_t samples) {
  const at::Tensor first = ids(samples), second = ids(samples);
  second.slice(1, 0, 3).copy_(first.slice(1, 3));
  return at::stack({first, second}, 1);
}

TEST_F(EvalMetrics, QuestionAnsweringMetricsAreTheSameOnEveryMesh) {
  const Case given = {"BertModel", kBert,
                      [](int64_t rows) -> Tensors { return {{"input_ids", pairs_of_texts(rows)}}; }};
  train_case(given);
  const auto alone = evaluated({}, 1);
  RowRanking ranking;
  ranking.add(logits().unflatten(0, {-1, 2}), at::zeros({kValidation}, at::kLong), at::arange(kValidation));
  const auto expected = ranking.values({find_metric("mrr@10", "sentence-embedding")}, Mesh({}, {}));
  EXPECT_NEAR(alone.at("mrr@10"), expected[0], 1e-6);
  expect_same_on_meshes(alone, kMeshes);
}

TEST_F(EvalMetrics, TextPairMetricsAreTheSameOnEveryMesh) {
  const Case given = {"BertModel", kBert, [](int64_t rows) -> Tensors {
                        const at::Tensor texts = pairs_of_texts(rows);
                        return {{"input_ids", texts}, {"labels", texts.select(1, 0).to(at::kFloat).mean(1) / 40}};
                      }};
  train_case(given);
  const auto alone = evaluated({}, 1);
  const at::Tensor embeddings = logits().unflatten(0, {-1, 2});
  const at::Tensor cosines = at::cosine_similarity(embeddings.select(1, 0), embeddings.select(1, 1), -1);
  EXPECT_NEAR(alone.at("pearson"), pearson(cosines, SafetensorsFile(validation()).tensor("labels")), 1e-4);
  ASSERT_TRUE(alone.contains("spearman"));
  for (const Words& mesh : kMeshes) {
    int ranks = 1;
    for (const std::string& setting : mesh)
      if (setting.starts_with("parallel.")) ranks *= setting.back() - '0';
    for (const auto& [name, value] : evaluated(mesh, ranks)) EXPECT_NEAR(value, alone.at(name), 1e-4) << name;
  }
}

TEST_F(EvalMetrics, RegressionMetricsMatchTheLogitsOnEveryMesh) {
  const Case given = {"BertForSequenceClassification", with(kBert, {"model.config.num_labels=1"}),
                      [](int64_t rows) -> Tensors {
                        const at::Tensor tokens = ids(rows);
                        return {{"input_ids", tokens}, {"labels", tokens.select(1, 0).to(at::kFloat) / 40}};
                      }};
  train_case(given);
  const auto alone = evaluated({}, 1);
  const at::Tensor said = logits().flatten(), right = SafetensorsFile(validation()).tensor("labels");
  EXPECT_NEAR(alone.at("pearson"), pearson(said, right), 1e-4);
  EXPECT_NEAR(alone.at("loss"), (said - right).square().mean().item<double>(), 1e-5);
  for (const auto& [name, value] : evaluated({"parallel.dp_shard=3"}, 3)) EXPECT_NEAR(value, alone.at(name), 1e-4);
}

TEST_F(EvalMetrics, MultiLabelMetricsMatchTheLogitsOnEveryMesh) {
  const Case given = {
      "BertForSequenceClassification",
      with(kBert, {"model.config.num_labels=4", "model.config.problem_type=multi_label_classification"}),
      [](int64_t rows) -> Tensors {
        const at::Tensor tokens = ids(rows);
        return {{"input_ids", tokens}, {"labels", tokens.narrow(1, 0, 4).gt(20).to(at::kFloat)}};
      }};
  train_case(given);
  const auto alone = evaluated({}, 1);
  const at::Tensor said = logits(), right = SafetensorsFile(validation()).tensor("labels");
  EXPECT_NEAR(alone.at("loss"), at::binary_cross_entropy_with_logits(said, right).item<double>(), 1e-5);
  EXPECT_NEAR(alone.at("accuracy"), said.gt(0).eq(right.gt(0)).all(1).to(at::kDouble).mean().item<double>(), 1e-6);
  expect_same_on_meshes(alone, {{"parallel.dp_shard=2"}, {"parallel.pp=2", "train.micro_batches=3"}});
}

TEST_F(EvalMetrics, RejectsMetricsOfOtherTasksBeforeStartingRanks) {
  const auto run = train("rejected", {"--set", "model.entry=llama", "--set", "eval.metrics=['recall@20', 'f2']",
                                      "--set", "data.paths=['" + (folder_.path() / "data").string() + "']"});
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output,
              HasSubstr("eval.metrics: \"f2\" is not a metric of causal-lm: use one of perplexity, accuracy, f1, "
                        "recall@20, mrr@20, ndcg@20"));
}

}  // namespace
}  // namespace modular
