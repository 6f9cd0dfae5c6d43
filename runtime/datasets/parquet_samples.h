// Rows of Parquet files, whose columns are named as the tensors of examples.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/files.h"
#include "runtime/data/recently_used.h"
#include "runtime/data/samples.h"
#include "runtime/datasets/parquet_columns.h"
#include "runtime/datasets/row_lengths.h"
#include "runtime/parquet/library.h"

namespace modular {

struct Task;

class ParquetSamples final : public Samples {
 public:
  /// Opens the files and checks their columns and types, which are the same in all files. With `partitions` above 0
  /// samples have the order of so many. Throws std::runtime_error where a file is cut off or has not
  /// the columns that the model's task reads.
  ParquetSamples(std::vector<DataFile> files, const ModelConfig& model, int64_t partitions = 0);

  /// Reads all rows, once. Throws DataError naming file and row where one holds a null, lists that do not fit one
  /// another, or an id that is not below the size of its table. Without it the first use of the lengths does.
  void measure() const;

  int64_t count() const override { return begin_.back(); }
  int64_t tokens() const override;
  /// Padded to the longest row of all; cut() leaves of that what the longest row of a step needs.
  Batch read(std::span<const SamplePosition> places, int64_t samples) const override;
  Batch cut(Batch batch, std::span<const int64_t> step) const override;
  int64_t length(int64_t sample) const override;
  bool has_labels() const { return !makes_labels_; }
  UnpaddedLength longest() const { return measure(), longest_; }
  const PartitionOrder* partition_order() const override { return order_ ? &*order_ : nullptr; }

 private:
  struct Place {
    size_t file = 0;
    int64_t group = 0, rows = 0, first = 0;  // its number in the file, its rows, and the first one's number there
  };
  /// The columns of a row group in the order of columns_.
  using Decoded = std::vector<ParquetValues>;

  void open_file(size_t file, const ModelConfig& model);
  std::shared_ptr<const Decoded> group(size_t number) const;
  std::vector<ParquetValues> read_group(const Place& place) const;
  const std::vector<UnpaddedLength>& lengths() const;
  /// Throws where a list of a row group is not as long as it should be; notes how long the rows are.
  void measure_lists(size_t number, const RowColumn& column, const ParquetValues& values,
                     std::vector<UnpaddedLength>& lengths) const;
  /// Throws where a value is none that the model reads. Returns whether there is a target.
  bool check_values(size_t number, const RowColumn& column, const ParquetValues& values) const;
  [[noreturn]] void reject(size_t number, int64_t row, const std::string& sentence) const;
  bool makes_mask() const;

  std::vector<DataFile> files_;
  std::vector<RowColumn> columns_;  // that the files have and the model reads
  std::vector<Place> groups_;
  std::vector<int64_t> begin_ = {0};  // where each row group's rows begin, and last the number of all
  std::optional<PartitionOrder> order_;
  const Task* task_ = nullptr;
  bool has_decoder_, makes_labels_;

  mutable std::once_flag measured_;
  mutable std::vector<UnpaddedLength> lengths_;
  mutable UnpaddedLength longest_;
  mutable bool all_alike_ = true;

  mutable std::mutex mutex_;  // of what follows
  mutable RecentlyUsed<size_t, std::unique_ptr<ParquetFile>> open_;
  mutable RecentlyUsed<size_t, std::shared_ptr<const Decoded>> decoded_;  // by their bytes
};

}  // namespace modular
