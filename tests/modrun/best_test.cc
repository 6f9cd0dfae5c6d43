// The checkpoint of the best evaluation is kept next to the newest one, and a run ends after too many evaluations
// without improvement.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

/// The learning rate rises until the model gets worse, permanently after step 8.
const Words kGetsWorse = {
    "--set", "train.steps=40",        "--set", "optim.lr=3",         "--set", "optim.schedule=constant",
    "--set", "optim.warmup_steps=40", "--set", "eval.every=2",       "--set", "checkpoint.keep=1",
    "--set", "optim.max_grad_norm=0", "--set", "train.batch_size=6", "--set", "checkpoint.every=3"};

class Best : public ModrunTest {
 protected:
  std::vector<json> evaluations(const std::string& name) const { return events(name, "evaluation"); }

  /// Step of the best evaluation so far.
  int64_t best_step(const std::string& name) const {
    const auto all = evaluations(name);
    const auto best = std::ranges::min_element(all, {}, [](const json& e) { return e["val_loss"].get<double>(); });
    return (*best)["step"];
  }

  fs::path checkpoints(const std::string& name) const { return run_folder(name) / "checkpoints"; }

  std::vector<std::string> steps_saved(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints(name)))
      if (entry.is_directory() && !entry.is_symlink()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  double val_loss(const fs::path& checkpoint) const {
    const auto run = modrun({"eval", run_folder("run").string(), "--checkpoint", checkpoint.string()});
    EXPECT_EQ(run.status, 0) << run.output;
    return std::stod(run.output.substr(run.output.find("validation loss ") + 16));
  }
};

TEST_F(Best, KeepsTheCheckpointOfTheBestEvaluation) {
  const auto run = train("run", with(kGetsWorse, {"--set", "checkpoint.best=loss"}), {"--nproc-per-node", "3"});
  ASSERT_EQ(run.status, 0) << run.output;
  const int64_t best = best_step("run");
  ASSERT_GT(best, 2);
  ASSERT_LT(best, 38);
  EXPECT_EQ(fs::read_symlink(checkpoints("run") / "best"), fmt::format("step-{:08}", best));
  EXPECT_EQ(steps_saved("run"), (Words{fmt::format("step-{:08}", best), "step-00000040"}));
  double least = 1e9;
  for (const json& evaluation : evaluations("run")) least = std::min(least, evaluation["val_loss"].get<double>());
  EXPECT_NEAR(val_loss(checkpoints("run") / "best"), least, 1e-5);
  EXPECT_GT(val_loss(checkpoints("run") / "step-00000040"), least + 0.01);
}

TEST_F(Best, ResumedRunKnowsThePreviousBest) {
  const Words options = with(kGetsWorse, {"--set", "checkpoint.best=perplexity"});
  ASSERT_EQ(train("run", options).status, 0);
  const int64_t best = best_step("run");
  const auto longer = train("run", with(options, {"--resume", "--set", "train.steps=44"}));
  ASSERT_EQ(longer.status, 0) << longer.output;
  EXPECT_EQ(best_step("run"), best);
  EXPECT_EQ(steps_saved("run"), (Words{fmt::format("step-{:08}", best), "step-00000044"}));
  EXPECT_EQ(fs::read_symlink(checkpoints("run") / "best"), fmt::format("step-{:08}", best));
}

TEST_F(Best, PatienceEndsARunOnAllRanksWithACheckpoint) {
  const auto run = train("run", with(kGetsWorse, {"--set", "eval.patience=3", "--set", "checkpoint.best=loss"}),
                         {"--nproc-per-node", "3"});
  ASSERT_EQ(run.status, 0) << run.output;
  const int64_t best = best_step("run");
  EXPECT_EQ(evaluations("run").back()["step"], best + 6);
  EXPECT_EQ(steps("run").size(), static_cast<size_t>(best + 6));
  EXPECT_EQ(steps_saved("run"), (Words{fmt::format("step-{:08}", best), fmt::format("step-{:08}", best + 6)}));
  EXPECT_THAT(run.output, HasSubstr(fmt::format("3 evaluations were not better than the one after step {}", best)));
  // It does not continue by itself, but does with a longer patience.
  const auto again =
      train("run", with(kGetsWorse, {"--resume", "--set", "eval.patience=3", "--set", "checkpoint.best=loss"}));
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(steps("run").size(), static_cast<size_t>(best + 6));
  const auto on =
      train("run", with(kGetsWorse, {"--resume", "--set", "eval.patience=4", "--set", "checkpoint.best=loss"}));
  ASSERT_EQ(on.status, 0) << on.output;
  EXPECT_EQ(steps("run").size(), static_cast<size_t>(best + 8));
}

TEST_F(Best, ResumesFromTheBestCheckpoint) {
  ASSERT_EQ(train("run", with(kGetsWorse, {"--set", "checkpoint.best=loss"})).status, 0);
  const int64_t best = best_step("run");
  const auto from_best = train("run", with(kGetsWorse, {"--resume=best", "--set", "checkpoint.best=loss", "--set",
                                                        fmt::format("train.steps={}", best)}));
  ASSERT_EQ(from_best.status, 0) << from_best.output;
  const auto again =
      train("run", with(kGetsWorse, {"--resume", "--set", "checkpoint.best=loss", "--set", "train.steps=10"}));
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(steps("run").back()["step"], 10);
}

TEST_F(Best, ForgetsTheBestWithItsCheckpoint) {
  ASSERT_EQ(train("run", with(kGetsWorse, {"--set", "checkpoint.best=loss"})).status, 0);
  // The user no longer wants it: checkpoint.keep removes it, and the dangling link.
  ASSERT_EQ(train("run", with(kGetsWorse, {"--resume", "--set", "checkpoint.best=", "--set", "train.steps=44"})).status,
            0);
  EXPECT_EQ(steps_saved("run"), Words{"step-00000044"});
  EXPECT_FALSE(fs::is_symlink(checkpoints("run") / "best"));
  // Wanted again, after the checkpoint of step 8 is gone.
  const auto run =
      train("run", with(kGetsWorse, {"--resume", "--set", "checkpoint.best=loss", "--set", "train.steps=48"}),
            {"--nproc-per-node", "3"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("the checkpoint of the best evaluation, after step 8, is missing"));
  EXPECT_TRUE(fs::exists(checkpoints("run") / "best/checkpoint.json"));
  EXPECT_GT(fs::read_symlink(checkpoints("run") / "best").string(), "step-00000044");
}

TEST_F(Best, NeedsValidationDataCheckpointsAndAKnownMetric) {
  const auto error = [&](const Words& settings) {
    Words words;
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const auto run = train("rejected", words);
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_FALSE(fs::exists(run_folder("rejected")));
    return run.output;
  };
  EXPECT_THAT(error({"checkpoint.best=loss", "data.validation_every=0"}),
              HasSubstr("checkpoint.best compares evaluations, and there is no validation data"));
  EXPECT_THAT(error({"eval.patience=2", "data.validation_every=0"}),
              HasSubstr("eval.patience compares evaluations, and there is no validation data"));
  EXPECT_THAT(error({"eval.patience=2"}), HasSubstr("eval.patience is 2, and eval.every 0"));
  EXPECT_THAT(error({"checkpoint.best=accuracy"}),
              HasSubstr("checkpoint.best is \"accuracy\": it must be one of loss, perplexity, or among eval.metrics"));
  EXPECT_THAT(error({"checkpoint.best=loss", "checkpoint.every=-1"}),
              HasSubstr("checkpoint.best is \"loss\", and checkpoint.every is -1"));
}

}  // namespace
}  // namespace modular
