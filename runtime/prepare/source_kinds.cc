#include "runtime/prepare/source_kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include "runtime/checkpoint/json_text.h"
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

// Text files, JSON Lines, and code that all kinds of sources share.

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr const char* kTextColumn = "text";

void cut_by_lines(Source& source, RecordReader& reader) {
  source.begins = {text_begin(source)};
  for (int64_t begin = source.begins.front(); begin < source.bytes;) {
    begin = next_line(source, std::min(begin + reader.options().piece_bytes, source.bytes));
    source.begins.push_back(begin);
  }
}

void cut_text(Source& source, RecordReader& reader) {
  source.columns = {kTextColumn};
  if (reader.options().lines) return cut_by_lines(source, reader);
  source.begins = {text_begin(source)};
  if (source.begins.front() < source.bytes) source.begins.push_back(source.bytes);
}

/// Calls `visit(line, 0-based number in the piece)` for each non-blank line, without its line end.
template <class Visitor>
void for_each_line(const Source& source, const Piece& piece, Visitor&& visit) {
  const std::string bytes = read_bytes(source, piece.begin, piece.end);
  int64_t number = 0;
  for (size_t begin = 0; begin < bytes.size(); ++number) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    std::string_view line(bytes.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != line.npos) visit(line, number);
    begin = end + 1;
  }
}

void read_text(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records) {
  const auto add = [&](std::string_view text, int64_t line) {
    records.push_back({std::vector<json>(reader.columns().size(), text), line});
  };
  find_columns(source.path.string(), source.columns, reader.columns());
  if (reader.options().lines) return for_each_line(source, piece, add);
  add(read_bytes(source, piece.begin, piece.end), 0);
}

/// The line with `value` in place of the numbers that pyarrow reads in addition to JSON's: NaN, Infinity, Inf and these
/// with a minus sign.
std::string without_nan(std::string_view line, std::string_view value) {
  std::string text;
  bool quoted = false;
  for (size_t at = 0; at < line.size();) {
    const std::string_view rest = line.substr(at);
    const size_t sign = rest.starts_with('-') ? 1 : 0;
    const auto names = {"NaN", "Infinity", "Inf"};
    const auto* const found = quoted ? names.end() : std::ranges::find_if(names, [&](std::string_view name) {
      return rest.substr(sign).starts_with(name);
    });
    if (found != names.end()) {
      text += value;
      at += sign + std::string_view(*found).size();
      continue;
    }
    const size_t bytes = quoted && rest.starts_with('\\') && rest.size() > 1 ? 2 : 1;
    quoted = quoted != rest.starts_with('"');
    text += rest.substr(0, bytes);
    at += bytes;
  }
  return text;
}

void read_json_lines(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records) {
  for_each_line(source, piece, [&](std::string_view line, int64_t number) {
    json row = parse_json(line);
    Record record{{}, number};
    std::string replaced;
    if (row.is_discarded() && (row = parse_json(without_nan(line, "null"))).is_object()) {
      const json other = parse_json(replaced = without_nan(line, "0"));
      for (const std::string& column : reader.columns())
        if (row.value(column, json()) != other.value(column, json()))
          throw DataError(fmt::format("{}: \"{}\" has NaN or an infinite number: leave the row out",
                                      get_location(source, piece, record), column));
      line = replaced;
    }
    if (!row.is_object())
      throw DataError(fmt::format("{} is not a JSON object{}", get_location(source, piece, record),
                                  row.is_discarded() ? ": " + json_problem(line) : ""));
    for (const std::string& column : reader.columns()) {
      const auto value = row.find(column);
      if (value == row.end()) {
        std::vector<std::string> keys;
        for (const auto& [key, one] : row.items()) keys.push_back(key);
        find_columns(get_location(source, piece, record), keys, reader.columns());
      }
      if (reader.options().as_json)
        record.values.push_back(nlohmann::ordered_json::parse(line).at(column).dump());
      else
        record.values.push_back(std::move(*value));
    }
    records.push_back(std::move(record));
  });
}

}  // namespace

std::span<const SourceKind> source_kinds() {
  using enum SourceKind::Unit;
  static constexpr std::array kinds = {
      SourceKind{".txt", cut_text, read_text, /*typed=*/false, lines_of_piece},
      SourceKind{".jsonl", cut_by_lines, read_json_lines, /*typed=*/true, lines_of_piece},
      SourceKind{".csv", cut_csv, read_csv, /*typed=*/false, lines_of_piece},
      SourceKind{".parquet", cut_parquet, read_parquet, /*typed=*/true, rows_of_piece},
  };
  return kinds;
}

std::string read_bytes(const Source& source, int64_t begin, int64_t end) {
  std::ifstream in(source.path, std::ios::binary);
  if (!in) throw DataError(fmt::format("{} cannot be opened: {}", source.path.string(), std::strerror(errno)));
  std::string bytes(static_cast<size_t>(end - begin), '\0');
  in.seekg(begin);
  if (!in.read(bytes.data(), end - begin))
    throw DataError(fmt::format("{} has become shorter: restore it", source.path.string()));
  return bytes;
}

int64_t next_line(const Source& source, int64_t from) {
  constexpr int64_t kStep = 1 << 16;
  for (int64_t begin = from - 1; begin < source.bytes; begin += kStep) {
    const std::string bytes = read_bytes(source, begin, std::min(begin + kStep, source.bytes));
    if (const size_t end = bytes.find('\n'); end != bytes.npos) return begin + static_cast<int64_t>(end) + 1;
  }
  return source.bytes;
}

int64_t text_begin(const Source& source) {
  const auto size = static_cast<int64_t>(kByteOrderMark.size());
  return source.bytes >= size && read_bytes(source, 0, size) == kByteOrderMark ? size : 0;
}

std::vector<size_t> find_columns(const std::string& where, const std::vector<std::string>& columns,
                                 const std::vector<std::string>& requested) {
  std::vector<size_t> found;
  for (const std::string& column : requested) {
    const auto match = std::ranges::find(columns, column);
    if (match == columns.end())
      throw DataError(fmt::format("{} has no column \"{}\": it has {}", where, column, fmt::join(columns, ", ")));
    found.push_back(static_cast<size_t>(match - columns.begin()));
  }
  return found;
}

RecordReader::RecordReader(std::vector<std::string> columns, const SourceOptions& options)
    : columns_(std::move(columns)), options_(options) {}

void RecordReader::read(const Source& source, const Piece& piece, std::vector<Record>& records) {
  source.kind->read(source, piece, *this, records);
}

PythonHelper& RecordReader::parquet() {
  if (!parquet_) parquet_ = start_parquet(options_.python);
  return *parquet_;
}

std::string get_location(const Source& source, const Piece& piece, const Record& record) {
  const std::string path = source.path.string();
  switch (source.kind->unit) {
    case SourceKind::Unit::rows_of_piece:
      return fmt::format("{}: row {} of row group {}", path, record.location + 1, piece.begin + 1);
    case SourceKind::Unit::lines_of_piece:
      const std::string before = read_bytes(source, 0, piece.begin);
      return fmt::format("{}:{}", path, std::ranges::count(before, '\n') + record.location + 1);
  }
  return path;
}

}  // namespace modular
