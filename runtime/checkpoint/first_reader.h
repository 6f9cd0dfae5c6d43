// Rank 0 reads for all ranks: files that the others need not have.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/checkpoint/checkpoint.h"

namespace modular {

/// Reads the values of one slice of a rank into its `local`. Returns false if there are none.
using ReadSlice = std::function<bool(const TensorSlice& slice, int64_t rank)>;

/// Makes rank 0 `read` every slice of each rank, one after the other, and copies the values into the ranks' slices; a
/// slice without values stays unchanged. Collective over the world. Exceptions from `read` propagate on rank 0; the
/// other ranks throw a CollectiveError that names `what` was read.
void read_by_first(std::span<const TensorSlice> slices, const ReadSlice& read, const std::string& what, Mesh& mesh);

}  // namespace modular
