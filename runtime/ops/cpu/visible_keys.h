// What the loops of attention read of a mask: for each query a range of keys, and what hides keys within it where
// ranges do not say all.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "runtime/model/attention_mask.h"
#include "runtime/ops/cpu/attention_kernel.h"

namespace modular::cpu {

/// The keys that the queries of each row of a batch see.
class VisibleKeys {
 public:
  /// `seq` queries and as many keys, or, where `mask` hides none, any number of them.
  VisibleKeys(const AttentionMask& mask, int64_t seq, int64_t keys);

  /// Gives `shape` those of a row.
  void set(AttentionShape& shape, int64_t row) const;

 private:
  struct Row {
    std::vector<KeyRange> ranges;
    const bool* present;
    const int64_t* documents;
  };

  at::Tensor padding_, documents_;  // contiguous
  std::vector<Row> rows_;           // one, where all rows are alike
};

}  // namespace modular::cpu
