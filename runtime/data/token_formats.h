// Files of token ids as other projects write them. Each is read as one run of ids; where its documents end is not kept.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/data/files.h"

namespace modular {

/// A row of token_formats().
struct TokenFormat {
  std::string_view name;  // of data.format
  /// Where the ids of a file lie. Throws DataError where it is not of that format, or is cut off.
  DataFile (*inspect)(const std::filesystem::path& path);
  /// Of a format of several files, the one that holds the ids, by the path of any of them or their common name; null
  /// where a file is by itself.
  std::filesystem::path (*get_file)(const std::filesystem::path& path) = nullptr;
};

/// - tokens: token_file.h
/// - nanogpt: uint16 ids and nothing else (nanoGPT's data/*/prepare.py)
/// - llm.c: 256 int32, of which the first are a magic number, a version and the number of ids, then uint16 or uint32
/// ids
///   (llm.c's dev/data/data_common.py)
/// - megatron: ids in <name>.bin, their type and the length of each sequence in <name>.idx beside it (Megatron-LM's
///   IndexedDataset). The path is that of the .bin file, or as Megatron-LM's --data-path without it.
std::span<const TokenFormat> token_formats();

/// The row of that name, or null: "bytes" and "examples" are none.
const TokenFormat* find_token_format(std::string_view name);

}  // namespace modular
