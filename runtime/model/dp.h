// Data parallelism of losses that compare the rows of a batch with one another: each rank has some of the rows, and its
// rows meet those of all. Without a mesh each call is the identity.
#pragma once

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::dp {

/// What a model is bound to where several ranks share a batch's rows, equally many each.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  virtual int64_t rank() const = 0;
  /// The rows of all ranks, in their order: [ranks * rows, …]. Backward sums over ranks what their losses give to this
  /// rank's rows.
  virtual Tensor gather(const Tensor& rows) = 0;
};

/// The rows of all data-parallel ranks, for a loss that compares rows with one another. Without a mesh, `rows`.
/// - rows [rows, hidden]
/// - returns [all rows, hidden]
inline Tensor gather(const Tensor& rows) { return bound.dp ? bound.dp->gather(rows) : rows; }

/// The number of this rank's first row among those of all data-parallel ranks, where each has `rows`.
inline int64_t first_row(int64_t rows) { return bound.dp ? bound.dp->rank() * rows : 0; }

}  // namespace modular::dp
