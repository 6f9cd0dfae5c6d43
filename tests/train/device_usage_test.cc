// How much arithmetic a token takes, by closed forms.
#include "runtime/train/device_usage.h"

#include <gtest/gtest.h>

#include <string>

#include "generated/bert.h"
#include "generated/gpt2.h"
#include "generated/llama.h"
#include "generated/mixtral.h"

namespace modular {
namespace {

double of_attention(const std::string& config) {
  return flops_per_token(parse_config(config, "config.json"), /*parameters=*/0, /*seq_len=*/16);
}

TEST(FlopsPerToken, CountAttentionWhateverAFamilyCallsItsSizes) {
  EXPECT_EQ(of_attention(R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4})"), 12 * 3 * 32 * 16);
  EXPECT_EQ(of_attention(R"({"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                             "intermediate_size": 64})"),
            12 * 3 * 32 * 16);
  EXPECT_EQ(of_attention(R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                             "head_dim": 16, "intermediate_size": 64})"),
            12 * 3 * 64 * 16);
}

TEST(ExpertsPerToken, AreThoseThatTheRouterChooses) {
  EXPECT_EQ(experts_per_token(parse_config(R"({"model_type": "mixtral", "num_experts_per_tok": 3})", "config.json")),
            3);
  EXPECT_EQ(experts_per_token(parse_config(R"({"model_type": "llama"})", "config.json")), 0);
}

}  // namespace
}  // namespace modular
