// The source files of prepared data, and the offsets at which each can be cut into independent pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace modular {

struct SourceKind;  // source_kinds.h

/// A file as it was found.
struct Source {
  std::filesystem::path path;  // absolute
  const SourceKind* kind = nullptr;
  int64_t bytes = 0;
  int64_t modified = 0;              // nanoseconds of the file system's clock
  std::vector<std::string> columns;  // columns of all rows; empty if each row names its own
  /// Begin of each piece, and the end of the last: offsets in the file, or indices of row groups.
  std::vector<int64_t> begins;
};

struct SourceOptions {
  bool lines = false;  // each line of a .txt file is a document, instead of the file
  int64_t piece_bytes = int64_t{8} << 20;
  std::string python = "python3";  // has pyarrow, which reads .parquet files
  bool as_json = false;            // values are JSON texts, in which keys keep their order
};

class RecordReader;

/// Finds the files that `paths` names: files, and in folders, which are searched recursively, files of a known kind;
/// ordered by path and cut for `reader`. Throws DataError if one does not exist, is of an unknown kind or cannot be
/// read.
std::vector<Source> find_sources(const std::vector<std::string>& paths, RecordReader& reader);

/// A part of a source, in the source's own units.
struct Piece {
  size_t source = 0;
  int64_t begin = 0, end = 0;
};

/// All pieces in order, grouped into shards of `bytes` each, or of one larger piece.
std::vector<std::vector<Piece>> split_into_shards(const std::vector<Source>& sources, int64_t bytes);

}  // namespace modular
