// FLOPs per row by closed forms, and peaks of GPUs by their drivers' names.
#include "runtime/train/device_usage.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/config/known_devices.h"

namespace modular {
namespace {

double of_attention(const std::string& config) {
  return flops_per_row(parse_config(config, "config.json"), /*parameters=*/0, /*tokens=*/16).value() / 16;
}

TEST(FlopsPerRow, CountTheParametersOnceForEachToken) {
  const auto model = parse_config(R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4})", "config.json");
  EXPECT_EQ(flops_per_row(model, 1000, 16).value() - flops_per_row(model, 0, 16).value(), 6 * 1000 * 16);
}

TEST(FlopsPerRow, CountThePatchesOfAnImageAndItsClassToken) {
  const auto model = parse_config(R"({"model_type": "vit", "image_size": 32, "patch_size": 8, "hidden_size": 48,
                                      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64})",
                                  "config.json");
  EXPECT_EQ(flops_per_row(model, 1000, 1), 17 * (6 * 1000 + 12 * 2 * 48 * 17));
}

TEST(FlopsPerRow, AreUnknownForTwoTowers) {
  EXPECT_FALSE(flops_per_row(parse_config(R"({"model_type": "clip"})", "config.json"), 1000, 77));
}

TEST(FlopsPerRow, CountAttentionForAnyNamesOfSizes) {
  EXPECT_EQ(of_attention(R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4})"), 12 * 3 * 32 * 16);
  EXPECT_EQ(of_attention(R"({"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                             "intermediate_size": 64})"),
            12 * 3 * 32 * 16);
  EXPECT_EQ(of_attention(R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
                             "head_dim": 16, "intermediate_size": 64})"),
            12 * 3 * 64 * 16);
}

TEST(Peaks, AreKnownByTheNamesThatDriversGive) {
  EXPECT_EQ(peak_of_make("NVIDIA H100 80GB HBM3", /*bf16=*/true), 989e12);
  EXPECT_EQ(peak_of_make("NVIDIA H100 PCIe", true), 756e12);
  EXPECT_EQ(peak_of_make("NVIDIA H200", false), 67e12);
  EXPECT_EQ(peak_of_make("NVIDIA GH200 480GB", true), 989e12);
  EXPECT_EQ(peak_of_make("NVIDIA A100-SXM4-80GB", false), 19.5e12);
  EXPECT_EQ(peak_of_make("NVIDIA L40S", true), 362e12);
  EXPECT_EQ(peak_of_make("NVIDIA L4", true), 121e12);
  EXPECT_EQ(peak_of_make("NVIDIA L40", true), std::nullopt) << "which is no L4";
  EXPECT_EQ(peak_of_make("", true), std::nullopt);
}

TEST(KnownDevices, AreFoundByTheNamesThatDriversGive) {
  for (const auto& [make, name] :
       {std::pair("NVIDIA A100-SXM4-80GB", "a100"), std::pair("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        std::pair("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"), std::pair("NVIDIA A100 80GB PCIe", "a100-pcie"),
        std::pair("NVIDIA H100 80GB HBM3", "h100"), std::pair("NVIDIA H100 PCIe", "h100-pcie"),
        std::pair("NVIDIA H100 NVL", "h100-nvl"), std::pair("NVIDIA H200", "h200"),
        std::pair("NVIDIA GH200 480GB", "gh200"), std::pair("NVIDIA B200", "b200"),
        std::pair("AMD Instinct MI300X OAM", "mi300x")}) {
    ASSERT_NE(device_by_make(make), nullptr) << make;
    EXPECT_EQ(device_by_make(make), device_by_name(name)) << make;
  }
  EXPECT_EQ(device_by_make("NVIDIA V100"), nullptr);
  for (const KnownDevice& device : known_devices()) {
    EXPECT_LT(device.fp32, device.bf16) << device.name;
    if (device.fp8 > 0.0) EXPECT_NEAR(device.fp8 / device.bf16, 2.0, 0.03) << device.name;
  }
}

TEST(ParameterCounts, CountActiveParameters) {
  const auto counts = [](const std::string& own) {
    return count_parameters(parse_config(R"({"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64,
                                             "num_hidden_layers": 3, "num_attention_heads": 4,
                                             "num_key_value_heads": 2, )" +
                                             own + "}",
                                         "config.json"));
  };
  const auto tied = counts(R"("model_type": "llama", "tie_word_embeddings": true)"),
             untied = counts(R"("model_type": "llama", "tie_word_embeddings": false)"),
             mixed = counts(R"("model_type": "mixtral", "tie_word_embeddings": true, "num_local_experts": 8,
                               "num_experts_per_tok": 3)");
  EXPECT_EQ(tied.all, tied.multiplied) << "the table of tokens is the head";
  EXPECT_EQ(untied.all, tied.all + 100 * 32);
  EXPECT_EQ(untied.multiplied, tied.all) << "a token is looked up in one of two tables";
  EXPECT_EQ(mixed.all - mixed.multiplied, 3 * 5 * 3 * 32 * 64) << "five experts a layer are not chosen";
}

}  // namespace
}  // namespace modular
