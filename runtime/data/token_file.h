// A file of token ids: a header of 24 bytes, then the ids. All numbers little-endian.
//   8 bytes  "MODTOKEN"
//   4 bytes  version, 1
//   4 bytes  bytes of an id: 1, 2 or 4 (unsigned)
//   8 bytes  number of ids
// The count in the header reveals a truncated file before the first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/data/files.h"

namespace modular {

/// Reads and checks the header of `path`. Throws DataError if it is not a token file, or if its size does not match its
/// header.
DataFile read_token_header(const std::filesystem::path& path);

/// Writes `tokens` with the narrowest type that holds them.
void write_token_file(const std::filesystem::path& path, std::span<const int64_t> tokens);

}  // namespace modular
