// System resources of a step in steady state: no file, no thread, no memory, no wait for data.
#include <gtest/gtest.h>

#include <utility>

#include "runtime/ops/cpu/cpu_caching_allocator.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

using nlohmann::json;

// By step 20 all sizes have been allocated, and all caches are filled.
constexpr int64_t kSteps = 40, kSteady = 20;

class SteadySteps : public ModrunTest {
 protected:
  /// Trains a model whose activations take more than 1 MiB, on one file, and returns each rank's counts after each
  /// step.
  std::vector<std::vector<json>> counted(const std::vector<std::string>& settings, int64_t ranks) const {
    std::string text;
    for (int line = 0; line < 20000; ++line) text += "line " + std::to_string(line) + "\n";
    const auto data = folder_.write("one/data.txt", text);
    const int64_t rows = 8;
    const std::string name = "run" + std::to_string(++runs_);
    std::vector<std::string> words = training(
        name,
        with(set({"data.paths=[\"" + data.string() + "\"]", "data.validation_every=0", "model.config.hidden_size=128",
                  "model.config.intermediate_size=512", "train.seq_len=128", "train.batch_size=" + std::to_string(rows),
                  "train.steps=" + std::to_string(kSteps), "checkpoint.every=-1"}),
             set(settings)),
        {"--nproc-per-node", std::to_string(ranks)});
    words.insert(words.begin(), STEADY_MODRUN);
    const auto counts = (folder_.path() / (name + "-counts")).string();
    const auto run = testing::end_of_program(
        testing::start_program(words, folder_.path(),
                               {"MODULAR_STEADY=" + counts, "MODULAR_STEADY_STEPS=" + std::to_string(kSteps),
                                "MODULAR_STEADY_READS=" + std::to_string(rows / ranks)}));
    EXPECT_EQ(run.status, 0) << run.output;
    std::vector<std::vector<json>> result;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::ifstream in(counts + "-" + std::to_string(rank));
      auto& steps = result.emplace_back();
      for (std::string line; std::getline(in, line);) steps.push_back(json::parse(line));
    }
    return result;
  }

  mutable int runs_ = 0;
};

TEST_F(SteadySteps, OpenNoFileAllocateNoMemoryAndPrefetchTheirData) {
  if (cpu::kAddressSanitizer) GTEST_SKIP() << "which has an allocator of its own";
  for (const auto& [settings, ranks] : std::vector<std::pair<std::vector<std::string>, int64_t>>{
           {{}, 1}, {{"parallel.bf16=true"}, 1}, {{"parallel.dp_shard=2"}, 2}, {{"parallel.dp_replicate=2"}, 2}}) {
    SCOPED_TRACE(::testing::Message() << (settings.empty() ? "float32" : settings[0]));
    for (const auto& steps : counted(settings, ranks)) {
      ASSERT_EQ(steps.size(), static_cast<size_t>(kSteps));
      const auto grown = [&](const char* what) {
        return steps.back().at(what).get<int64_t>() - steps.at(kSteady - 1).at(what).get<int64_t>();
      };
      EXPECT_EQ(grown("opened"), 0);
      EXPECT_EQ(grown("mapped"), 0);
      EXPECT_EQ(grown("threads"), 0);
      EXPECT_GT(grown("large"), kSteps - kSteady) << "each step allocates more than 1 MiB at once,";
      // but the system gives no page for it: 1 MiB has 256. Gloo's threads meet some that they had not used before.
      EXPECT_LT(grown("faults"), (ranks == 1 ? 1 : 20) * (kSteps - kSteady));
    }
  }
}

}  // namespace
}  // namespace modular
