#include "runtime/checkpoint/pretrained_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace modular {
namespace {

FurtherLayers after_two_layers(const nlohmann::json& count) {
  const nlohmann::json config = {
      {"model_type", "llama"}, {"num_hidden_layers", 2}, {"num_nextn_predict_layers", count}};
  return FurtherLayers(parse_config(config.dump(), "config.json"));
}

TEST(FurtherLayers, FollowTheModelsLastLayer) {
  const FurtherLayers one = after_two_layers(1);
  EXPECT_TRUE(one.hold("model.layers.2.eh_proj.weight"));
  for (const char* name : {"model.layers.1.mlp.up_proj.weight", "model.layers.3.eh_proj.weight", "model.layers.2",
                           "model.layers.", "model.layers.x.y", "model.norm.weight"})
    EXPECT_FALSE(one.hold(name)) << name;
}

TEST(FurtherLayers, AnAbsurdCountTakesNoMemory) {
  EXPECT_TRUE(after_two_layers(UINT64_MAX).hold("model.layers.9000000000.x"));
  for (const nlohmann::json& none : {nlohmann::json(-1), nlohmann::json(1e308), nlohmann::json("2")})
    EXPECT_FALSE(after_two_layers(none).hold("model.layers.2.x"));
}

}  // namespace
}  // namespace modular
