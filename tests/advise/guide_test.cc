// Each case of Hugging Face's "Efficient Training on Multiple GPUs" and its advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/advise/advice.h"
#include "tests/advise/transformer_profile.h"

namespace modular::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Fit = GuideCase::Fit;

ModelProfile llama(const DecoderSizes& sizes) { return decoder_profile(sizes, 2048, {{"none", 0.0}, {"full", 1.0}}); }

constexpr DecoderSizes kOneB = {16, 2048, 8192, 32, 8, 128256};  // Llama 3.2's

Cluster h100(int64_t nodes, double between = 50e9) {
  return {.nodes = nodes, .per_node = 8, .memory = 80 * 0x1p30, .link = 450e9, .between = between, .flops = 989e12};
}

TEST(Guide, OneNodeAndAModelThatFitsADevice) {
  const GuideCase found = guide_case(llama(kOneB), h100(1));
  EXPECT_EQ(found.fit, Fit::model);
  EXPECT_FALSE(found.many_nodes);
  EXPECT_THAT(found.sentences,
              ElementsAre(HasSubstr("The model fits one device"), AllOf(HasSubstr("DDP"), HasSubstr("ZeRO"))));
}

TEST(Guide, OneNodeAndAModelThatDoesNotFit) {
  const GuideCase found = guide_case(llama(kLlama3_8B), h100(1));
  EXPECT_EQ(found.fit, Fit::layer);
  EXPECT_THAT(found.sentences, ElementsAre(HasSubstr("Its largest layer fits"),
                                           AllOf(HasSubstr("pipeline stages, ZeRO and tensor parallelism"),
                                                 HasSubstr("within a node"))));
}

TEST(Guide, OneNodeAndALayerThatDoesNotFit) {
  Cluster small = h100(1);
  small.memory = 40 * 0x1p30;
  const GuideCase found = guide_case(llama(kLlama3_405B), small);
  EXPECT_EQ(found.fit, Fit::not_even_a_layer);
  EXPECT_GT(found.layer_bytes, small.usable_memory());
  EXPECT_THAT(found.sentences,
              ElementsAre(HasSubstr("Not even the largest layer"), AllOf(HasSubstr("Pipeline stages alone do not help"),
                                                                         HasSubstr("8 devices"), HasSubstr("ZeRO"))));
}

TEST(Guide, ManyNodesWithFastLinks) {
  const GuideCase found = guide_case(llama(kLlama3_70B), h100(8));
  EXPECT_TRUE(found.many_nodes && found.fast_between);
  EXPECT_THAT(found.sentences.back(), AllOf(HasSubstr("fast links"), HasSubstr("ZeRO over all devices")));
}

TEST(Guide, ManyNodesWithSlowLinks) {
  const GuideCase found = guide_case(llama(kLlama3_70B), h100(8, 1e9));
  EXPECT_TRUE(found.many_nodes);
  EXPECT_FALSE(found.fast_between);
  EXPECT_THAT(found.sentences.back(),
              AllOf(HasSubstr("slow links"), HasSubstr("pipeline over nodes"), HasSubstr("ZeRO 1")));
  EXPECT_THAT(guide_case(llama(kOneB), h100(8, 1e9)).sentences.back(), HasSubstr("replicate over nodes"));
}

TEST(Guide, OneDevice) {
  Cluster alone = h100(1);
  alone.per_node = 1;
  EXPECT_THAT(guide_case(llama(kOneB), alone).sentences, ElementsAre(HasSubstr("fits one device")));
  EXPECT_THAT(guide_case(llama(kLlama3_8B), alone).sentences,
              ElementsAre(HasSubstr("does not fit"), HasSubstr("offloading")));
}

}  // namespace
}  // namespace modular::testing
