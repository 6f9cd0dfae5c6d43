// The source files of prepared data, and the offsets at which each can be cut into independent pieces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/helper.h"

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

// Rows of sources: the values of the requested columns.

/// A row. Values have the source's types: values of CSV files and texts are strings.
struct Record {
  std::vector<nlohmann::json> values;  // one per requested column
  int64_t location = 0;                // location within its kind of source (see get_location())
};

/// Reads pieces of sources.
class RecordReader {
 public:
  RecordReader(std::vector<std::string> columns, const SourceOptions& options);

  /// Appends the rows of a piece. Throws DataError, with file and line, if a row cannot be read or lacks a column.
  void read(const Source& source, const Piece& piece, std::vector<Record>& records);

  const std::vector<std::string>& columns() const { return columns_; }
  const SourceOptions& options() const { return options_; }
  /// The process that reads .parquet files, started on first use.
  PythonHelper& parquet();

 private:
  std::vector<std::string> columns_;
  SourceOptions options_;
  std::unique_ptr<PythonHelper> parquet_;
};

/// Location of a row for messages: "a.csv:17".
std::string get_location(const Source& source, const Piece& piece, const Record& record);

}  // namespace modular
