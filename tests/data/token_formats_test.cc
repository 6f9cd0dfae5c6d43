// Reads the token files of other projects; errors for invalid files name the problem.
#include "runtime/data/token_formats.h"

#include <gmock/gmock.h>

#include <cstring>

#include "runtime/data/token_dataset.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// The bytes of numbers, one after the other.
template <class... Numbers>
std::string get_bytes(Numbers... numbers) {
  std::string bytes;
  const auto add = [&](auto number) {
    char raw[sizeof number];
    std::memcpy(raw, &number, sizeof number);
    bytes.append(raw, sizeof number);
  };
  (add(numbers), ...);
  return bytes;
}

std::vector<int64_t> get_ids(const std::string& format, const fs::path& path) {
  const TokenStream stream(find_data_files({.format = format, .paths = {path}}).training);
  std::vector<int64_t> ids(static_cast<size_t>(stream.size()));
  stream.read(0, ids);
  return ids;
}

std::string error(const std::string& format, const fs::path& path) {
  return get_message<DataError>([&] { find_data_files({.format = format, .paths = {path}}); });
}

/// llm.c's header of 256 int32.
std::string llm_c_header(int32_t magic, int32_t version, int32_t count) {
  std::string header = get_bytes(magic, version, count);
  header.resize(1024, '\0');
  return header;
}

/// A Megatron-LM index for sequences of these lengths, each a document.
std::string megatron_index(uint8_t code, const std::vector<int32_t>& lengths) {
  std::string index("MMIDIDX\0\0", 9);
  index += get_bytes(uint64_t{1}, code, uint64_t{lengths.size()}, uint64_t{lengths.size() + 1});
  int64_t offset = 0;
  std::string offsets, documents = get_bytes(int64_t{0});
  for (size_t i = 0; i < lengths.size(); ++i) {
    index += get_bytes(lengths[i]);
    offsets += get_bytes(offset);
    offset += lengths[i] * (code == 8 ? 2 : code == 5 ? 8 : 4);
    documents += get_bytes(static_cast<int64_t>(i + 1));
  }
  return index + offsets + documents;
}

TEST(TokenFormats, NanoGptFilesHoldIdsOfTwoBytes) {
  TemporaryFolder folder;
  const auto file = folder.write("train.bin", get_bytes(uint16_t{5}, uint16_t{50256}, uint16_t{65535}));
  EXPECT_THAT(get_ids("nanogpt", file), ElementsAre(5, 50256, 65535));
  EXPECT_THAT(error("nanogpt", folder.write("odd.bin", "12345")), HasSubstr("odd.bin: has an odd size (5 bytes)"));
}

TEST(TokenFormats, LlmCFilesHaveAHeaderOfEitherVersion) {
  TemporaryFolder folder;
  const auto gpt2 = folder.write("gpt2.bin", llm_c_header(20240520, 1, 2) + get_bytes(uint16_t{7}, uint16_t{50256}));
  const auto llama3 =
      folder.write("llama3.bin", llm_c_header(20240801, 7, 2) + get_bytes(uint32_t{7}, uint32_t{128000}));
  EXPECT_THAT(get_ids("llm.c", gpt2), ElementsAre(7, 50256));
  EXPECT_THAT(get_ids("llm.c", llama3), ElementsAre(7, 128000));
  fs::resize_file(gpt2, 1026);
  EXPECT_THAT(error("llm.c", gpt2), HasSubstr("the header declares 2 tokens, but the file holds 1: it is truncated"));
  EXPECT_THAT(error("llm.c", folder.write("3.bin", llm_c_header(20240520, 3, 0))),
              HasSubstr("uses version 3 of llm.c's format; this program reads version 1"));
  EXPECT_THAT(error("llm.c", folder.write("short.bin", "short")), HasSubstr("is not a token file of llm.c"));
}

TEST(TokenFormats, MegatronFilesHaveTheTypeOfTheirIndex) {
  TemporaryFolder folder;
  folder.write("short.bin", get_bytes(uint16_t{1}, uint16_t{2}, uint16_t{65000}));
  folder.write("short.idx", megatron_index(8, {2, 1}));
  folder.write("int.bin", get_bytes(int32_t{4}, int32_t{128000}));
  folder.write("int.idx", megatron_index(4, {2}));
  folder.write("long.bin", get_bytes(int64_t{9}));
  folder.write("long.idx", megatron_index(5, {0, 1}));
  EXPECT_THAT(get_ids("megatron", folder.path() / "short.bin"), ElementsAre(1, 2, 65000));
  EXPECT_THAT(get_ids("megatron", folder.path() / "int"), ElementsAre(4, 128000)) << "as --data-path has it";
  for (const char* all : {"", "*"})  // a folder, and all files of it
    EXPECT_THAT(get_ids("megatron", folder.path() / all), ElementsAre(4, 128000, 9, 1, 2, 65000)) << all;
}

TEST(TokenFormats, RejectsDamagedMegatronFiles) {
  TemporaryFolder folder;
  const auto rejected = [&](const std::string& ids, const std::string& index) {
    folder.write("a.bin", ids);
    folder.write("a.idx", index);
    return error("megatron", folder.path() / "a.bin");
  };
  const std::string ids = get_bytes(int32_t{1}, int32_t{2}), index = megatron_index(4, {2});
  EXPECT_THAT(rejected(ids + "1234", index), HasSubstr("a.bin: has 12 bytes, and its index says 2 ids of 4"));
  EXPECT_THAT(rejected(ids, index.substr(0, index.size() - 1)), HasSubstr("a.idx: does not have the size"));
  EXPECT_THAT(rejected(ids, index.substr(0, 20)), HasSubstr("a.idx: is truncated"));
  EXPECT_THAT(rejected(ids, "MMIDIDX"), HasSubstr("a.idx: is not a Megatron-LM index"));
  EXPECT_THAT(rejected(ids, megatron_index(4, {-2})), HasSubstr("has a sequence of -2 ids"));
  EXPECT_THAT(rejected(ids, megatron_index(7, {2})), HasSubstr("dtype code 7 is not an integer type"));
  std::string many = index;
  const uint64_t sequences = uint64_t{1} << 61;
  std::memcpy(many.data() + 18, &sequences, sizeof sequences);
  EXPECT_THAT(rejected(ids, many), HasSubstr("a.idx: does not have the size"));
  fs::remove(folder.path() / "a.idx");
  EXPECT_THAT(error("megatron", folder.path() / "a.bin"), HasSubstr("a.idx: cannot be opened"));
  EXPECT_THAT(error("megatron", folder.path()), HasSubstr("a.idx: cannot be opened")) << "in a folder too";
  EXPECT_THAT(error("megatron", folder.path() / std::string(253, 'x')), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace modular
