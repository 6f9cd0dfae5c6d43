// Rows of sources: the values of the requested columns.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/python_helper.h"
#include "runtime/prepare/sources.h"

namespace modular {

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
