// The columns of Parquet files that a model's task reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/parquet/library.h"

namespace modular {

/// A column whose values become a tensor of a batch.
struct RowColumn {
  std::string_view name;
  enum class Of { row, input, target } of = Of::input;  // lists are as long as input_ids, or as the decoder's labels
  int lists = 1;                                        // [batch, seq]; 0: [batch]; 2: [batch, seq, width]
  enum class Values { integers, numbers, either } values = Values::integers;
  bool as_numbers = false;       // a batch has float32
  int64_t padding = 0;           // after a list's end
  int64_t width = 0;             // of the innermost lists, where all are alike
  std::vector<int64_t> below{};  // that ids stay below: one for all, or one for each of the width; none for any
  std::string_view below_key{};  // what of the model's config says so
  bool zero_or_one = false;      // what numbers have to be
  bool may_ignore = false;       // kIgnoredTarget may be one of them
  bool required = true;
};

/// What the model's task reads. Throws std::runtime_error where rows of Parquet files cannot hold its examples.
std::vector<RowColumn> row_columns(const ModelConfig& model);

/// Those of `columns` that the file at `path` has. Throws std::runtime_error naming the column that is missing and
/// those that are there, or the type that does not fit and one that does.
std::vector<RowColumn> columns_in(const std::vector<ParquetColumn>& held, const std::string& path,
                                  const std::vector<RowColumn>& columns, const ModelConfig& model);

}  // namespace modular
