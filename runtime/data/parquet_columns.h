// Columns of Parquet files that a model's task reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/data/parquet_library.h"

namespace modular {

/// A column that becomes a tensor of a batch.
struct RowColumn {
  std::string_view name;
  enum class Of { row, input, target } of = Of::input;  // lists are as long as input_ids, or as the decoder's labels
  int lists = 1;                                        // [batch, seq]; 0: [batch]; 2: [batch, seq, width]
  enum class Values { integers, numbers, either } values = Values::integers;
  bool as_numbers = false;  // float32 in the batch
  int64_t padding = 0;      // value after the end of a list
  int64_t width = 0;        // length of the innermost lists, if fixed
  std::vector<int64_t>
      below{};  // exclusive upper bounds of ids: one for all, or one per element of the width; empty for none
  std::string_view below_key{};  // config key that sets the bounds
  bool zero_or_one = false;      // the only values allowed
  bool may_ignore = false;       // kIgnoredTarget is allowed
  bool required = true;
};

/// The columns that the model's task reads. Throws std::runtime_error if rows of Parquet files cannot hold its
/// examples.
std::vector<RowColumn> row_columns(const ModelConfig& model);

/// The subset of `columns` in the file at `path`. Throws std::runtime_error that lists the existing columns if one is
/// missing, or a supported type if a type does not fit.
std::vector<RowColumn> columns_in(const std::vector<ParquetColumn>& held, const std::string& path,
                                  const std::vector<RowColumn>& columns, const ModelConfig& model);

}  // namespace modular
