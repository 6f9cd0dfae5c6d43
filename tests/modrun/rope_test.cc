// Rows longer than max_position_embeddings: rotary positions continue as in transformers, by each row's own length if
// frequencies depend on it, and learned position tables end.
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

class Rope : public ModrunTest {
 protected:
  /// One step of gradient descent on all rows.
  Finished step(const fs::path& of, const Words& settings, int ranks) const {
    const fs::path config = folder_.write(
        "step.toml",
        "[model]\ncheckpoint = '" + (of / "model").string() +
            "'\n[train]\nsteps = 1\nbatch_size = 6\n[optim]\nname = 'sgd'\nmomentum = 0\nlr = 0.5\n"
            "schedule = 'constant'\nwarmup_steps = 0\nweight_decay = 0\nmax_grad_norm = 0\n[eval]\nsamples = 0\n"
            "[checkpoint]\nform = 'full'\n[data]\nformat = 'examples'\nvalidation_every = 0\npaths = ['" +
            (of / "rows").string() + "']\n");
    return modrun(with({"--nproc-per-node", std::to_string(ranks), "train", config.string()},
                       set(with(settings, {"train.dir=" + (of / "run").string()}))));
  }
};

TEST_F(Rope, MatchesTransformersForAnyRowLengthOnEveryMesh) {
  const fs::path folder = folder_.path() / "rope", log = folder_.path() / "rope.log";
  const std::string command = std::string(PARITY_PYTHON " " ROPE_ROWS " ") + folder.string() + " > " + log.string();
  ASSERT_EQ(std::system((command + " 2>&1").c_str()), 0) << get_bytes(log);
  const std::vector<std::pair<Words, int>> meshes = {{{"parallel.dp_shard=2"}, 2},
                                                     {{"parallel.tp=2"}, 2},
                                                     {{"data.trim=true", "train.micro_batches=3"}, 1},
                                                     {{"parallel.pp=2", "train.micro_batches=2"}, 2},
                                                     {{}, 1}};
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto& [mesh, ranks] = meshes[count++ % meshes.size()];
    SCOPED_TRACE(entry.path().filename().string() + testing::PrintToString(mesh));
    const auto run = step(entry.path(), mesh, ranks);
    ASSERT_EQ(run.status, 0) << run.output;
    const SafetensorsFile found(entry.path() / "run/checkpoints/step-00000001/model.safetensors"),
        expected(entry.path() / "stepped/model.safetensors"), before(entry.path() / "model/model.safetensors");
    double moved = 0.0;
    ASSERT_EQ(found.tensors().size(), expected.tensors().size());
    for (const auto& [name, header] : expected.tensors()) {
      const at::Tensor wanted = expected.tensor(name);
      EXPECT_LE((found.tensor(name) - wanted).abs().max().item<double>(), 2e-6) << name;
      moved = std::max(moved, (before.tensor(name) - wanted).abs().max().item<double>());
    }
    EXPECT_GT(moved, 1e-2);
  }
  EXPECT_GE(count, 10u);
}

TEST_F(Rope, RejectsRowsBeyondLearnedPositions) {
  const at::Tensor ids = at::arange(4 * 24, at::kLong).remainder(64).view({4, 24});
  fs::create_directories(folder_.path() / "rows");
  write_safetensors(folder_.path() / "rows/a.safetensors", {{"input_ids", ids}, {"labels", ids}});
  for (const auto& [entry, sizes] :
       {std::pair("GPT2LMHeadModel", "n_positions = 16\nn_embd = 32\nn_layer = 1\nn_head = 4\n"),
        std::pair("BertForMaskedLM",
                  "max_position_embeddings = 16\nhidden_size = 32\nintermediate_size = 48\n"
                  "num_hidden_layers = 1\nnum_attention_heads = 4\n"),
        std::pair("RobertaForMaskedLM",
                  "max_position_embeddings = 18\nhidden_size = 32\nintermediate_size = 48\n"
                  "num_hidden_layers = 1\nnum_attention_heads = 4\npad_token_id = 1\n")}) {
    const auto run =
        modrun({"train", folder_
                             .write("learned.toml",
                                    std::string("[model]\nentry = '") + entry + "'\n[model.config]\nvocab_size = 64\n" +
                                        sizes + "[data]\nformat = 'examples'\nvalidation_every = 0\npaths = ['" +
                                        (folder_.path() / "rows").string() + "']\n")
                             .string()});
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, testing::AllOf(HasSubstr("24 tokens"), HasSubstr("positions for 16: write shorter ones"),
                                           HasSubstr("which defines another model")));
  }
}

}  // namespace
}  // namespace modular
