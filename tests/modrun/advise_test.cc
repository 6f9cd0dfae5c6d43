// modrun advise: its output, training with the config that it writes, and its errors.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "runtime/config/known_devices.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

class Advise : public ModrunTest {
 protected:
  Finished advise(std::vector<std::string> options) const {
    std::vector<std::string> arguments = {
        "advise", config_.string(), "--per-node", "2",    "--memory", "1GiB",
        "--link", "1GB/s",          "--flops",    "1e11", "--set",    "train.dir=" + run_folder("best").string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return modrun(arguments);
  }
};

TEST_F(Advise, WritesAConfigThatTrains) {
  const auto best = folder_.path() / "best.toml";
  const auto finished = advise({"--out", best.string(), "--cost", "2.5", "--top", "3"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("The model fits one device"));
  EXPECT_THAT(finished.output, HasSubstr("--nproc-per-node 2 train " + best.string()));
  const auto trained = modrun({"--nproc-per-node", "2", "train", best.string(), "--set", "train.steps=2"});
  EXPECT_EQ(trained.status, 0) << trained.output;
  EXPECT_EQ(steps("best").size(), 2U);
}

TEST_F(Advise, EvaluatesTheConfigsOwnMesh) {
  const auto finished =
      advise({"--as-is", "--format", "json", "--set", "parallel.tp=2", "--set", "train.micro_batches=2"});
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto json = nlohmann::json::parse(finished.output);
  ASSERT_EQ(json["choices"].size(), 1U);
  const auto& choice = json["choices"][0];
  EXPECT_EQ(choice["mesh"]["tp"], 2);
  EXPECT_EQ(choice["micro_batches"], 2);
  EXPECT_EQ(choice["rows"], 4.0);
  EXPECT_GT(choice["communication"]["tp"]["bytes"], 0.0);
  EXPECT_GT(choice["seconds"]["step"], choice["seconds"]["compute"]);
  const auto plan = nlohmann::json::parse(modrun({"plan", config_.string(), "--ranks", "2", "--format", "json", "--set",
                                                  "parallel.tp=2", "--set", "train.micro_batches=2"})
                                              .output);
  EXPECT_EQ(choice["memory"], plan["ranks"][0]["peak"]);
}

TEST_F(Advise, EvaluatesContextParallelism) {
  const Words cp = {"--set", "parallel.cp=2", "--format", "json"};
  const auto finished = advise(with({"--as-is"}, cp));
  ASSERT_EQ(finished.status, 0) << finished.output;
  const auto choice = nlohmann::json::parse(finished.output)["choices"][0];
  EXPECT_EQ(choice["mesh"]["cp"], 2);
  EXPECT_EQ(choice["mesh"]["dp_shard"], 1);
  EXPECT_GT(choice["communication"]["cp"]["bytes"], 0.0);
  EXPECT_EQ(choice["communication"]["cp"]["seconds"], choice["communication"]["cp"]["waited"]);
  const auto plan = nlohmann::json::parse(modrun(with({"plan", config_.string(), "--ranks", "2"}, cp)).output);
  EXPECT_EQ(choice["memory"], plan["ranks"][0]["peak"]);
}

TEST_F(Advise, LooksUpDevicesInDataSheets) {
  const auto advice = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words = {"advise", config_.string(), "--per-node", "2", "--format", "json", "--as-is"};
    const auto run = modrun(with(words, options));
    EXPECT_EQ(run.status, 0) << run.output;
    return run.output;
  };
  // Equal to its figures; an explicit figure overrides the data sheet.
  for (const auto& [name, figures] : {std::pair("h100", Words{"--memory", "80GiB", "--link", "450GB/s", "--flops",
                                                              "989e12", "--memory-speed", "3.35TB/s"}),
                                      std::pair("a100", Words{"--memory", "80GiB", "--link", "300GB/s", "--flops",
                                                              "312e12", "--memory-speed", "2039GB/s"}),
                                      std::pair("mi300x", Words{"--memory", "192GiB", "--link", "448GB/s", "--flops",
                                                                "1307.4e12", "--memory-speed", "5.3TB/s"})}) {
    const Words bf16 = {"--set", "parallel.bf16=true"};
    const std::string by_name = advice(with(bf16, {"--device", name}));
    EXPECT_THAT(by_name, StartsWith(name + std::string(", by its data sheet (")));
    const auto json = nlohmann::json::parse(by_name.substr(by_name.find('{')));
    EXPECT_EQ(json, nlohmann::json::parse(advice(with(bf16, figures)))) << name;
  }
  EXPECT_THAT(advice({"--device", "b200", "--memory", "1GiB", "--set", "parallel.bf16=false"}),
              StartsWith("b200, by its data sheet (NVIDIA DGX B200, 2024): 1.0 GiB of memory, 75 TFLOP/s in float32"));
}

TEST_F(Advise, TheDocumentHasTheTableOfDevices) {
  const std::string document = get_bytes(ADVISE_DOCUMENT);
  const auto cell = [](double value, double unit) { return value == 0.0 ? " " : fmt::format(" {:g} ", value / unit); };
  for (const KnownDevice& device : known_devices())
    EXPECT_THAT(document,
                HasSubstr(fmt::format("| `{}` | {} |{}|{}|{}|{}|{}|{}|{}| {} |\n", device.name, device.make,
                                      cell(device.memory, 0x1p30), cell(device.bf16, 1e12), cell(device.fp32, 1e12),
                                      cell(device.fp8, 1e12), cell(device.memory_speed, 1e9), cell(device.link, 1e9),
                                      cell(device.between, 1e9), device.data_sheet)));
}

TEST_F(Advise, MeasuresThisMachineWithoutDeviceOptions) {
  for (const std::vector<std::string>& options : {Words{}, Words{"--device", "cpu", "--per-node", "2"}}) {
    const auto run = modrun(with({"advise", config_.string(), "--format", "json"}, options));
    EXPECT_EQ(run.status, 0) << run.output;
    if (!options.empty() || run.output.starts_with("cpu"))  // this machine may have a GPU
      EXPECT_THAT(run.output, StartsWith("cpu, measured here, per rank: "));
  }
}

TEST_F(Advise, ListsKnownDevices) {
  const auto error = [&](const std::vector<std::string>& options) {
    const auto run = modrun(with({"advise", config_.string()}, options));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  };
  EXPECT_THAT(error({"--device", "v100"}), HasSubstr("--device is \"v100\": write cpu, or one of a100-40gb, "));
  EXPECT_THAT(error({"--flops", "1e12"}), HasSubstr("--memory is missing: pass e.g. --memory 80GiB, or name the "
                                                    "device with --device"));
  EXPECT_THAT(error({"--device", "mi300x", "--nodes", "2"}), HasSubstr("--between is missing"));
  EXPECT_THAT(error({"--device", "a100", "--set", "parallel.bf16=true", "--set", "parallel.float8=['model.layers']"}),
              HasSubstr("8-bit matmuls, which a100 does not have"));
}

TEST_F(Advise, RejectsInvalidOptions) {
  const auto error = [&](const std::vector<std::string>& options) {
    const auto finished = advise(options);
    EXPECT_EQ(finished.status, 2) << finished.output;
    EXPECT_THAT(finished.output, StartsWith("modrun: "));
    EXPECT_EQ(finished.output.find('\n'), finished.output.size() - 1) << finished.output;
    return finished.output;
  };
  EXPECT_THAT(error({"--nodes", "0"}), HasSubstr("--nodes is 0"));
  EXPECT_THAT(error({"--nodes", "2"}), HasSubstr("--between is missing"));
  EXPECT_THAT(error({"--nodes", "2", "--between", "25GB"}), HasSubstr("--between is \"25GB\": give a number"));
  EXPECT_THAT(error({"--set", "train.batch_size_per_rank=2"}), HasSubstr("train.batch_size_per_rank"));
  EXPECT_THAT(error({"--out", (folder_.path() / "missing" / "best.toml").string()}), HasSubstr("cannot be written"));
  const auto small = modrun(
      {"advise", config_.string(), "--per-node", "2", "--memory", "100KiB", "--link", "1GB/s", "--flops", "1e11"});
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.output, HasSubstr("nothing fits"));
}

}  // namespace
}  // namespace modular
