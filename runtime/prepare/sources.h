// The files that data is prepared of, and where each may be cut into pieces that are read by themselves.
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
  std::vector<std::string> columns;  // of all rows; empty where each row names its own
  /// Where its pieces begin, and last where the last one ends: places in the file, or groups of its rows.
  std::vector<int64_t> begins;
};

struct SourceOptions {
  bool lines = false;  // each line of a .txt file is a document, rather than the file
  int64_t piece_bytes = int64_t{8} << 20;
  std::string python = "python3";  // has pyarrow, which reads .parquet files
  bool as_json = false;            // values are the JSON texts of what is there, in which keys keep their order
};

class RecordReader;

/// The files that `paths` name: files, and of folders, which are searched through, those of a known kind, ordered by
/// path and cut as `reader` will read them. Throws DataError where one is not there, is of no known
/// kind or cannot be read.
std::vector<Source> find_sources(const std::vector<std::string>& paths, RecordReader& reader);

/// A part of a source, in its own places.
struct Piece {
  size_t source = 0;
  int64_t begin = 0, end = 0;
};

/// All pieces in their order, as many in one shard as make `bytes`, or the one that is larger.
std::vector<std::vector<Piece>> split_into_shards(const std::vector<Source>& sources, int64_t bytes);

}  // namespace modular
