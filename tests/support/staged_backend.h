// Collectives of ranks that share a GPU, which NCCL rejects: by way of host memory and Gloo. For
// MeshOptions::make_backend.
#pragma once

#include <chrono>

#include "runtime/mesh/rendezvous.h"

namespace modular::testing {

/// A backend for tensors of any device. What it is asked for is done when it returns, but for sends.
void make_staged_backend(const Store& store, int rank, int size, std::chrono::milliseconds timeout,
                         c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace modular::testing
