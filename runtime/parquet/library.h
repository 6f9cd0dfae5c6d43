// Parquet files, read and cut by a shared library of our own, libmodular_parquet.so, which links Arrow's libraries as
// PyPI's pyarrow ships them. It is loaded when it is first asked for, for itself alone: Arrow exports Abseil's and
// Protobuf's symbols, which are not to meet those of others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

/// What a column's innermost values are.
enum class ParquetType { int8, int16, int32, int64, uint8, uint16, uint32, float32, float64, other };

inline bool is_integer(ParquetType type) { return type <= ParquetType::uint32; }
inline bool is_number(ParquetType type) { return type == ParquetType::float32 || type == ParquetType::float64; }

struct ParquetColumn {
  std::string name, type;  // as Arrow spells it, e.g. "list<element: int32>"
  int lists = 0;           // that its values lie in: 1 for a list a row
  ParquetType element = ParquetType::other;
};

/// A row group: rows that are stored, and decoded, together.
struct ParquetGroup {
  int64_t rows = 0;
};

/// A column of a row group.
struct ParquetValues {
  std::shared_ptr<const void> owner;  // of `data`
  const void* data = nullptr;         // all values, one after the other
  ParquetType element = ParquetType::other;
  int64_t count = 0;
  /// Of each level of lists, outermost first: list i is [offsets[i], offsets[i + 1]) of the next level, or of the
  /// values.
  std::vector<std::vector<int32_t>> offsets;
};

/// An open file. Functions throw std::runtime_error that names the file; reading, and where it can the
/// row, counted from 0.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual const std::vector<ParquetGroup>& groups() const = 0;

  /// Columns of a row group, decoded, in the order of `names`, which the file has with a known element. Throws where it
  /// holds a null.
  virtual std::vector<ParquetValues> read(int64_t group, const std::vector<std::string>& names) = 0;
};

/// What the library exports.
struct ParquetLibrary {
  std::unique_ptr<ParquetFile> (*open)(const std::string& path);
  /// Writes the rows of `from`, with all columns, compressed alike, to `to` in row groups of `rows`, of which the last
  /// may have fewer.
  void (*cut)(const std::string& from, const std::string& to, int64_t rows);
};

/// The library. Throws std::runtime_error that says what to install where it was not built or cannot be loaded.
const ParquetLibrary& parquet_library();

}  // namespace modular

extern "C" const modular::ParquetLibrary* modular_parquet_library();
