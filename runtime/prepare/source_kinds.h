// The kinds of files that data can be prepared from.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "runtime/prepare/sources.h"

namespace modular {

/// An element of source_kinds(). Positions in a source are bytes, except for Parquet, where they are row groups.
struct SourceKind {
  std::string_view suffix;
  /// Fills in `columns` and `begins`.
  void (*cut)(Source& source, RecordReader& reader);
  /// Appends the rows of a piece.
  void (*read)(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);
  bool typed;  // whether values have types of their own, instead of all being texts
  /// Unit of Record::location.
  enum class Unit { lines_of_piece, rows_of_piece } unit;
};

/// .txt, .jsonl, .csv, .parquet.
std::span<const SourceKind> source_kinds();

/// The bytes [begin, end) of a file. Throws DataError if the file is too short.
std::string read_bytes(const Source& source, int64_t begin, int64_t end);

/// Offset of the first line that begins at or after `from`, or of the end of the file.
int64_t next_line(const Source& source, int64_t from);

/// Offset at which a text begins in a file: after the byte order mark, if there is one.
int64_t text_begin(const Source& source);

/// Indices in `columns` of the requested columns. Throws DataError, listing the available columns, if one is missing.
std::vector<size_t> find_columns(const std::string& where, const std::vector<std::string>& columns,
                                 const std::vector<std::string>& requested);

// Comma-separated values (RFC 4180), with a first line that names the columns.

/// Cuts between records, whose quoted fields may contain line ends; reads the full file. Throws DataError if the file
/// has no line with column names, or names a column twice.
void cut_csv(Source& source, RecordReader& reader);

/// Blank lines are not records. Throws DataError with file and line for a record with more or fewer fields than
/// columns, and for quotes that RFC 4180 does not allow.
void read_csv(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);

// Parquet files, read by pyarrow in a Python process that runs parquet_helper.py.

/// Starts the process. Throws ConfigError if `python` does not exist or has no pyarrow.
std::unique_ptr<PythonHelper> start_parquet(const std::string& python);

/// A piece is one of the file's row groups.
void cut_parquet(Source& source, RecordReader& reader);
void read_parquet(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);

}  // namespace modular
