// Reads and repartitions Parquet files through our shared library libmodular_parquet.so, which links the Arrow
// libraries of PyPI's pyarrow. It is loaded on first use with RTLD_LOCAL, because Arrow exports Abseil and Protobuf
// symbols that must not clash with others.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

/// Blocks all signals on this thread and on threads that it starts. A library's threads outlive the scope and must not
/// take signals that are meant for other threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// Type of a column's innermost values.
enum class ParquetType { int8, int16, int32, int64, uint8, uint16, uint32, float32, float64, other };

inline bool is_integer(ParquetType type) { return type <= ParquetType::uint32; }
inline bool is_number(ParquetType type) { return type == ParquetType::float32 || type == ParquetType::float64; }

struct ParquetColumn {
  std::string name, type;  // type in Arrow's notation, e.g. "list<element: int32>"
  int lists = 0;           // levels of nested lists: 1 for one list per row
  ParquetType element = ParquetType::other;
};

/// A row group: rows that are stored and decoded together.
struct ParquetGroup {
  int64_t rows = 0;
};

/// A column of a row group.
struct ParquetValues {
  std::shared_ptr<const void> owner;  // keeps `data` alive
  const void* data = nullptr;         // all values, contiguous
  ParquetType element = ParquetType::other;
  int64_t count = 0;
  /// Offsets of each list level, outermost first: list i is [offsets[i], offsets[i + 1]) of the next level, or of the
  /// values.
  std::vector<std::vector<int32_t>> offsets;
};

/// An open file. Functions throw std::runtime_error that names the file and, if known, the 0-based row.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual const std::vector<ParquetGroup>& groups() const = 0;

  /// Decodes columns of a row group, in the order of `names`. The file must have these columns with a known element
  /// type. Throws if they contain a null.
  virtual std::vector<ParquetValues> read(int64_t group, const std::vector<std::string>& names) = 0;
};

/// Functions that the library exports.
struct ParquetLibrary {
  std::unique_ptr<ParquetFile> (*open)(const std::string& path);
  /// Copies all rows and columns of `from` to `to` with the same compression, in row groups of `rows`. The last row
  /// group may have fewer.
  void (*cut)(const std::string& from, const std::string& to, int64_t rows);
};

/// Returns the library. Throws std::runtime_error with install instructions if it was not built or cannot be loaded.
const ParquetLibrary& parquet_library();

}  // namespace modular

extern "C" const modular::ParquetLibrary* modular_parquet_library();
