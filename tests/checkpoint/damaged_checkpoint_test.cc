// A checkpoint whose files say what cannot be is rejected by a sentence that names the file.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

ModelConfig tiny_llama() {
  const json config = {{"model_type", "llama"},   {"vocab_size", 10},       {"hidden_size", 8},
                       {"intermediate_size", 12}, {"num_hidden_layers", 1}, {"num_attention_heads", 2}};
  return parse_config(config.dump(), "config.json");
}

std::vector<TensorSlice> full_slices(const ModelConfig& model) {
  std::vector<TensorSlice> slices;
  for (const ModelParameter& parameter : model_parameters(model))
    slices.push_back({parameter.name, parameter.global_shape, std::vector<int64_t>(parameter.global_shape.size(), 0),
                      at::ones(parameter.global_shape)});
  return slices;
}

class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() : checkpoint_(save_checkpoint(folder_.path(), model_, {7, {}}, full_slices(model_), mesh_, 1)) {}

  /// The error of a checkpoint.json with a change, from the file's name on.
  std::string error(const json& changes) {
    json index = json::parse(read_file(checkpoint_ / "checkpoint.json"));
    index.merge_patch(changes);
    write_file(checkpoint_ / "checkpoint.json", index.dump());
    return from_name(get_message<std::runtime_error>([&] { open_checkpoint(checkpoint_); }), "checkpoint.json");
  }
  static std::string from_name(const std::string& message, const std::string& name) {
    return message.substr(std::min(message.find(name), message.size()));
  }

  TemporaryFolder folder_;
  ModelConfig model_ = tiny_llama();
  Mesh mesh_{Environment{}, MeshShape{}};
  fs::path checkpoint_;
};

TEST_F(DamagedCheckpoint, NumbersThatAreNoSizesAreRejected) {
  EXPECT_EQ(error({{"step", 1e308}}), "checkpoint.json is damaged: [1e+308] is no list of sizes");
  EXPECT_EQ(error({{"step", -1}}), "checkpoint.json is damaged: [-1] is no list of sizes");
  EXPECT_EQ(error({{"step", 7}, {"mesh", {1, 1}}}), "checkpoint.json is damaged: its mesh has 2 axes");
}

TEST_F(DamagedCheckpoint, AnotherFormatNamesWhatWroteItAndWhatToDo) {
  EXPECT_EQ(error({{"format", "2"}}),
            "checkpoint.json is damaged, or another program wrote it: its format is \"2\", and modrun writes a number. "
            "Restore the file, or continue from another checkpoint");
  const std::string newer = error({{"format", 3}, {"program", "modular 7.1"}});
  EXPECT_EQ(newer.find("checkpoint.json has the format 3, and this program, modular "), 0u) << newer;
  EXPECT_NE(newer.find("reads format 2: a newer version of modular (modular 7.1) wrote it. Continue with that version"),
            std::string::npos)
      << newer;
  EXPECT_NE(error({{"format", 1}, {"program", nullptr}}).find("an older version of modular wrote it"),
            std::string::npos);
}

TEST_F(DamagedCheckpoint, ShapesWhoseProductHasMoreThan63BitsAreRejected) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(error({{"tensors", {{"more", {{"shape", {large, large}}, {"boxes", json::array()}}}}}}),
            "checkpoint.json is damaged: \"more\" is [1099511627776, 1099511627776], more values than there can be");
}

TEST_F(DamagedCheckpoint, ABoxThatStandsTwiceIsRejected) {
  json index = json::parse(read_file(checkpoint_ / "checkpoint.json"));
  json slices = index["tensors"]["model.norm.weight"]["boxes"];
  slices.push_back(slices[0]);
  EXPECT_EQ(error({{"tensors", {{"model.norm.weight", {{"boxes", slices}}}}}}),
            "checkpoint.json is damaged: it names the slice \"model.norm.weight\" of rank-00000.safetensors twice");
}

TEST_F(DamagedCheckpoint, AFileElsewhereIsNotRead) {
  json index = json::parse(read_file(checkpoint_ / "checkpoint.json"));
  json slices = index["tensors"]["model.norm.weight"]["boxes"];
  slices[0]["file"] = "../rank-00000.safetensors";
  EXPECT_EQ(error({{"tensors", {{"model.norm.weight", {{"boxes", slices}}}}}}),
            "checkpoint.json is damaged: \"../rank-00000.safetensors\" is no name of a file beside it");
}

TEST_F(DamagedCheckpoint, AStateThatIsNoneOfTheGeneratorNamesTheRanksFile) {
  const fs::path file = checkpoint_ / rank_file_name(0);
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  {
    const SafetensorsFile stored(file);
    metadata = stored.metadata();
    metadata.erase("digests");
    for (const auto& [name, header] : stored.tensors())
      if (name != "digests") tensors.emplace_back(name, stored.tensor(name).clone());
    for (auto& [name, tensor] : tensors)
      if (name == "generator.cpu") tensor = tensor.narrow(0, 0, 10).clone();
  }
  write_safetensors(file, tensors, metadata);
  std::vector<TensorSlice> slices = full_slices(model_);
  const std::string message =
      get_message<std::runtime_error>([&] { load_checkpoint(checkpoint_, model_, slices, mesh_); });
  EXPECT_EQ(from_name(message, "rank-"),
            "rank-00000.safetensors is damaged: its \"generator.cpu\" is no state of that random generator");
}

TEST_F(DamagedCheckpoint, ANameInLatestThatNoCheckpointHasIsNotLookedFor) {
  const std::pair<std::string, std::string> names[] = {
      {"/", "\"/\""},
      {"step-\xff", "\"step-\uFFFD\""},
      {std::string(5000, 'x'), "\"" + std::string(56, 'x') + "…"},
      {"step-" + std::string(5000, '9'), "\"step-" + std::string(51, '9') + "…"},
      {"step-" + std::string(5000, '0') + "1", "\"step-" + std::string(51, '0') + "…"},
  };
  for (const auto& [name, shown] : names) {
    write_file(folder_.path() / "latest", name + "\n");
    const auto message = get_message<std::runtime_error>([&] { find_checkpoint(folder_.path()); });
    EXPECT_EQ(from_name(message, "latest").find("latest names the checkpoint " + shown + ", which is not there"), 0u)
        << message.substr(0, 300);
  }
}

}  // namespace
}  // namespace modular
