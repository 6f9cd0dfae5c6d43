// What a run reports.
#include "runtime/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/train/device_usage.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

std::vector<nlohmann::json> lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> result;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

constexpr StepMetrics kStep = {.step = 3,
                               .loss = 4.25,
                               .grad_norm = 1.5,
                               .lr = 3e-4,
                               .seconds = 2.0,
                               .tokens = 4096,
                               .samples = 48,
                               .memory_peak = 1 << 30};

TEST(MetricsFile, EachStepIsOneObject) {
  TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  MetricsFile file(path, 0);
  file.start(0, 2, "dp_shard 2", 1000, 0.5);
  file.step(kStep);
  file.evaluation(3, 2.5, 100);
  file.sample(3, "not \xff UTF-8");

  const auto written = lines(path);
  ASSERT_EQ(written.size(), 4u);
  EXPECT_EQ(written[0]["event"], "start");
  EXPECT_EQ(written[0]["start_to_first_step"], 0.5);
  EXPECT_EQ(written[1]["step"], 3);
  EXPECT_EQ(written[1]["loss"], 4.25);
  EXPECT_EQ(written[1]["grad_norm"], 1.5);
  EXPECT_EQ(written[1]["lr"], 3e-4);
  EXPECT_EQ(written[1]["tokens_per_second"], 2048.0);
  EXPECT_EQ(written[1]["memory_peak"], 1 << 30);
  EXPECT_FALSE(written[1].contains("mfu")) << "the device's peak is not known";
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

TEST(FormatStep, FitsALine) {
  EXPECT_EQ(format_step(kStep, 1003, 2048.0, "tokens"),
            "step    3/1003  loss 4.2500  grad norm 1.500  lr 3.00e-04  2048 tokens/s  1.00 GiB  eta 33:20");
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

}  // namespace
}  // namespace modular
