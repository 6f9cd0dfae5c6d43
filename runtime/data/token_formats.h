// Token files of other projects. Each is read as one sequence of ids; its document boundaries are not kept.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/data/files.h"

namespace modular {

/// An element of token_formats().
struct TokenFormat {
  std::string_view name;  // value of data.format
  /// Locates the ids in a file. Throws DataError if it is not of that format, or is cut off.
  DataFile (*inspect)(const std::filesystem::path& path);
  /// For formats of several files, the file that holds the ids, given the path of any of them or their common name;
  /// null for single-file formats.
  std::filesystem::path (*get_file)(const std::filesystem::path& path) = nullptr;
};

/// - tokens: token_file.h
/// - nanogpt: uint16 ids and nothing else (nanoGPT's data/*/prepare.py)
/// - llm.c: 256 int32, of which the first are a magic number, a version and the number of ids, then uint16 or uint32
///   ids (llm.c's dev/data/data_common.py)
/// - megatron: ids in <name>.bin, their type and the length of each sequence in <name>.idx next to it (Megatron-LM's
///   IndexedDataset). The path is that of the .bin file, or without the extension, as in Megatron-LM's --data-path.
std::span<const TokenFormat> token_formats();

/// The format of that name, or null: "bytes" and "examples" are not token formats.
const TokenFormat* find_token_format(std::string_view name);

}  // namespace modular
