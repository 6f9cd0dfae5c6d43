// The shared library: reads and writes with Arrow, independent of libtorch.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "runtime/data/parquet_library.h"

namespace modular {
namespace {

// Limit on the memory of a file's values: kMinMemory + kMaxExpansion * file size. A file of a few kilobytes can claim
// any number of equal values.
constexpr int64_t kMinMemory = int64_t{64} << 20, kMaxExpansion = 1000;

[[noreturn]] void reject(const std::string& path, const std::string& message) {
  throw std::runtime_error(path + ": " + message);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

[[noreturn]] void throw_file_error(const std::string& path, const std::string& why) {
  reject(path, "cannot be read as Parquet: " + first_line(why) + ": it is truncated or corrupt, write it again");
}

[[noreturn]] void throw_file_error(const std::string& path, const arrow::Status& status) {
  if (status.IsOutOfMemory())
    reject(path, "a row group takes more memory than " + std::to_string(kMaxExpansion) + " times the file's size and " +
                     std::to_string(kMinMemory >> 20) + " MiB: write the file again, in smaller row groups");
  throw_file_error(path, status.message());
}

/// Calls `run`, and converts Arrow's exceptions into errors that name the file.
template <class Function>
auto with_file_errors(const std::string& path, Function&& run) {
  const BlockedSignals blocked;  // Arrow starts its threads on first use
  try {
    return run();
  } catch (const parquet::ParquetStatusException& error) {
    throw_file_error(path, error.status());
  } catch (const parquet::ParquetException& error) {
    throw_file_error(path, error.what());
  } catch (const std::bad_alloc&) {
    throw_file_error(path, "it needs more memory than is available");
  } catch (const std::length_error& error) {
    throw_file_error(path, error.what());
  }
}

template <class T>
T get_value(arrow::Result<T> result, const std::string& path) {
  if (!result.ok()) throw_file_error(path, result.status());
  return std::move(result).ValueUnsafe();
}

void check(const arrow::Status& status, const std::string& path) {
  if (!status.ok()) throw_file_error(path, status);
}

void check_written(const arrow::Status& status, const std::string& path) {
  if (!status.ok()) reject(path, "cannot be written: " + first_line(status.message()));
}

template <class T>
T written(arrow::Result<T> result, const std::string& path) {
  check_written(result.status(), path);
  return std::move(result).ValueUnsafe();
}

ParquetType to_type(arrow::Type::type id) {
  switch (id) {
    case arrow::Type::INT8:
      return ParquetType::int8;
    case arrow::Type::INT16:
      return ParquetType::int16;
    case arrow::Type::INT32:
      return ParquetType::int32;
    case arrow::Type::INT64:
      return ParquetType::int64;
    case arrow::Type::UINT8:
    case arrow::Type::BOOL:
      return ParquetType::uint8;  // bits are unpacked to bytes
    case arrow::Type::UINT16:
      return ParquetType::uint16;
    case arrow::Type::UINT32:
      return ParquetType::uint32;
    case arrow::Type::FLOAT:
      return ParquetType::float32;
    case arrow::Type::DOUBLE:
      return ParquetType::float64;
    default:
      return ParquetType::other;
  }
}

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
         type.id() == arrow::Type::FIXED_SIZE_LIST;
}

ParquetColumn describe(const arrow::Field& field) {
  ParquetColumn column{field.name(), field.type()->ToString()};
  std::shared_ptr<arrow::DataType> type = field.type();
  for (; is_list(*type); ++column.lists) type = type->field(0)->type();
  column.element = to_type(type->id());
  return column;
}

/// Returns the offsets of the lists of `array` into `rest`, which is set to their values: one per list, and the end.
template <class Lists>
std::vector<int64_t> read_offsets(const arrow::Array& array, std::shared_ptr<arrow::Array>& rest) {
  const auto& lists = static_cast<const Lists&>(array);
  std::vector<int64_t> offsets;
  const auto first = static_cast<int64_t>(lists.length() > 0 ? lists.value_offset(0) : 0);
  for (int64_t list = 0; list < lists.length(); ++list)
    offsets.push_back(static_cast<int64_t>(lists.value_offset(list)) - first);
  const int64_t end = lists.length() > 0 ? offsets.back() + lists.value_length(lists.length() - 1) : 0;
  offsets.push_back(end);
  rest = lists.values()->Slice(first, end);
  return offsets;
}

/// An open file and its memory pool, which must outlive all values.
struct LimitedFile {
  explicit LimitedFile(const std::string& path) : file(get_value(arrow::io::ReadableFile::Open(path), path)) {
    const int64_t size = get_value(file->GetSize(), path);
    limited = std::make_unique<arrow::CappedMemoryPool>(&counted, kMinMemory + kMaxExpansion * size);
  }
  std::unique_ptr<parquet::arrow::FileReader> reader(const std::string& path) const {
    return get_value(parquet::arrow::OpenFile(file, limited.get()), path);
  }

  std::shared_ptr<arrow::io::ReadableFile> file;
  arrow::ProxyMemoryPool counted{arrow::default_memory_pool()};
  std::unique_ptr<arrow::CappedMemoryPool> limited;
};

/// Values in a file's memory pool.
struct OwnedValues {
  std::shared_ptr<const LimitedFile> file;  // declared first, so that it is destroyed last
  std::shared_ptr<arrow::Buffer> values;
};

class ArrowFile final : public ParquetFile {
 public:
  explicit ArrowFile(const std::string& path)
      : path_(path), file_(std::make_shared<LimitedFile>(path)), reader_(file_->reader(path)) {
    std::shared_ptr<arrow::Schema> schema = read_schema(*reader_, path);
    for (const auto& field : schema->fields()) columns_.push_back(describe(*field));
    const auto metadata = reader_->parquet_reader()->metadata();
    for (int leaf = 0; leaf < metadata->num_columns(); ++leaf)
      leaves_.push_back(metadata->schema()->Column(leaf)->path()->ToDotVector().front());
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      const int64_t rows = metadata->RowGroup(group)->num_rows();
      if (rows < 0 || rows > std::numeric_limits<int32_t>::max())
        throw_file_error(path, "row group " + std::to_string(group) + " has " + std::to_string(rows) + " rows");
      begin_.push_back(begin_.back() + rows);
      groups_.push_back({rows});
    }
  }

  const std::vector<ParquetColumn>& columns() const override { return columns_; }
  const std::vector<ParquetGroup>& groups() const override { return groups_; }

  std::vector<ParquetValues> read(int64_t group, const std::vector<std::string>& names) override {
    return with_file_errors(path_, [&] {
      std::vector<int> leaves;
      for (int leaf = 0; leaf < static_cast<int>(leaves_.size()); ++leaf)
        if (std::ranges::find(names, leaves_[static_cast<size_t>(leaf)]) != names.end()) leaves.push_back(leaf);
      const auto table = get_value(reader_->ReadRowGroup(static_cast<int>(group), leaves), path_);
      const int64_t rows = groups_[static_cast<size_t>(group)].rows;
      check(table->ValidateFull(), path_);
      std::vector<ParquetValues> columns;
      for (const std::string& name : names) {
        const auto column = table->GetColumnByName(name);
        if (!column || column->length() != rows)
          throw_file_error(path_, "\"" + name + "\" of row group " + std::to_string(group) +
                                      " has fewer or more rows than declared");
        columns.push_back(decoded(name, *column, group));
      }
      return columns;
    });
  }

  static std::shared_ptr<arrow::Schema> read_schema(parquet::arrow::FileReader& reader, const std::string& path) {
    std::shared_ptr<arrow::Schema> schema;
    check(reader.GetSchema(&schema), path);
    return schema;
  }

 private:
  ParquetValues decoded(const std::string& name, const arrow::ChunkedArray& column, int64_t group) const {
    std::shared_ptr<arrow::Array> array;
    if (column.num_chunks() == 1)
      array = column.chunk(0);
    else if (column.num_chunks() == 0)
      array = get_value(arrow::MakeEmptyArray(column.type()), path_);
    else
      array = get_value(arrow::Concatenate(column.chunks(), file_->limited.get()), path_);
    ParquetValues values;
    reject_null(name, *array, values.offsets, group);
    while (is_list(*array->type())) {
      std::shared_ptr<arrow::Array> rest;
      const auto offsets = array->type_id() == arrow::Type::LIST ? read_offsets<arrow::ListArray>(*array, rest)
                           : array->type_id() == arrow::Type::LARGE_LIST
                               ? read_offsets<arrow::LargeListArray>(*array, rest)
                               : read_offsets<arrow::FixedSizeListArray>(*array, rest);
      if (offsets.back() > std::numeric_limits<int32_t>::max())
        reject(path_, "\"" + name + "\" holds more than 2147483647 values in row group " + std::to_string(group) +
                          ": cut the file into smaller ones with `modrun repartition`");
      values.offsets.emplace_back(offsets.begin(), offsets.end());
      array = std::move(rest);
      reject_null(name, *array, values.offsets, group);
    }
    values.count = array->length();
    values.element = to_type(array->type_id());
    if (array->type_id() == arrow::Type::BOOL) {
      const auto& bits = static_cast<const arrow::BooleanArray&>(*array);
      const auto bytes = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(bits.length()));
      for (int64_t i = 0; i < bits.length(); ++i) (*bytes)[static_cast<size_t>(i)] = bits.Value(i);
      values.data = bytes->data();
      values.owner = bytes;
    } else {
      const auto& fixed = static_cast<const arrow::PrimitiveArray&>(*array);
      const int width = static_cast<const arrow::FixedWidthType&>(*array->type()).bit_width() / 8;
      values.data = fixed.values() ? fixed.values()->data() + fixed.offset() * width : nullptr;
      values.owner = std::make_shared<OwnedValues>(OwnedValues{file_, fixed.values()});
    }
    return values;
  }

  /// Throws if `array` has a null, naming its row, found through the list `offsets` that lead to `array`.
  void reject_null(const std::string& name, const arrow::Array& array, const std::vector<std::vector<int32_t>>& offsets,
                   int64_t group) const {
    if (array.null_count() == 0) return;
    int64_t row = 0;
    while (!array.IsNull(row)) ++row;
    for (size_t level = offsets.size(); level-- > 0;)
      row = std::ranges::upper_bound(offsets[level], row) - offsets[level].begin() - 1;
    reject(path_, "row " + std::to_string(begin_[static_cast<size_t>(group)] + row) + ": \"" + name +
                      "\" holds a null: replace it with a value, or drop the row");
  }

  std::string path_;
  std::shared_ptr<const LimitedFile> file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<ParquetColumn> columns_;
  std::vector<ParquetGroup> groups_;
  std::vector<int64_t> begin_ = {0};  // first row of each row group
  std::vector<std::string> leaves_;   // top-level column of each leaf column
};

std::unique_ptr<ParquetFile> open(const std::string& path) {
  return with_file_errors(path, [&] { return std::unique_ptr<ParquetFile>(std::make_unique<ArrowFile>(path)); });
}

void cut(const std::string& from, const std::string& to, int64_t rows) {
  with_file_errors(from, [&] {
    const LimitedFile file(from);
    const auto reader = file.reader(from);
    const auto schema = ArrowFile::read_schema(*reader, from);
    const auto metadata = reader->parquet_reader()->metadata();
    parquet::WriterProperties::Builder properties;
    properties.max_row_group_length(rows);
    if (metadata->num_row_groups() > 0 && metadata->num_columns() > 0)
      properties.compression(metadata->RowGroup(0)->ColumnChunk(0)->compression());
    const auto keeps_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    const auto sink = written(arrow::io::FileOutputStream::Open(to), to);
    const auto writer = written(
        parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), sink, properties.build(), keeps_types),
        to);
    std::vector<std::shared_ptr<arrow::Table>> pending;  // rows that do not fill a row group yet
    int64_t count = 0;
    const auto write = [&](bool all) {
      auto table = get_value(arrow::ConcatenateTables(pending), from);
      int64_t begin = 0;
      for (; count - begin >= rows || (all && begin < count); begin += rows)
        check_written(writer->WriteTable(*table->Slice(begin, rows), rows), to);
      pending = {table->Slice(std::min(begin, count))};
      count = std::max<int64_t>(count - begin, 0);
    };
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      pending.push_back(get_value(reader->ReadRowGroup(group), from));
      count += pending.back()->num_rows();
      if (count >= rows) write(/*all=*/false);
    }
    if (count > 0) write(/*all=*/true);
    check_written(writer->Close(), to);
    check_written(sink->Close(), to);
  });
}

constexpr ParquetLibrary kFunctions = {&open, &cut};

}  // namespace
}  // namespace modular

extern "C" const modular::ParquetLibrary* modular_parquet_library() { return &modular::kFunctions; }
