#include "runtime/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <stdexcept>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

void write_bytes(const std::filesystem::path& path, const std::string& header, const std::string& data) {
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header << data;
}

std::string error(const std::filesystem::path& path) {
  return get_message<std::runtime_error>([&] { SafetensorsFile file(path); });
}

TEST(Safetensors, KeepsValuesTypesShapesAndMetadata) {
  TemporaryFolder folder;
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"matrix", at::randn({3, 5})},
      {"half", at::randn({7}).to(at::kHalf)},
      {"brain", at::randn({2, 2}).to(at::kBFloat16)},
      {"ids", at::arange(6).view({2, 3})},
      {"flags", at::tensor({1, 0, 1}).to(at::kBool)},
      {"scalar", at::tensor(2.5)},
      {"empty", at::empty({0, 4})},
  };
  write_safetensors(folder.path() / "file", tensors, {{"format", "pt"}});
  const SafetensorsFile file(folder.path() / "file");
  EXPECT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.tensor(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(file.tensor(name), tensor)) << name;
  }
}

TEST(Safetensors, ValuesOutliveTheFileObject) {
  TemporaryFolder folder;
  write_safetensors(folder.path() / "file", {{"x", at::ones({1000})}});
  const at::Tensor x = SafetensorsFile(folder.path() / "file").tensor("x");
  EXPECT_EQ(x.sum().item<double>(), 1000.0);
}

TEST(Safetensors, ReadsTensorsThatAreNotAligned) {
  TemporaryFolder folder;
  const float value = 1.5F;
  write_bytes(folder.path() / "file", R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
              std::string(reinterpret_cast<const char*>(&value), sizeof value));
  EXPECT_EQ(SafetensorsFile(folder.path() / "file").tensor("x").item<float>(), value);
}

TEST(Safetensors, SlicesFromSeveralWritersMakeUpTheTensor) {
  TemporaryFolder folder;
  const at::Tensor full = at::randn({4, 6, 5});
  auto first =
      SafetensorsWriter::create(folder.path() / "file", {{"before", at::kLong, {3}}, {"x", at::kFloat, {4, 6, 5}}}, {});
  auto second = SafetensorsWriter::open(folder.path() / "file");
  first.write("before", at::arange(3));
  first.write("x", {0, 0, 0}, full.narrow(1, 0, 2));
  second.write("x", {0, 2, 0}, full.narrow(1, 2, 4).narrow(2, 0, 3));
  second.write("x", {0, 2, 3}, full.narrow(1, 2, 4).narrow(2, 3, 2).narrow(0, 0, 4));
  first.close();
  second.close();
  const SafetensorsFile file(folder.path() / "file");
  EXPECT_TRUE(at::equal(file.tensor("x"), full));
  EXPECT_TRUE(at::equal(file.tensor("before"), at::arange(3)));
}

TEST(Safetensors, WritingConvertsToTheTensorsType) {
  TemporaryFolder folder;
  const at::Tensor x = at::randn({8});
  auto writer = SafetensorsWriter::create(folder.path() / "file", {{"x", at::kBFloat16, {8}}}, {});
  writer.write("x", x);
  writer.close();
  EXPECT_TRUE(at::equal(SafetensorsFile(folder.path() / "file").tensor("x"), x.to(at::kBFloat16)));
}

TEST(Safetensors, RejectsAFileThatIsCutOffAtAnyByte) {
  TemporaryFolder folder;
  write_safetensors(folder.path() / "complete", {{"x", at::ones({3})}});
  const auto size = std::filesystem::file_size(folder.path() / "complete");
  for (uintmax_t kept = 0; kept < size; ++kept) {
    std::filesystem::copy_file(folder.path() / "complete", folder.path() / "cut",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder.path() / "cut", kept);
    EXPECT_NE(error(folder.path() / "cut").find("is cut off"), std::string::npos)
        << kept << ": " << error(folder.path() / "cut");
  }
}

TEST(Safetensors, RejectsHeadersThatContradictThemselves) {
  TemporaryFolder folder;
  const auto rejected = [&](const std::string& header, const std::string& data) {
    write_bytes(folder.path() / "file", header, data);
    return error(folder.path() / "file");
  };
  EXPECT_NE(rejected("not json", "").find("not a JSON object"), std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"F32"}})", "").find("\"x\" lacks dtype, shape or data_offsets"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})", "1234").find("dtype \"Q4\""),
            std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234").find("not a list of sizes"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234").find("do not agree"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "")
                .find("do not agree"),
            std::string::npos);
  EXPECT_NE(
      rejected(
          R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          "123")
          .find("overlap"),
      std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12").find("holes"),
            std::string::npos);
  EXPECT_NE(rejected(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "12").find("accounts for"),
            std::string::npos);
}

TEST(Safetensors, MissingFilesAndTensorsAreErrorsThatNameThem) {
  TemporaryFolder folder;
  EXPECT_NE(error(folder.path() / "none").find("none cannot be read"), std::string::npos);
  write_safetensors(folder.path() / "file", {{"x", at::ones({3})}});
  const SafetensorsFile file(folder.path() / "file");
  EXPECT_NE(get_message<std::runtime_error>([&] { file.tensor("y"); }).find("has no tensor \"y\""), std::string::npos);
}

TEST(Safetensors, RejectsAnEmptyShapeWhoseStridesOverflow) {
  TemporaryFolder folder;
  write_bytes(folder.path() / "file", R"({"x":{"dtype":"F32","shape":[0,4611686018427387904,8],"data_offsets":[0,0]}})",
              "");
  EXPECT_NE(error(folder.path() / "file").find("entry of \"x\" has data_offsets that do not agree with its shape"),
            std::string::npos);
}

}  // namespace
}  // namespace modular
