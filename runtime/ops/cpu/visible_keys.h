// The form of a mask that attention loops read: a range of keys for each query, and what hides keys within the ranges
// where ranges do not suffice.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "runtime/model/attention_mask.h"
#include "runtime/ops/cpu/attention_kernel.h"

namespace modular::cpu {

/// The keys that are visible to the queries of each row of a batch.
class VisibleKeys {
 public:
  /// For `seq` queries and as many keys; or any number of keys if `mask` hides none.
  VisibleKeys(const AttentionMask& mask, int64_t seq, int64_t keys);

  /// Sets the visible keys of a row in `shape`.
  void set(AttentionShape& shape, int64_t row) const;

 private:
  struct Row {
    std::vector<KeyRange> ranges;
    const bool* present;
    const int64_t* documents;
  };

  at::Tensor padding_, documents_;  // contiguous
  std::vector<Row> rows_;           // a single one if all rows are alike
};

}  // namespace modular::cpu
