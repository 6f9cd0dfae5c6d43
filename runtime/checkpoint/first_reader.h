// What rank 0 reads for all ranks, of files that the others need not have.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "runtime/checkpoint/checkpoint.h"

namespace modular {

/// Reads the values of one of a rank's slices into its `local`. Returns false where there are none.
using ReadSlice = std::function<bool(const TensorSlice& slice, int64_t rank)>;

/// Has rank 0 `read` every slice of each rank, one after the other, and puts its values there; a slice without any
/// keeps its own. Collective over the world. What `read` throws is thrown on rank 0, and on the others a
/// CollectiveError that names `what` was read.
void read_by_first(std::span<const TensorSlice> slices, const ReadSlice& read, const std::string& what, Mesh& mesh);

}  // namespace modular
