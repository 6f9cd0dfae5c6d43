// Data parallelism for losses that compare rows of a batch with each other: each rank holds some of the rows and
// compares them with the rows of all ranks. Without a mesh each call is the identity.
#pragma once

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::dp {

/// Runtime interface of a model whose batch rows are split equally over several ranks.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  virtual int64_t rank() const = 0;
  /// The rows of all ranks, in rank order: [ranks * rows, …]. Backward sums over ranks the gradients of this rank's
  /// rows.
  virtual Tensor gather(const Tensor& rows) = 0;
};

/// The rows of all data-parallel ranks, for a loss that compares rows with each other. Without a mesh, returns `rows`.
/// - rows [rows, hidden]
/// - returns [all rows, hidden]
inline Tensor gather(const Tensor& rows) { return bound.dp ? bound.dp->gather(rows) : rows; }

/// The global index of this rank's first row, if each data-parallel rank has `rows` rows.
inline int64_t first_row(int64_t rows) { return bound.dp ? bound.dp->rank() * rows : 0; }

}  // namespace modular::dp
