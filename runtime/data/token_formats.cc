#include "runtime/data/token_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/data/token_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the files' numbers are read without byte swapping");

[[noreturn]] void reject(const fs::path& path, const std::string& why) { throw DataError(path.string() + ": " + why); }

std::ifstream open(const fs::path& path) {
  if (fs::exists(path) && !fs::is_regular_file(path)) reject(path, "is not a regular file");
  std::ifstream in(path, std::ios::binary);
  if (!in) reject(path, std::string("cannot be opened: ") + std::strerror(errno));
  return in;
}

/// Reads `count` numbers; empty if the file ends before.
template <class Number>
std::vector<Number> numbers(std::ifstream& in, size_t count) {
  std::vector<Number> read(count);
  in.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(count * sizeof(Number)));
  if (!in) read.clear();
  return read;
}

DataFile inspect_nanogpt(const fs::path& path) {
  const DataFile file{path, static_cast<int64_t>(fs::file_size(path)), /*header=*/0, /*token_bytes=*/2};
  if (file.bytes % file.token_bytes != 0)
    reject(path, "has an odd number of bytes (" + std::to_string(file.bytes) +
                     "), and nanoGPT's ids have two each: it is cut off, or not of that format");
  return file;
}

DataFile inspect_llm_c(const fs::path& path) {
  constexpr int64_t kHeader = 256;
  struct Kind {
    int32_t magic, version;
    int64_t token_bytes;
  };
  constexpr std::array kinds = {Kind{20240520, 1, 2}, Kind{20240801, 7, 4}};  // ids of GPT-2, and of Llama 3
  std::ifstream in = open(path);
  const std::vector<int32_t> header = numbers<int32_t>(in, kHeader);
  const auto kind = header.empty() ? kinds.end() : std::ranges::find(kinds, header[0], &Kind::magic);
  if (kind == kinds.end())
    reject(path, "is not a token file of llm.c: it begins with neither 20240520 (GPT-2's) nor 20240801 (Llama 3's)");
  if (header[1] != kind->version)
    reject(path, "is of version " + std::to_string(header[1]) + " of llm.c's format; this program reads version " +
                     std::to_string(kind->version));
  const DataFile file{path, static_cast<int64_t>(fs::file_size(path)), kHeader * 4, kind->token_bytes};
  if (file.tokens() != header[2] || (file.bytes - file.header) % file.token_bytes != 0)
    reject(path, "its header says " + std::to_string(header[2]) + " tokens but " + std::to_string(file.tokens()) +
                     " are there: the file is " + (file.tokens() < header[2] ? "cut off" : "damaged") +
                     ", write or copy it again");
  return file;
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  const bool has_one = path.extension() == ".bin" || path.extension() == ".idx";
  return has_one ? fs::path(path).replace_extension(suffix) : fs::path(path.string() + suffix);
}

fs::path file_of_ids(const fs::path& path) { return with_suffix(path, ".bin"); }

/// Bytes per id for Megatron-LM's type code; 0 for types that cannot hold ids.
int64_t megatron_token_bytes(uint8_t code) {
  switch (code) {
    case 1:
      return 1;  // uint8
    case 3:
      return 2;  // int16
    case 4:
      return 4;  // int32
    case 5:
      return 8;  // int64
    case 8:
      return 2;  // uint16
    default:
      return 0;
  }
}

DataFile inspect_megatron(const fs::path& path) {
  constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
  const fs::path ids = file_of_ids(path), index = with_suffix(path, ".idx");
  if (!fs::is_regular_file(ids)) reject(ids, "does not exist: it holds the ids of Megatron-LM's format");
  std::ifstream in = open(index);
  const std::vector<char> magic = numbers<char>(in, kMagic.size());
  if (!std::ranges::equal(magic, kMagic))
    reject(index, "is not an index of Megatron-LM's: it does not begin with MMIDIDX");
  const auto version = numbers<uint64_t>(in, 1);
  const auto code = numbers<uint8_t>(in, 1);
  const auto counts = numbers<uint64_t>(in, 2);  // number of sequences, and of documents
  if (counts.empty()) reject(index, "is cut off: write or copy it again");
  if (version[0] != 1) reject(index, "is of version " + std::to_string(version[0]) + "; this program reads version 1");
  const int64_t token_bytes = megatron_token_bytes(code[0]);
  if (token_bytes == 0)
    reject(index, "its type of ids has the code " + std::to_string(code[0]) + ", which cannot hold ids");
  // A length of 4 bytes and an offset of 8 bytes per sequence; an index of 8 bytes per document.
  const uint64_t left = static_cast<uint64_t>(fs::file_size(index)) - static_cast<uint64_t>(in.tellg());
  if (counts[0] > left / 12 || counts[1] > left / 8 || left != counts[0] * 12 + counts[1] * 8)
    reject(index, "does not have the size that its " + std::to_string(counts[0]) + " sequences and " +
                      std::to_string(counts[1]) + " documents take: it is cut off or damaged");
  const std::vector<int32_t> lengths = numbers<int32_t>(in, counts[0]);
  int64_t tokens = 0;
  for (const int32_t length : lengths) {
    if (length < 0) reject(index, "has a sequence of " + std::to_string(length) + " ids: it is damaged");
    tokens += length;
  }
  const DataFile file{ids, static_cast<int64_t>(fs::file_size(ids)), /*header=*/0, token_bytes};
  if (file.tokens() != tokens || file.bytes % token_bytes != 0)
    reject(ids, "has " + std::to_string(file.bytes) + " bytes, and its index says " + std::to_string(tokens) +
                    " ids of " + std::to_string(token_bytes) + ": write or copy both again");
  return file;
}

}  // namespace

std::span<const TokenFormat> token_formats() {
  static constexpr std::array formats = {
      TokenFormat{"tokens", read_token_header},
      TokenFormat{"nanogpt", inspect_nanogpt},
      TokenFormat{"llm.c", inspect_llm_c},
      TokenFormat{"megatron", inspect_megatron, file_of_ids},
  };
  return formats;
}

const TokenFormat* find_token_format(std::string_view name) {
  const auto found = std::ranges::find(token_formats(), name, &TokenFormat::name);
  return found == token_formats().end() ? nullptr : &*found;
}

}  // namespace modular
