// Sessions with hidden items: trained identically on every mesh, evaluated on their last item, and queried for their
// next one.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
using Words = std::vector<std::string>;

constexpr int64_t kSessions = 60, kSeq = 8, kItems = 30;

class HiddenItemsOfRuns : public ModrunTest {
 protected:
  HiddenItemsOfRuns() {
    at::manual_seed(1);
    const at::Tensor lengths = at::randint(2, kSeq + 1, {kSessions, 1}, at::kLong);
    mask_ = at::arange(kSeq).lt(lengths).to(at::kLong);
    // Items of a session increase by 2, so that the neighboring items determine each one.
    ids_ =
        ((at::randint(0, kItems, {kSessions, 1}, at::kLong) + 2 * at::arange(kSeq)).remainder(kItems - 1) + 1) * mask_;
    features_ = (ids_.remainder(4) + 1).mul(mask_).unsqueeze(-1);
    fs::create_directories(folder_.path() / "sessions");
    write(folder_.path() / "sessions/a.safetensors", 0, 48);
    write(folder_.path() / "sessions/held-out.safetensors", 48, 60);
    folder_.write(
        "tiny.toml",
        "[model]\nentry = 'SessionForMaskedItem'\n"
        "[model.config]\nvocab_size = 30\nn_positions = 8\nn_embd = 32\nn_layer = 2\nn_head = 4\nitem_dim = 16\n"
        "feature_dim = 8\nfeature_cardinalities = [5]\nresid_pdrop = 0.1\n"
        "[data]\nformat = 'examples'\nmask_probability = 0.4\nvalidation = ['*held-out*']\npaths = ['" +
            (folder_.path() / "sessions").string() +
            "']\n[train]\nsteps = 8\nbatch_size = 12\n[optim]\nlr = 1e-2\n[eval]\nsamples = 0\n");
  }

  void write(const fs::path& file, int64_t first, int64_t last, const Tensors& more = {}) const {
    Tensors tensors = {{"input_ids", ids_.slice(0, first, last).contiguous()},
                       {"feature_ids", features_.slice(0, first, last).contiguous()}};
    tensors.insert(tensors.end(), more.begin(), more.end());
    write_safetensors(file, tensors);
  }

  /// Logits of the run's newest checkpoint for a file's sessions.
  at::Tensor logits(const std::string& run, const fs::path& inputs) const {
    const fs::path outputs = folder_.path() / "logits.safetensors";
    const auto made = modrun({"forward", "--checkpoint", (run_folder(run) / "checkpoints").string(), "--inputs",
                              inputs.string(), "--outputs", outputs.string()});
    EXPECT_EQ(made.status, 0) << made.output;
    return SafetensorsFile(outputs).tensor("logits").clone();
  }

  at::Tensor ids_, mask_, features_;
};

TEST_F(HiddenItemsOfRuns, TrainIdenticallyOnEveryMesh) {
  const auto run = train("alone");
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, testing::HasSubstr("ndcg@20"));
  const std::vector<double> alone = losses("alone");
  const std::vector<std::pair<Words, const char*>> meshes = {
      {{"--set", "parallel.dp_shard=3", "--set", "train.micro_batches=2"}, "3"},
      {{"--set", "parallel.pp=2", "--set", "train.micro_batches=2"}, "2"},
      {{"--set", "parallel.tp=2", "--set", "parallel.dp_replicate=2"}, "4"}};
  for (const auto& [settings, ranks] : meshes) {
    const auto other = train("mesh", with(settings, {"--overwrite"}), {"--nproc-per-node", ranks});
    ASSERT_EQ(other.status, 0) << other.output;
    const std::vector<double> found = losses("mesh");
    ASSERT_EQ(found.size(), alone.size());
    for (size_t step = 0; step < alone.size(); ++step) EXPECT_NEAR(found[step], alone[step], 1e-5) << ranks << " ranks";
  }
}

TEST_F(HiddenItemsOfRuns, EvaluateTheLastItemOfASession) {
  ASSERT_EQ(train("alone", {"--set", "train.steps=60", "--set", "eval.metrics=['recall@3']"}).status, 0);
  const auto evaluated = modrun({"eval", run_folder("alone").string()});
  ASSERT_EQ(evaluated.status, 0) << evaluated.output;
  const at::Tensor ids = ids_.slice(0, 48), mask = mask_.slice(0, 48), last = mask.sum(1) - 1;
  const at::Tensor at_last = at::arange(kSeq).eq(last.unsqueeze(1));
  const at::Tensor labels = ids.masked_fill(at_last.logical_not(), -100);
  write(folder_.path() / "asked.safetensors", 48, 60,
        {{"labels", labels.contiguous()}, {"attention_mask", mask.contiguous()}});
  const at::Tensor found = logits("alone", folder_.path() / "asked.safetensors").index({at_last});
  const at::Tensor wanted = ids.masked_select(at_last);
  const double recall = std::get<1>(found.topk(3)).eq(wanted.unsqueeze(1)).any(1).to(at::kDouble).mean().item<double>();
  const std::string name = "recall@3 ";
  const size_t offset = evaluated.output.find(name);
  ASSERT_NE(offset, std::string::npos) << evaluated.output;
  EXPECT_NEAR(std::stod(evaluated.output.substr(offset + name.size())), recall, 1e-4) << evaluated.output;
}

TEST_F(HiddenItemsOfRuns, PredictTheItemAfterTheLast) {
  ASSERT_EQ(train("alone", {"--set", "train.steps=20"}).status, 0);
  const fs::path inputs = folder_.path() / "inputs.safetensors", outputs = folder_.path() / "outputs.safetensors";
  write(inputs, 0, 12);
  const auto predicted = modrun({"--nproc-per-node", "3", "predict", run_folder("alone").string(), "--inputs",
                                 inputs.string(), "--outputs", outputs.string()});
  ASSERT_EQ(predicted.status, 0) << predicted.output;
  // By hand: sessions of all eight positions lose their first item.
  at::Tensor ids = at::zeros({12, kSeq}, at::kLong), labels = at::full({12, kSeq}, -100, at::kLong), mask = ids.clone();
  for (int64_t row = 0; row < 12; ++row) {
    const int64_t items = mask_[row].sum().item<int64_t>(), kept = std::min(items, kSeq - 1);
    ids[row].narrow(0, 0, kept).copy_(ids_[row].narrow(0, items - kept, kept));
    mask[row].narrow(0, 0, kept + 1).fill_(1);
    labels[row][kept] = 7;  // arbitrary
  }
  const at::Tensor features = (ids.remainder(4) + 1).mul(ids.ne(0)).unsqueeze(-1);
  write_safetensors(folder_.path() / "asked.safetensors",
                    {{"input_ids", ids}, {"feature_ids", features}, {"attention_mask", mask}, {"labels", labels}});
  const at::Tensor scores = logits("alone", folder_.path() / "asked.safetensors").index({labels.ne(-100)}).softmax(-1);
  EXPECT_TRUE(SafetensorsFile(outputs).tensor("scores").allclose(std::get<0>(scores.topk(20)), 1e-4, 1e-5));
}

}  // namespace
}  // namespace modular
