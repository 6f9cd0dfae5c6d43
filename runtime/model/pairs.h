// Losses over pairs: row i of one side belongs to row i of the other side and to no other row.
#pragma once

#include "runtime/model/dp.h"
#include "runtime/model/functions.h"

namespace modular {

/// Normalizes rows to length 1.
/// - rows [rows, hidden]
/// - returns [rows, hidden]
inline Tensor unit_rows(const Tensor& rows) { return rows / rows.norm(2, {-1}, /*keepdim=*/true); }

/// The index of each row's partner among the rows of all data-parallel ranks; kIgnoredTarget where the label is
/// kIgnoredTarget.
/// - labels [rows] int64
/// - returns [rows] int64
inline Tensor pair_targets(const Tensor& labels) {
  const int64_t first = dp::first_row(labels.size(0));
  return at::arange(first, first + labels.size(0), labels.options())
      .masked_fill(labels.eq(kIgnoredTarget), kIgnoredTarget);
}

/// Binary cross entropy of the prediction which column is the row's partner (Zhai et al., SigLIP), summed over all
/// columns and over the rows that have a partner, in float32.
/// - logits [rows, all rows]
/// - targets [rows] int64
/// - returns [] float32
inline Tensor sigmoid_pair_loss(const Tensor& logits, const Tensor& targets) {
  const Tensor columns = at::arange(logits.size(1), targets.options());
  const Tensor sign = targets.unsqueeze(1).eq(columns).to(at::kFloat) * 2.0 - 1.0;
  const Tensor by_row = at::log_sigmoid(logits.to(at::kFloat) * sign).sum(-1);
  return -by_row.masked_fill(targets.eq(kIgnoredTarget), 0.0).sum();
}

}  // namespace modular
