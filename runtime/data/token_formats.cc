#include "runtime/data/token_formats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_formats.h"
#include "runtime/data/token_dataset.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "token files are read and written without byte swapping");

struct Header {
  std::array<char, 8> magic = {'M', 'O', 'D', 'T', 'O', 'K', 'E', 'N'};
  uint32_t version = 1;
  uint32_t token_bytes = 0;
  uint64_t count = 0;
};
static_assert(sizeof(Header) == 24);

template <class Id>
void write_ids(std::ofstream& out, std::span<const int64_t> tokens) {
  std::vector<Id> ids(tokens.begin(), tokens.end());
  out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(Id)));
}

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
    reject(path, "has an odd size (" + std::to_string(file.bytes) +
                     " bytes), but nanoGPT stores two bytes per id: it is truncated or in another format");
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
    reject(path, "uses version " + std::to_string(header[1]) + " of llm.c's format; this program reads version " +
                     std::to_string(kind->version));
  const DataFile file{path, static_cast<int64_t>(fs::file_size(path)), kHeader * 4, kind->token_bytes};
  if (file.tokens() != header[2] || (file.bytes - file.header) % file.token_bytes != 0)
    reject(path, "the header declares " + std::to_string(header[2]) + " tokens, but the file holds " +
                     std::to_string(file.tokens()) + ": it is " +
                     (file.tokens() < header[2] ? "truncated" : "damaged") + "; write or copy it again");
  return file;
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  const bool has_one = path.extension() == ".bin" || path.extension() == ".idx";
  return has_one ? fs::path(path).replace_extension(suffix) : fs::path(path.string() + suffix);
}

fs::path get_megatron_ids(const fs::path& path) { return with_suffix(path, ".bin"); }

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
  const fs::path ids = get_megatron_ids(path), index = with_suffix(path, ".idx");
  if (!fs::is_regular_file(ids)) reject(ids, "does not exist: it holds the ids of Megatron-LM's format");
  std::ifstream in = open(index);
  const std::vector<char> magic = numbers<char>(in, kMagic.size());
  if (!std::ranges::equal(magic, kMagic)) reject(index, "is not a Megatron-LM index: it does not begin with MMIDIDX");
  const auto version = numbers<uint64_t>(in, 1);
  const auto code = numbers<uint8_t>(in, 1);
  const auto counts = numbers<uint64_t>(in, 2);  // number of sequences, and of documents
  if (counts.empty()) reject(index, "is truncated: write or copy it again");
  if (version[0] != 1) reject(index, "uses version " + std::to_string(version[0]) + "; this program reads version 1");
  const int64_t token_bytes = megatron_token_bytes(code[0]);
  if (token_bytes == 0)
    reject(index, "dtype code " + std::to_string(code[0]) + " is not an integer type that can hold token ids");
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

constexpr DataFormat text_format(std::string_view name, DataFile (*inspect)(const fs::path&) = nullptr,
                                 fs::path (*file_of_ids)(const fs::path&) = nullptr) {
  return {.name = name,
          .ids_are_bytes = !inspect,
          .inspect = inspect,
          .file_of_ids = file_of_ids,
          .open = open_text,
          .make_blank = make_blank_text,
          .describe = describe_text};
}

}  // namespace

DataFile read_token_header(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError(path.string() + ": cannot be opened: " + std::strerror(errno));
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  Header header;
  const Header expected;
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!in || header.magic != expected.magic)
    throw DataError(
        path.string() +
        ": is not a token file (it does not begin with \"MODTOKEN\"): set data.format = \"bytes\" to read it as text");
  if (header.version != expected.version)
    throw DataError(path.string() + ": is a token file of version " + std::to_string(header.version) +
                    "; this program reads version 1");
  if (header.token_bytes != 1 && header.token_bytes != 2 && header.token_bytes != 4)
    throw DataError(path.string() + ": its header says " + std::to_string(header.token_bytes) +
                    " bytes per token; 1, 2 and 4 are known");
  const DataFile file{path, bytes, sizeof header, header.token_bytes};
  const uint64_t present = static_cast<uint64_t>(bytes - file.header) / header.token_bytes;
  if (present != header.count || (bytes - file.header) % header.token_bytes != 0) {
    throw DataError(path.string() + ": the header declares " + std::to_string(header.count) +
                    " tokens, but the file holds " + std::to_string(present) + ": it is " +
                    (present < header.count ? "truncated" : "damaged") + "; write or copy it again");
  }
  return file;
}

void write_token_file(const std::filesystem::path& path, std::span<const int64_t> tokens) {
  const int64_t highest = tokens.empty() ? 0 : *std::max_element(tokens.begin(), tokens.end());
  Header header;
  header.token_bytes = highest < (1 << 8) ? 1 : highest < (1 << 16) ? 2 : 4;
  header.count = tokens.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  if (header.token_bytes == 1) write_ids<uint8_t>(out, tokens);
  if (header.token_bytes == 2) write_ids<uint16_t>(out, tokens);
  if (header.token_bytes == 4) write_ids<uint32_t>(out, tokens);
  out.close();
  if (!out) throw DataError(path.string() + ": cannot be written: " + std::strerror(errno));
}

const DataFormat kBytesFormat = text_format("bytes");
const DataFormat kTokensFormat = text_format("tokens", read_token_header);
const DataFormat kNanoGptFormat = text_format("nanogpt", inspect_nanogpt);
const DataFormat kLlmCFormat = text_format("llm.c", inspect_llm_c);
const DataFormat kMegatronFormat = text_format("megatron", inspect_megatron, get_megatron_ids);

}  // namespace modular
