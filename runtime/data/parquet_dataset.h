// Rows of Parquet files as samples. Columns are named as the tensors of examples are.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/example_dataset.h"
#include "runtime/data/parquet_columns.h"
#include "runtime/data/parquet_library.h"
#include "runtime/data/recently_used.h"
#include "runtime/data/sample_order.h"

namespace modular {

struct Task;

class ParquetDataset final : public Dataset {
 public:
  /// Opens the files and checks columns and types, which must agree over all files. In training with data.partitions
  /// above 0, orders samples for that many partitions. Throws std::runtime_error if a file is truncated or lacks
  /// columns of the model's task.
  explicit ParquetDataset(const DatasetRequest& request);

  int64_t count() const override { return begin_.back(); }
  int64_t tokens() const override;
  /// Pads to the longest row of all; cut() trims that to the longest row of a step.
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override;
  bool has_labels() const { return !makes_labels_; }
  const PartitionOrder* partition_order() const override { return order_ ? &*order_ : nullptr; }
  /// Reads all rows, unless a function that uses their lengths has. Throws DataError naming file and row for a null,
  /// lists of inconsistent lengths, or an id beyond its table, and ConfigError for a row that is longer than the
  /// model's positions.
  void validate() const override;

 private:
  struct RowGroup {
    size_t file = 0;
    int64_t group = 0, rows = 0, first = 0;  // index in the file, number of rows, index of the first row in the file
  };
  /// The columns of a row group, in the order of columns_.
  using Decoded = std::vector<ParquetValues>;

  void open_file(size_t file);
  /// Reads all rows at its first call.
  void measure() const;
  std::shared_ptr<const Decoded> group(size_t number) const;
  std::vector<ParquetValues> read_group(const RowGroup& group) const;
  const std::vector<UnpaddedLength>& lengths() const;
  /// Throws if a list of a row group has the wrong length. Records the lengths of the rows.
  void measure_lists(size_t number, const RowColumn& column, const ParquetValues& values,
                     std::vector<UnpaddedLength>& lengths) const;
  /// Throws if the model cannot read a value. Returns whether there is a target.
  bool check_values(size_t number, const RowColumn& column, const ParquetValues& values) const;
  [[noreturn]] void reject(size_t number, int64_t row, const std::string& sentence) const;
  bool makes_mask() const;

  std::vector<DataFile> files_;
  ModelConfig model_;
  bool has_checkpoint_;             // whether the model starts from weights
  std::vector<RowColumn> columns_;  // both in the files and read by the model
  std::vector<RowGroup> groups_;
  std::vector<int64_t> begin_ = {0};  // first row of each row group, then the total
  std::optional<PartitionOrder> order_;
  const Task* task_;
  bool has_decoder_, makes_labels_ = false;

  mutable std::once_flag measured_;
  mutable std::vector<UnpaddedLength> lengths_;
  mutable UnpaddedLength longest_;
  mutable bool all_alike_ = true;

  mutable std::mutex mutex_;  // guards the members below
  mutable RecentlyUsed<size_t, std::unique_ptr<ParquetFile>> open_;
  mutable RecentlyUsed<size_t, std::shared_ptr<const Decoded>> decoded_;  // limited by bytes
};

}  // namespace modular
