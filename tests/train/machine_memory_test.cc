// Minimum memory of a run, and machines with less.
#include "runtime/train/machine_memory.h"

#include <gmock/gmock.h>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

RunConfig to_config(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"model.entry=llama",
                                  "train.device=cpu",
                                  "model.config.vocab_size=100",
                                  "model.config.hidden_size=32",
                                  "model.config.intermediate_size=64",
                                  "model.config.num_hidden_layers=3",
                                  "model.config.num_attention_heads=4",
                                  "model.config.tie_word_embeddings=true"};
  all.insert(all.end(), settings.begin(), settings.end());
  return read_run_config({}, all);
}

constexpr double kLayer = 4 * 32 * 32 + 3 * 32 * 64 + 2 * 32, kElements = 100 * 32 + 3 * kLayer + 32;
const MeshShape kOne = {}, kFourShards = {.size = {1, 1, 4, 1, 1}}, kAllAxes6 = {.size = {3, 2, 4, 1, 2}};

TEST(LeastMemory, IsEachRanksPartOfParametersGradientsAndState) {
  EXPECT_EQ(least_memory(to_config({}), kOne), 4 * 4 * kElements);
  EXPECT_EQ(least_memory(to_config({"optim.name=sgd", "optim.momentum=0"}), kOne), 4 * 2 * kElements);
  EXPECT_EQ(least_memory(to_config({"parallel.zero_stage=3"}), kFourShards), 4 * 4 * kElements / 4);
  EXPECT_EQ(least_memory(to_config({"parallel.zero_stage=2"}), kFourShards), 4 * (kElements + 3 * kElements / 4));
  EXPECT_EQ(least_memory(to_config({"parallel.zero_stage=1"}), kFourShards), 4 * (2 * kElements + 2 * kElements / 4));
  EXPECT_EQ(least_memory(to_config({}), kAllAxes6), 4 * 4 * kElements / (3 * 4 * 2));
}

TEST(MachineMemory, IsSharedByTheRanksOfAMachine) {
  const auto needed = static_cast<int64_t>(4 * 4 * kElements);
  check_machine_memory(to_config({}), kOne, 2, 2 * needed);
  EXPECT_THAT(
      get_message<ConfigError>([&] { check_machine_memory(to_config({}), kOne, 2, 2 * needed - 1); }),
      testing::HasSubstr("LlamaForCausalLM is too large: its parameters, their gradients and the state of adamw take"));
  EXPECT_GT(machine_memory(), int64_t{1} << 28);
}

TEST(MachineMemory, HoldsTheIdsOfAStepAndTheHiddenStatesOfAMicroBatch) {
  const auto check = [](const std::vector<std::string>& settings, int64_t memory) {
    std::vector<std::string> all = {"train.batch_size=16777216", "train.seq_len=1024"};
    all.insert(all.end(), settings.begin(), settings.end());
    check_machine_memory(to_config(all), kFourShards, 2, memory);
  };
  const auto message = [&](const std::vector<std::string>& settings, int64_t memory) {
    return get_message<ConfigError>([&] { check(settings, memory); });
  };
  constexpr int64_t kTokens = (int64_t{1} << 34) / 4 * 2;  // of two ranks
  check({"train.micro_batches=4096"}, kTokens * 16);
  EXPECT_THAT(
      message({"train.micro_batches=4096"}, kTokens * 16 - 1),
      testing::StartsWith("--set train.batch_size=16777216: train.batch_size = 16777216 samples of train.seq_len = "
                          "1024 tokens: their ids and labels take 128.0 GiB on the 2 ranks of this machine"));
  check({}, kTokens * 32 * 4);
  EXPECT_THAT(
      message({}, kTokens * 32 * 4 - 1),
      testing::HasSubstr("tokens: the hidden states of one layer, with train.micro_batches = 1, take 1024.0 GiB"));
}

}  // namespace
}  // namespace modular
