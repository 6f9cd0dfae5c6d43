// Files of texts. A file is read as one sequence of ids.
//
// - bytes: any file; a token is a byte
// - tokens: a header of 24 bytes, then the ids. All numbers are little-endian:
//     8 bytes  "MODTOKEN"
//     4 bytes  version, 1
//     4 bytes  bytes of an id: 1, 2 or 4 (unsigned)
//     8 bytes  number of ids, which reveals a truncated file before the first step
// - nanogpt: uint16 ids and nothing else (nanoGPT's data/*/prepare.py)
// - llm.c: 256 int32, of which the first are a magic number, a version and the number of ids, then uint16 or uint32
//   ids (llm.c's dev/data/data_common.py)
// - megatron: ids in <name>.bin, their type and the length of each sequence in <name>.idx next to it (Megatron-LM's
//   IndexedDataset). The path is that of the .bin file, or without the extension, as in Megatron-LM's --data-path.
//
// Document boundaries of the formats of other projects are not kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "runtime/data/files.h"

namespace modular {

/// Reads and checks the header of a file of the format "tokens". Throws DataError if it is not one, or if its size does
/// not match its header.
DataFile read_token_header(const std::filesystem::path& path);

/// Writes a file of the format "tokens", with the narrowest type that holds them.
void write_token_file(const std::filesystem::path& path, std::span<const int64_t> tokens);

}  // namespace modular
