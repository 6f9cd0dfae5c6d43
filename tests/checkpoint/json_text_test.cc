// Parsing untrusted JSON takes memory in proportion to its bytes, however it is written.
#include "runtime/checkpoint/json_text.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>

#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using ::testing::HasSubstr;

/// "[piece,piece,…,0]"
std::string repeated(const std::string& piece, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i) text += piece + ",";
  return text + "0]";
}

int64_t most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

TEST(JsonText, TooManyValuesAreRejectedBeforeTheyTakeMemory) {
  constexpr size_t kValues = 12'000'000;
  constexpr int64_t kMostMemory = int64_t{600} << 20;  // the values would take a gigabyte and more
  for (const char* piece : {"[]", "{}", "0", "\"\""}) {
    const std::string text = repeated(piece, kValues);
    const int64_t before = most_memory();
    EXPECT_TRUE(parse_json(text).is_discarded()) << piece;
    EXPECT_LT(most_memory() - before, kMostMemory) << piece;
    EXPECT_THAT(json_problem(text), HasSubstr("values, which no file of its size needs")) << piece;
  }
}

TEST(JsonText, AcceptsRealFiles) {
  nlohmann::json slices = nlohmann::json::array(), merges = nlohmann::json::array();
  for (int slice = 0; slice < 300'000; ++slice)
    slices.push_back({{"file", "rank-00000.safetensors"}, {"key", "w"}, {"offset", {0, 0}}, {"shape", {8, 8}}});
  for (int merge = 0; merge < 300'000; ++merge) merges.push_back({"a", "b"});
  EXPECT_EQ(parse_json(slices.dump(1)).size(), slices.size()) << "a checkpoint's index";
  EXPECT_EQ(parse_json(slices.dump()).size(), slices.size());
  EXPECT_EQ(parse_json(merges.dump()).size(), merges.size()) << "a tokenizer";
  EXPECT_THAT(json_problem("[1,"), HasSubstr("parse error"));
  EXPECT_THAT(json_problem(std::string(200, '[')), HasSubstr("nests more than 100 levels deep"));
}

TEST(JsonText, HeadersAndIndexesWithTooManyValuesAreErrorsWithTheReason) {
  const TemporaryFolder folder;
  const std::string values = repeated("[]", 5'000'000);
  const std::string header = "{\"__metadata__\":{\"a\":" + values + "}}";
  const uint64_t length = header.size();
  std::ofstream(folder.path() / "a.safetensors", std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), sizeof length) << header;
  EXPECT_THAT(get_message<std::runtime_error>([&] { SafetensorsFile(folder.path() / "a.safetensors"); }),
              HasSubstr("its header is not a JSON object (it has more than "));
  folder.write("checkpoint.json", "{\"tensors\":" + values + "}");
  EXPECT_THAT(get_message<std::runtime_error>([&] { open_checkpoint(folder.path()); }),
              HasSubstr("checkpoint.json is damaged: it is not a JSON object (it has more than "));
}

}  // namespace
}  // namespace modular
