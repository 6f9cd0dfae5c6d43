#include "runtime/prepare/source_kinds.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/data/files.h"

namespace modular {
namespace {

/// Reads the records of a text one after the other.
class CsvText {
 public:
  explicit CsvText(std::string_view text) : rest_(text) {}

  /// Reads the next record into `fields`; false at the text's end. Skips blank lines.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (skip_line_end()) line_ = next_line_;
    line_ = next_line_;
    if (rest_.empty()) return false;
    do fields.push_back(field());
    while (take(','));
    if (!rest_.empty() && !skip_line_end()) throw Problem{"continues after a quoted field: put a comma there"};
    return true;
  }

  /// 0-based line in which the last record begins.
  int64_t line() const { return line_; }
  size_t left() const { return rest_.size(); }

  struct Problem {
    std::string what;
  };

 private:
  bool take(char wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool skip_line_end() {
    const size_t length = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
    rest_.remove_prefix(length);
    next_line_ += length > 0 ? 1 : 0;
    return length > 0;
  }

  std::string field() {
    if (take('"')) return quoted();
    size_t end = std::min(rest_.find_first_of(",\n\""), rest_.size());
    if (end < rest_.size() && rest_[end] == '"')
      throw Problem{
          "has a quote within a field that does not begin with one: put the field in quotes, and double its "
          "own quotes"};
    if (end > 0 && rest_.substr(end).starts_with('\n') && rest_[end - 1] == '\r') --end;
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return value;
  }

  std::string quoted() {
    std::string value;
    while (true) {
      const size_t end = rest_.find('"');
      if (end == rest_.npos) throw Problem{"begins a quoted field that does not end"};
      value += rest_.substr(0, end);
      next_line_ += std::ranges::count(rest_.substr(0, end), '\n');
      rest_.remove_prefix(end + 1);
      if (!take('"')) return value;
      value += '"';
    }
  }

  std::string_view rest_;
  int64_t line_ = 0, next_line_ = 0;
};

/// Offsets at which records may be cut: the first line end outside quotes at or after each `step` bytes. Outside quotes
/// the number of quotes so far is even.
std::vector<int64_t> record_begins(const Source& source, int64_t begin, int64_t step) {
  constexpr int64_t kBuffer = int64_t{1} << 20;
  std::vector<int64_t> begins = {begin};
  bool quoted = false;
  for (int64_t at = begin; at < source.bytes; at += kBuffer) {
    const std::string bytes = read_bytes(source, at, std::min(at + kBuffer, source.bytes));
    for (size_t index = 0; (index = bytes.find_first_of("\"\n", index)) != bytes.npos; ++index) {
      if (bytes[index] == '"') quoted = !quoted;
      const int64_t next = at + static_cast<int64_t>(index) + 1;
      if (!quoted && bytes[index] == '\n' && next - begins.back() >= step) begins.push_back(next);
    }
  }
  if (begins.back() < source.bytes) begins.push_back(source.bytes);
  return begins;
}

}  // namespace

void cut_csv(Source& source, RecordReader& reader) {
  constexpr int64_t kLongestHeader = int64_t{1} << 20;
  const int64_t begin = text_begin(source);
  const std::string start = read_bytes(source, begin, std::min(begin + kLongestHeader, source.bytes));
  CsvText text(start);
  const std::string path = source.path.string();
  try {
    if (!text.next(source.columns)) throw DataError(fmt::format("{} is empty: its first line names columns", path));
  } catch (const CsvText::Problem& problem) {
    throw DataError(fmt::format("{}:{} {}", path, text.line() + 1, problem.what));
  }
  for (auto column = source.columns.begin(); column != source.columns.end(); ++column)
    if (std::find(source.columns.begin(), column, *column) != column)
      throw DataError(fmt::format("{}:1 names two columns \"{}\"", path, *column));
  source.begins =
      record_begins(source, begin + static_cast<int64_t>(start.size() - text.left()), reader.options().piece_bytes);
}

void read_csv(const Source& source, const Piece& piece, RecordReader& reader, std::vector<Record>& records) {
  const std::vector<size_t> wanted = find_columns(source.path.string(), source.columns, reader.columns());
  const std::string bytes = read_bytes(source, piece.begin, piece.end);
  CsvText text(bytes);
  const auto reject = [&](const std::string& what) {
    throw DataError(fmt::format("{} {}", get_location(source, piece, {{}, text.line()}), what));
  };
  std::vector<std::string> fields;
  try {
    while (text.next(fields)) {
      if (fields.size() != source.columns.size())
        reject(fmt::format("has {} fields, and the first line names {} columns", fields.size(), source.columns.size()));
      Record record{{}, text.line()};
      for (const size_t column : wanted) record.values.emplace_back(fields[column]);
      records.push_back(std::move(record));
    }
  } catch (const CsvText::Problem& problem) {
    reject(problem.what);
  }
}

}  // namespace modular
