// The kinds of files that data is prepared of, a row each.
#pragma once

#include <span>
#include <string_view>

#include "runtime/prepare/records.h"

namespace modular {

/// A row of source_kinds(). A source's places are bytes, but for Parquet's, which are groups of rows.
struct SourceKind {
  std::string_view suffix;
  /// Fills in `columns` and `begins`.
  void (*cut)(Source& source, RecordReader& reader);
  /// Appends the rows of a piece.
  void (*read)(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);
  bool typed;  // values have types of their own, rather than all being texts
  /// What Record::place counts.
  enum class Places { lines_of_piece, rows_of_piece } places;
};

/// .txt, .jsonl, .csv, .parquet.
std::span<const SourceKind> source_kinds();

/// The bytes [begin, end) of a file. Throws DataError where they are not there.
std::string read_bytes(const Source& source, int64_t begin, int64_t end);

/// Where the first line that begins at `from` or after it begins, or the file ends.
int64_t next_line(const Source& source, int64_t from);

/// Where a text begins in a file: after the mark of its byte order, where it has one.
int64_t text_begin(const Source& source);

/// Of the columns that were asked for, the number of each in `columns`. Throws DataError that names those that are
/// there.
std::vector<size_t> find_columns(const std::string& where, const std::vector<std::string>& columns,
                                 const std::vector<std::string>& asked);

}  // namespace modular
