#include "runtime/prepare/source_kinds.h"

#include <fmt/format.h>

#include <numeric>

#include "runtime/data/files.h"
#include "runtime/model/config.h"

namespace modular {
namespace {

using nlohmann::json;

constexpr const char* kProgram =
#include "runtime/prepare/parquet_helper.inc"
    ;

}  // namespace

std::unique_ptr<PythonHelper> start_parquet(const std::string& python) try {
  auto helper = std::make_unique<PythonHelper>(python, "pyarrow", kProgram);
  helper->ask(json::object());
  return helper;
} catch (const std::runtime_error& error) {
  throw ConfigError(fmt::format(".parquet files need Python: {}", error.what()));
}

void cut_parquet(Source& source, RecordReader& reader) try {
  const json about = reader.parquet().ask({{"file", source.path.string()}});
  about.at("columns").get_to(source.columns);
  source.begins.resize(about.at("groups").get<size_t>() + 1);
  std::iota(source.begins.begin(), source.begins.end(), 0);
} catch (const ConfigError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw DataError(fmt::format("{} cannot be read: {}", source.path.string(), error.what()));
}

void read_parquet(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records) {
  find_columns(source.path.string(), source.columns, reader.columns());
  json rows;
  try {
    rows = reader.parquet().ask({{"file", source.path.string()},
                                 {"group", piece.begin},
                                 {"columns", reader.columns()},
                                 {"as_json", reader.options().as_json}});
  } catch (const std::runtime_error& error) {
    throw DataError(fmt::format("{} cannot be read: {}", source.path.string(), error.what()));
  }
  const json& columns = rows.at("values");
  for (size_t row = 0; row < rows.at("rows").get<size_t>(); ++row) {
    Record record{{}, static_cast<int64_t>(row)};
    for (const json& column : columns) record.values.push_back(column.at(row));
    records.push_back(std::move(record));
  }
}

}  // namespace modular
