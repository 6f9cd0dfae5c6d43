// Jobs whose machines do not agree: what each of them reports, before anything is trained.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using testing::Ended;
using testing::Started;

class NodesOfModrunTest : public ModrunTest {
 protected:
  /// Trains on two machines of one rank each, that have these further words, and returns how their launchers ended.
  std::array<Ended, 2> train_on_two(const std::string& name, const std::vector<std::string>& first,
                                    const std::vector<std::string>& second) {
    return run_on_two(training(name, first), training(name, second));
  }

  /// Runs these commands, each on a machine of one rank.
  std::array<Ended, 2> run_on_two(const std::vector<std::string>& first, const std::vector<std::string>& second) {
    const std::string port = std::to_string(testing::free_port());
    std::array<Started, 2> launchers;
    for (size_t node = 0; node < 2; ++node) {
      std::vector<std::string> words = {MODRUN,
                                        "--nnodes",
                                        "2",
                                        "--nproc-per-node",
                                        "1",
                                        "--node-rank",
                                        std::to_string(node),
                                        "--master-addr",
                                        "127.0.0.1",
                                        "--master-port",
                                        port};
      launchers[node] = testing::start_program(with(words, node == 0 ? first : second), folder_.path());
    }
    return {testing::end_of_program(launchers[0]), testing::end_of_program(launchers[1])};
  }
};

TEST_F(NodesOfModrunTest, MachinesThatAgreeTrain) {
  for (const Ended& ended : train_on_two("alike", {}, {})) EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(steps("alike").size(), 10U);
}

TEST_F(NodesOfModrunTest, WithoutATargetSayThatThereIsNoMetric) {
  std::filesystem::create_directories(folder_.path() / "examples");
  const at::Tensor labels = at::ones({20}, at::kLong);
  labels.narrow(0, 15, 5).fill_(-100);
  write_safetensors(folder_.path() / "examples/a.safetensors",
                    {{"input_ids", at::randint(2, 40, {20, 6}, at::kLong)}, {"labels", labels}});
  const std::vector<std::string> settings = {
      "--set", "model.entry=BertForSequenceClassification",
      "--set", "model.config.max_position_embeddings=16",
      "--set", "data.format=examples",
      "--set", fmt::format("data.paths=['{}']", (folder_.path() / "examples").string()),
      "--set", "data.held_out_part=0.25",
      "--set", "data.held_out_every=0",
      "--set", "train.steps=2"};
  for (const Ended& ended : train_on_two("run", settings, settings)) EXPECT_EQ(ended.status, 0) << ended.output;
  const std::vector<std::string> eval = {"eval", run_folder("run").string()};
  const auto ended = run_on_two(eval, eval);
  for (const Ended& launcher : ended) {
    EXPECT_EQ(launcher.status, 0) << launcher.output;
    for (const char* metric : {"accuracy", "f1", "nan"})
      EXPECT_EQ(launcher.output.find(metric), launcher.output.npos) << launcher.output;
  }
  EXPECT_NE(ended[0].output.find("no held-out loss and no metric: all labels are -100"), std::string::npos)
      << ended[0].output;
}

TEST_F(NodesOfModrunTest, TheFirstSettingThatDiffersIsNamedWithBothValues) {
  for (const char* file : {"0", "1", "2", "3", "4"})
    folder_.write(fmt::format("other/{}.txt", file), std::string(2000, *file));
  const std::vector<std::array<std::string, 3>> cases = {
      {"optim.lr=0.5", "optim.lr is 0.5 on rank 1 (", "), and 0.003 on rank 0 ("},
      {"train.seed=7", "train.seed is 7 on rank 1 (", "), and 1 on rank 0 ("},
      {"train.batch_size=16", "train.batch_size is 16 on rank 1 (", "), and 8 on rank 0 ("},
      {"model.config.rope_parameters.rope_theta=500.0", "rope_theta is 500.0 on rank 1 (",
       "), and 10000.0 on rank 0 ("},
      {"parallel.tp=2", "the mesh is tp 2 on rank 1 (", "), and dp_shard 2 on rank 0 ("},
      {fmt::format("data.paths=['{}']", (folder_.path() / "other").string()), "data.paths is 5 files on rank 1 (",
       "), and 8 files on rank 0 ("}};
  for (const auto& [setting, of_second, of_first] : cases)
    for (const Ended& ended : train_on_two("unlike", {}, {"--set", setting})) {
      EXPECT_NE(ended.status, 0);
      EXPECT_NE(ended.output.find(of_second), std::string::npos) << ended.output;
      EXPECT_NE(ended.output.find(of_first), std::string::npos) << ended.output;
      EXPECT_FALSE(std::filesystem::exists(run_folder("unlike") / "metrics.jsonl"));
    }
}

TEST_F(NodesOfModrunTest, DataOfTheSameNamesAndSizesIsComparedByItsBytes) {
  for (int file = 0; file < 8; ++file) {
    std::string text = get_bytes(folder_.path() / fmt::format("data/{}.txt", file));
    if (file == 5) text[0] = 'L';
    folder_.write(fmt::format("copy/{}.txt", file), text);
  }
  const std::string copy = fmt::format("data.paths=['{}']", (folder_.path() / "copy").string());
  for (const Ended& ended : train_on_two("copied", {}, {"--set", copy})) {
    EXPECT_NE(ended.status, 0);
    EXPECT_NE(ended.output.find("data.paths (file "), std::string::npos) << ended.output;
  }
  folder_.write("copy/5.txt", get_bytes(folder_.path() / "data/5.txt"));
  for (const Ended& ended : train_on_two("copied", {}, {"--set", copy})) EXPECT_EQ(ended.status, 0) << ended.output;
}

TEST_F(NodesOfModrunTest, AMachineThatIsRejectedBeforeTheStartEndsTheOthersWithItsSentence) {
  const std::vector<std::string> missing = {"--set", "data.paths=['/no/such/folder']"};
  for (const bool is_first : {true, false}) {
    const auto ended = train_on_two("missing", is_first ? missing : std::vector<std::string>(),
                                    is_first ? std::vector<std::string>() : missing);
    for (const Ended& launcher : ended) {
      EXPECT_EQ(launcher.status, 2);
      EXPECT_LT(launcher.seconds, 10.0);
      EXPECT_NE(launcher.output.find("/no/such/folder: No such file or directory"), std::string::npos)
          << launcher.output;
    }
    EXPECT_NE(ended[is_first ? 1 : 0].output.find(fmt::format("modrun: node {} (", is_first ? 0 : 1)),
              std::string::npos);
  }
}

TEST_F(NodesOfModrunTest, AFolderThatHoldsARunIsFoundBeforeTheStartOnAllMachines) {
  ASSERT_EQ(train("there").status, 0);
  for (const Ended& ended : train_on_two("there", {}, {})) {
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.output.find("already holds a run"), std::string::npos) << ended.output;
  }
}

}  // namespace
}  // namespace modular
