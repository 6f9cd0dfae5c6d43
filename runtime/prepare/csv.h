// Comma-separated values (RFC 4180), with a first line that names the columns.
#pragma once

#include "runtime/prepare/source_kinds.h"

namespace modular {

/// Cuts between records, whose quoted fields may contain line ends; reads the full file. Throws DataError if the file
/// has no line with column names, or names a column twice.
void cut_csv(Source& source, RecordReader& reader);

/// Blank lines are not records. Throws DataError with file and line for a record with more or fewer fields than
/// columns, and for quotes that RFC 4180 does not allow.
void read_csv(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);

}  // namespace modular
