#include "runtime/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>

namespace modular {

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
    throw DataError(path.string() + ": its header says " + std::to_string(header.count) + " tokens but " +
                    std::to_string(present) + " are there: the file is " +
                    (present < header.count ? "cut off" : "damaged") + ", write or copy it again");
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

}  // namespace modular
