// Session models with a sampled training loss: identical on every mesh, resumed bit-identically, evaluated over all
// items, and rejected where sampling does not apply.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class SampledSoftmaxOfRuns : public ModrunTest {
 protected:
  static constexpr int64_t kSessions = 180, kSeq = 8;

  SampledSoftmaxOfRuns() {
    at::manual_seed(1);
    const at::Tensor lengths = at::randint(3, kSeq + 1, {kSessions, 1}, at::kLong);
    // Items of a session increase by 1 from a first one, which is usually small.
    const at::Tensor first = at::full({kSessions, 1}, 42.0).pow(at::rand({kSessions, 1})).to(at::kLong);
    const at::Tensor ids = (first + at::arange(kSeq)) * at::arange(kSeq).lt(lengths);
    fs::create_directories(folder_.path() / "sessions");
    write_safetensors(folder_.path() / "sessions/a.safetensors", {{"input_ids", ids.slice(0, 0, 144).contiguous()}});
    write_safetensors(folder_.path() / "sessions/held-out.safetensors",
                      {{"input_ids", ids.slice(0, 144).contiguous()}});
    folder_.write("tiny.toml",
                  "[model]\nentry = 'SessionForNextItem'\n"
                  "[model.config]\nvocab_size = 50\nn_positions = 8\nn_embd = 32\nn_layer = 2\nn_head = 4\n"
                  "item_dim = 16\nresid_pdrop = 0.1\nembd_pdrop = 0\nattn_pdrop = 0\n"
                  "[sampled_softmax]\nsamples = 12\n"
                  "[data]\nformat = 'examples'\nvalidation = ['*held-out*']\npaths = ['" +
                      (folder_.path() / "sessions").string() +
                      "']\n[train]\nsteps = 8\nbatch_size = 12\n[optim]\nlr = 1e-2\n[eval]\nsamples = 0\n");
  }

  /// A metric of the evaluation at the run's end.
  double evaluated(const std::string& name, const std::string& metric) const {
    return events(name, "evaluation").back().at("metrics").at(metric).get<double>();
  }

  std::string error(const Words& settings) const {
    const auto run = train("rejected", set(settings));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  }
};

TEST_F(SampledSoftmaxOfRuns, TrainIdenticallyOnEveryMesh) {
  for (const char* entry : {"SessionForNextItem", "SessionForMaskedItem"}) {
    const Words of_entry = {std::string("model.entry=") + entry};
    const auto run = train("alone", with(set(of_entry), {"--overwrite"}));
    ASSERT_EQ(run.status, 0) << run.output;
    const std::vector<double> alone = losses("alone");
    const std::vector<std::pair<Words, const char*>> meshes = {
        {{"train.micro_batches=3", "parallel.recompute=full"}, "1"},
        {{"parallel.dp_threads=3"}, "1"},
        {{"parallel.dp_shard=3"}, "3"},
        {{"parallel.tp=2"}, "2"},
        {{"parallel.pp=2", "train.micro_batches=2"}, "2"},
        {{"parallel.dp_replicate=2", "parallel.tp=2", "train.micro_batches=2"}, "4"}};
    for (const auto& [settings, ranks] : meshes) {
      const auto other =
          train("mesh", with(set(with(of_entry, settings)), {"--overwrite"}), {"--nproc-per-node", ranks});
      ASSERT_EQ(other.status, 0) << other.output;
      const std::vector<double> found = losses("mesh");
      ASSERT_EQ(found.size(), alone.size());
      for (size_t step = 0; step < alone.size(); ++step)
        EXPECT_NEAR(found[step], alone[step], 1e-5) << entry << ", " << settings.front() << ", step " << step;
    }
  }
}

TEST_F(SampledSoftmaxOfRuns, ResumeWithTheSameSampledItems) {
  const Words settings = {"parallel.dp_shard=3", "optim.schedule='constant'"}, ranks = {"--nproc-per-node", "3"};
  ASSERT_EQ(train("whole", set(settings), ranks).status, 0);
  ASSERT_EQ(train("half", set(with(settings, {"train.steps=4"})), ranks).status, 0);
  const auto run =
      modrun({"--nproc-per-node", "3", "train", run_folder("half").string(), "--resume", "--set", "train.steps=8"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(losses("half"), losses("whole"));
  expect_same_checkpoint("whole", "half", "step-00000008");
}

/// A run learns the next items, and evaluations of the same weights agree with and without sampling.
TEST_F(SampledSoftmaxOfRuns, LearnAndAreEvaluatedOverAllItems) {
  for (const char* distribution : {"log-uniform", "uniform"}) {
    const Words settings = {std::string("sampled_softmax.distribution='") + distribution + "'",
                            "sampled_softmax.samples=24", "eval.metrics=['recall@2']"};
    ASSERT_EQ(train("first", with(set(with(settings, {"train.steps=1"})), {"--overwrite"})).status, 0);
    ASSERT_EQ(train("later", with(set(with(settings, {"train.steps=150"})), {"--overwrite"})).status, 0);
    const double first = evaluated("first", "recall@2"), later = evaluated("later", "recall@2");
    std::cout << distribution << ": recall@2 from " << first << " to " << later << "\n";
    EXPECT_LT(first, 0.3);
    EXPECT_GT(later, first + 0.3);
  }
  const auto judged = [&](const char* samples) {
    const auto run = modrun({"eval", run_folder("later").string(), "--set", samples});
    EXPECT_EQ(run.status, 0) << run.output;
    return run.output.substr(run.output.find("loss"));
  };
  EXPECT_EQ(judged("sampled_softmax.samples=12"), judged("sampled_softmax.samples=0"));
}

TEST_F(SampledSoftmaxOfRuns, AreRejectedForUnsuitableModels) {
  EXPECT_THAT(error({"sampled_softmax.samples=-1"}), HasSubstr("sampled_softmax.samples must be at least 0"));
  EXPECT_THAT(error({"sampled_softmax.samples=49"}),
              HasSubstr("sampled_softmax.samples is 49, and there are 49 items without padding: set it to fewer, or to "
                        "0 for a loss over all items"));
  EXPECT_THAT(error({"sampled_softmax.samples=1000"}), HasSubstr("there are 49 items"));
  EXPECT_THAT(error({"sampled_softmax.distribution='zipf'"}),
              HasSubstr("sampled_softmax.distribution is \"zipf\": it must be one of log-uniform, uniform"));
  EXPECT_THAT(
      error({"model.config.tie_word_embeddings=false", "lora.layers=['head']"}),
      HasSubstr("sampled_softmax.samples is 12, which looks up rows of head, and lora.layers adapts that layer"));
  folder_.write("tiny.toml",
                "[model]\nentry = 'llama'\n[model.config]\nvocab_size = 256\nhidden_size = 32\n"
                "intermediate_size = 48\nnum_hidden_layers = 2\nnum_attention_heads = 4\n[data]\npaths = ['" +
                    (folder_.path() / "data").string() + "']\n[sampled_softmax]\nsamples = 12\n");
  EXPECT_THAT(error({}), HasSubstr("sampled_softmax.samples is 12, which is for session models, and LlamaForCausalLM "
                                   "is for causal-lm: leave it out"));
}

}  // namespace
}  // namespace modular
