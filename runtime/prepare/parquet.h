// Parquet files, read by pyarrow in a Python process that runs parquet_helper.py.
#pragma once

#include <memory>

#include "runtime/prepare/source_kinds.h"

namespace modular {

/// Starts the process. Throws ConfigError if `python` does not exist or has no pyarrow.
std::unique_ptr<PythonHelper> start_parquet(const std::string& python);

/// A piece is one of the file's row groups.
void cut_parquet(Source& source, RecordReader& reader);
void read_parquet(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records);

}  // namespace modular
