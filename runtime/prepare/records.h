// Rows of sources: the values of the columns that were asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/launch/python_helper.h"
#include "runtime/prepare/sources.h"

namespace modular {

/// A row. Values are as the source has them: those of CSV files and of texts are strings.
struct Record {
  std::vector<nlohmann::json> values;  // one for each column that was asked for
  int64_t place = 0;                   // of its kind's: get_location says where that is
};

/// Reads pieces of sources.
class RecordReader {
 public:
  RecordReader(std::vector<std::string> columns, const SourceOptions& options);

  /// Appends the rows of a piece. Throws DataError, with file and line, where a row cannot be read or lacks a column.
  void read(const Source& source, const Piece& piece, std::vector<Record>& records);

  const std::vector<std::string>& columns() const { return columns_; }
  const SourceOptions& options() const { return options_; }
  /// The process that reads .parquet files, started when it is first asked for.
  PythonHelper& parquet();

 private:
  std::vector<std::string> columns_;
  SourceOptions options_;
  std::unique_ptr<PythonHelper> parquet_;
};

/// Where a row is, as a message names it: "a.csv:17".
std::string get_location(const Source& source, const Piece& piece, const Record& record);

}  // namespace modular
