// A model before any computation: its config, its parameters and their initial values, each compared with transformers.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"

namespace modular {
namespace {

using nlohmann::json;

/// Every field that exists on both sides must have the same value. A field that is not declared in transformers is one
/// that the model reads if config.json sets it.
void expect_same_values(const json& ours, const json& theirs, const std::string& path) {
  for (const auto& [key, value] : ours.items()) {
    const std::string name = path + key;
    if (!theirs.contains(key)) continue;
    if ((key == "head_dim" || key == "n_inner") && theirs[key].is_null())
      continue;  // filled in only by the model in transformers
    if (value == json::array() && theirs[key].is_null()) continue;
    if (value.is_object() && theirs[key].is_object())
      expect_same_values(value, theirs[key], name + ".");
    else
      EXPECT_EQ(value, theirs[key]) << name;
  }
}

TEST(ParityOfStructure, PublishedConfigsReadAsInTransformers) {
  if (parity::folders("configs").empty()) GTEST_SKIP() << "no family has `published` configs";
  for (const auto& folder : parity::folders("configs")) {
    SCOPED_TRACE(folder.filename().string());
    const ModelConfig model = read_config(folder);
    const json theirs = parity::read_json(folder / "resolved.json");
    expect_same_values(fields_as_json(*model.config), theirs.at("values"), "");
    const auto no_field_there = theirs.at("unknown").get<std::set<std::string>>();
    for (const std::string& key : model.unknown_keys) EXPECT_TRUE(no_field_there.contains(key)) << key;
  }
}

TEST(ParityOfStructure, DefaultsMatchTransformers) {
  for (const auto& folder : parity::folders("defaults")) {
    SCOPED_TRACE(folder.filename().string());
    const json theirs = parity::read_json(folder / "config.json");
    EXPECT_EQ(read_config(folder).unknown_keys, std::vector<std::string>());
    const ModelConfig model = parse_config(json{{"architectures", theirs.at("architectures")}}.dump(), "defaults");
    expect_same_values(fields_as_json(*model.config), theirs, "");
    EXPECT_EQ(model.entry->model_type, theirs.at("model_type").get<std::string>());

    std::map<std::string, std::vector<int64_t>> parameters;
    for (const ModelParameter& parameter : model_parameters(model)) parameters[parameter.name] = parameter.global_shape;
    EXPECT_EQ(json(parameters), parity::read_json(folder / "parameters.json"));
  }
}

TEST(ParityOfStructure, InitialValuesAreDistributedAsInTransformers) {
  Mesh mesh(Environment{}, MeshShape{});
  for (const auto& folder : parity::folders("initial")) {
    SCOPED_TRACE(folder.filename().string());
    const ModelConfig config = read_config(folder);
    ParallelModel model(*config.entry, *config.config, mesh, {}, /*seed=*/1);
    const json expected = parity::read_json(folder / "statistics.json");
    EXPECT_EQ(model.parameters().size(), expected.size());
    for (const ShardedParameter& parameter : model.parameters()) {
      const at::Tensor values = parameter.local.to(at::kDouble);
      const json& theirs = expected.at(parameter.name);
      const double their_mean = theirs.at("mean"), their_deviation = theirs.at("deviation");
      // Both are samples: allow five standard errors of their difference.
      const double error = their_deviation * std::sqrt(2.0 / static_cast<double>(values.numel()));
      EXPECT_NEAR(values.mean().item<double>(), their_mean, 5 * error) << parameter.name;
      EXPECT_NEAR(values.std(/*unbiased=*/false).item<double>(), their_deviation, 5 * error / std::sqrt(2.0))
          << parameter.name;
    }
  }
}

}  // namespace
}  // namespace modular
