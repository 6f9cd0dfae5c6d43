// Comma-separated values as RFC 4180 has them, with a first line that names the columns.
#pragma once

#include "runtime/prepare/source_kinds.h"

namespace modular {

/// Cuts between records, which may have line ends within quotes; reads the whole file. Throws DataError where the file
/// has no line with names of columns, or names one twice.
void cut_csv(Source& source, RecordReader& reader);

/// Blank lines are no records. Throws DataError with file and line for a record with more or fewer fields than there
/// are columns, and for quotes that RFC 4180 has not.
void read_csv(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);

}  // namespace modular
