// A run on a GPU synchronizes once per step, after the entire step has been launched, to read its results. Runs on a
// device that counts the synchronizations of a GPU's host.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "runtime/train/preflight.h"
#include "runtime/train/save_signals.h"
#include "runtime/train/trainer.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/counted_device.h"

namespace modular::testing {
namespace {

using Waits = std::vector<std::string>;

struct Step {
  Waits waits;  // since the previous step ended
  double loss = 0.0;
};

std::vector<Step> steps_of_a_run_on(const at::Device& device, const std::vector<std::string>& settings = {}) {
  at::set_num_threads(1);
  TemporaryFolder folder;
  std::string text;
  for (int line = 0; line < 300; ++line) text += "line " + std::to_string(line * line) + "\n";
  std::vector<std::string> all = {"model.entry=llama",
                                  "model.config.vocab_size=256",
                                  "model.config.hidden_size=32",
                                  "model.config.intermediate_size=48",
                                  "model.config.num_hidden_layers=2",
                                  "model.config.num_attention_heads=4",
                                  "train.steps=6",
                                  "train.batch_size=8",
                                  "train.micro_batches=2",
                                  "train.seq_len=32",
                                  "train.dir=" + (folder.path() / "run").string(),
                                  "data.paths=[\"" + folder.write("data/text.txt", text).string() + "\"]",
                                  "data.validation_every=0",
                                  "optim.max_grad_norm=0.5",
                                  "checkpoint.every=-1"};
  all.insert(all.end(), settings.begin(), settings.end());
  Run run = prepare_run(read_run_config({}, all), {}, /*world_size=*/1);
  Mesh mesh({}, run.mesh, {.device = device});

  std::vector<Step> steps;
  WatchedHost host;
  hooks() = {{.on_step = [&](const StepMetrics& metrics, Mesh&) { steps.push_back({host.take(), metrics.loss}); }}};
  SaveSignals signals;
  train(run, mesh, signals);
  hooks().clear();
  return steps;
}

TEST(TrainerWaits, OncePerStepForItsResults) {
  const std::vector<Step> counted = steps_of_a_run_on(counted_device()), on_cpu = steps_of_a_run_on(at::kCPU);
  ASSERT_EQ(counted.size(), 6u);
  for (size_t step = 0; step < counted.size(); ++step) {
    if (step > 0) EXPECT_EQ(counted[step].waits, Waits{"a copy to the host"}) << "in step " << step + 1;
    EXPECT_NEAR(counted[step].loss, on_cpu[step].loss, 1e-4);
  }
}

}  // namespace
}  // namespace modular::testing
