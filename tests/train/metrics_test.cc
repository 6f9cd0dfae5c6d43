// What a run reports.
#include "runtime/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/train/device_usage.h"
#include "tests/data/temporary_folder.h"
#include "tests/support/without_proc.h"

namespace modular {
namespace {

std::vector<nlohmann::json> lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> result;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

const StepMetrics kStep = {.step = 3,
                           .loss = 4.25,
                           .grad_norm = 1.5,
                           .lr = 3e-4,
                           .seconds = 2.0,
                           .data_wait = 0.5,
                           .tokens = 4096,
                           .step_samples = 16,
                           .samples = 48,
                           .memory_peak = 1 << 30};

TEST(MetricsFile, EachStepIsOneObject) {
  TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsFile file(path, 0);
  file.start(0, 2, "dp_shard 2", 1000, 0.5);
  file.step(kStep);
  file.evaluation({3, 2.5, 100});
  file.sample(3, "not \xff UTF-8");
  StepMetrics of_experts = kStep;
  of_experts.router_loss = 0.125, of_experts.expert_load = 1.5;
  file.step(of_experts);

  const auto written = lines(path);
  ASSERT_EQ(written.size(), 5u);
  EXPECT_EQ(written[4]["router_loss"], 0.125);
  EXPECT_EQ(written[4]["expert_load"], 1.5);
  EXPECT_EQ(written[0]["event"], "start");
  EXPECT_EQ(written[0]["start_to_first_step"], 0.5);
  EXPECT_EQ(written[1]["step"], 3);
  EXPECT_EQ(written[1]["loss"], 4.25);
  EXPECT_EQ(written[1]["grad_norm"], 1.5);
  EXPECT_EQ(written[1]["lr"], 3e-4);
  EXPECT_EQ(written[1]["tokens_per_second"], 2048.0);
  EXPECT_EQ(written[1]["samples_per_second"], 8.0);
  EXPECT_EQ(written[1]["data_wait"], 0.5);
  EXPECT_EQ(written[1]["memory_peak"], 1 << 30);
  EXPECT_FALSE(written[1].contains("mfu")) << "the device's peak is not known";
  EXPECT_FALSE(written[1].contains("router_loss") || written[1].contains("expert_load")) << "there are no experts";
  EXPECT_EQ(written[2]["held_out_loss"], 2.5);
  EXPECT_EQ(written[3]["text"], "not \xef\xbf\xbd UTF-8");
}

TEST(MetricsFile, ResumingPutsAFileInThePlaceOfTheOldOne) {
  TemporaryFolder folder;
  const std::string text = "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n";
  const auto path = folder.write("metrics.jsonl", text), old = folder.path() / "old";
  std::filesystem::create_hard_link(path, old);
  MetricsFile(path, 2);
  EXPECT_EQ(lines(path).size(), 2u);
  std::ifstream in(old);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text) << "the old file was written into";
}

TEST(MetricsFile, ResumingRemovesWhatACrashLeftBehind) {
  TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4, \"lo");
  MetricsFile(path, 2).step(kStep);
  const auto written = lines(path);
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(written[1]["step"], 2);
  EXPECT_EQ(written[2]["loss"], 4.25);
}

TEST(MetricsFile, EvaluationsAreReadBackWhateverElseIsThere) {
  TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  EXPECT_TRUE(read_evaluations(path).empty());
  {
    MetricsFile file(path, 0);
    file.step(kStep);
    file.evaluation({3, 2.5, 100});
    file.evaluation({6, 2.75, 100});
    file.evaluation({9, 2.0, 100});
    file.rollback(11, 8);
  }
  std::ofstream(path, std::ios::app)
      << "{\"event\": \"evaluation\"}\n7\n{\"event\": \"evaluation\", \"step\": 9, \"held";
  const auto read = read_evaluations(path);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].step, 3);
  EXPECT_EQ(read[0].loss, 2.5);
  EXPECT_EQ(read[1].step, 6);
  EXPECT_EQ(read[1].targets, 100);
}

TEST(MetricsFile, HasNoLossWithoutTargets) {
  TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  StepMetrics step = kStep;
  step.has_targets = false;
  MetricsFile file(path, 0);
  file.step(step);
  file.evaluation({.step = 3});
  const auto written = lines(path);
  EXPECT_FALSE(written[0].contains("loss"));
  EXPECT_FALSE(written[1].contains("held_out_loss"));
  EXPECT_EQ(written[1]["targets"], 0);
  const auto read = read_evaluations(path);
  ASSERT_EQ(read.size(), 1u) << "a run that is resumed has made this evaluation";
  EXPECT_EQ(read[0].targets, 0);
  StepSums sums;
  sums.add(step);
  EXPECT_NE(format_step(step, 3, sums, /*has_text=*/true).find("loss none  grad norm"), std::string::npos);
  EXPECT_EQ(format_evaluation(read[0], "nats a row"), "no held-out loss, as all labels are -100");
}

TEST(FormatStep, RatesAreOfTheStepsSinceTheLastLine) {
  StepSums sums;
  sums.add(kStep);
  EXPECT_EQ(format_step(kStep, 1003, sums, /*has_text=*/true),
            "step    3/1003  loss 4.2500  grad norm 1.500  lr 3.00e-04  2048 tokens/s  8.0 samples/s  data wait 25 %  "
            "1.00 GiB  eta 33:20");
  StepMetrics faster = kStep;
  faster.seconds = 0.5, faster.data_wait = 0.0;
  sums.add(faster);
  EXPECT_EQ(format_step(kStep, 1003, sums, /*has_text=*/false),
            "step    3/1003  loss 4.2500  grad norm 1.500  lr 3.00e-04  12.8 examples/s  data wait 20 %  1.00 GiB  "
            "eta 20:50");
}

TEST(FormatStep, TimeThatIsLeftIsNeitherNegativeNorTooLargeToShow) {
  const auto left = [](StepMetrics step, int64_t steps) {
    StepSums sums;
    sums.add(step);
    const std::string line = format_step(step, steps, sums, /*has_text=*/true);
    return line.substr(line.find("  eta ") + 6);
  };
  EXPECT_EQ(left(kStep, 2), "0:00") << "the run was made shorter";
  EXPECT_EQ(left(kStep, 3 + 3600), "2:00:00");
  EXPECT_EQ(left(kStep, int64_t{1} << 40), "610839793:12:26") << "what it is multiplied by has more than 63 bits";
  StepMetrics none = kStep;
  none.step_samples = 0;
  EXPECT_EQ(left(none, 1000), "unknown");
}

const RunSummary kSummary = {.step = 30,
                             .steps = 20,
                             .samples = 320,
                             .tokens = 81920,
                             .seconds = 75.5,
                             .seconds_of_steps = 64.0,
                             .memory_peak = 3 << 29};

TEST(FormatSummary, SaysWhereTheRunIs) {
  RunSummary summary = kSummary;
  EXPECT_EQ(format_summary(summary, 30, "nats/token", /*has_text=*/true),
            "trained 20 steps in 1:15: 320 samples, 0.08 M tokens, 1280 tokens/s\n"
            "at most 1.50 GiB of memory on a rank; no checkpoint was written, as checkpoint.every is -1\n");
  summary.last = {30, 2.5, 100};
  summary.best = {25, 2.25, 100};
  summary.checkpoints = "runs/a/checkpoints";
  summary.stopped_by = "SIGTERM";
  EXPECT_EQ(format_summary(summary, 40, "nats a row", /*has_text=*/false),
            "stopped by SIGTERM after step 30 of 40: --resume continues it\n"
            "trained 20 steps in 1:15: 320 examples, 1280.0 examples/s\n"
            "last held-out loss 2.5000 nats a row after step 30, best 2.2500 after step 25\n"
            "at most 1.50 GiB of memory on a rank; checkpoints are in runs/a/checkpoints\n");
}

TEST(MetricsFile, EndSaysWhatIsKnown) {
  TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  RunSummary summary = kSummary;
  MetricsFile file(path, 0);
  file.end(summary);
  summary.last = {30, 2.5, 100};
  summary.best = {25, 2.25, 100};
  summary.stopped_by = "SIGTERM";
  file.end(summary);
  const auto written = lines(path);
  EXPECT_EQ(written[0]["steps"], 20);
  EXPECT_EQ(written[0]["tokens_per_second"], 1280.0);
  for (const char* key : {"held_out_loss", "best_held_out_loss", "best_step", "checkpoints", "stopped_by"})
    EXPECT_FALSE(written[0].contains(key)) << key;
  EXPECT_EQ(written[1]["held_out_loss"], 2.5);
  EXPECT_EQ(written[1]["best_held_out_loss"], 2.25);
  EXPECT_EQ(written[1]["best_step"], 25);
  EXPECT_EQ(written[1]["stopped_by"], "SIGTERM");
}

TEST(SecondsSinceStart, CountsFromTheProcess) {
  const double first = seconds_since_start();
  EXPECT_GT(first, 0.0);
  EXPECT_LT(first, 300.0);
  EXPECT_GE(seconds_since_start(), first);
}

TEST(MemoryPeak, IsAtLeastWhatIsHeld) {
  const auto held = at::ones({1 << 24});  // 64 MiB
  EXPECT_GT(memory_peak(at::kCPU), 64 << 20);
}

TEST(SecondsSinceStart, DISABLED_WithoutProc) {
  EXPECT_GE(seconds_since_start(), 0.0);
  EXPECT_LT(seconds_since_start(), 60.0);
}

TEST(SecondsSinceStart, AreCountedWithoutProc) {
  const auto prefix = without_proc();
  if (!prefix) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_TRUE(passes_without_proc(*prefix, "SecondsSinceStart.DISABLED_WithoutProc"));
}

}  // namespace
}  // namespace modular
