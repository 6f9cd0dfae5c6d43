// Collectives of the counted device, over Gloo: for MeshOptions::make_backend.
#pragma once

#include <chrono>

#include "runtime/mesh/rendezvous.h"

namespace modular::testing {

/// A backend that moves the memory of tensors on counted_device(). What it is asked for is done when it returns, by
/// the operations that NCCL has.
void make_counted_backend(const Store& store, int rank, int size, std::chrono::milliseconds timeout,
                          c10::intrusive_ptr<c10d::Backend>& backend);

}  // namespace modular::testing
