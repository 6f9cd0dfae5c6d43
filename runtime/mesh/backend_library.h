// Interface of a shared library that provides a custom backend for the data collectives (parallel.backend).
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

/// The entry point that the library defines: creates the backend of one process group for memory of the mesh's device.
/// All `size` members call it and meet through `store`; `rank` is the index of this process among them. `timeout` is
/// the timeout of a collective. It may throw exceptions derived from std::exception. Build the library with the headers
/// of the libtorch that the program uses, and with its compiler's standard library.
///
/// The runtime calls, for host memory, allreduce (SUM and MAX), broadcast, alltoall_base, send and recv. For GPU
/// memory, where works must follow the order of the stream, it also calls allgather_into_tensor_coalesced and
/// _reduce_scatter_base.
extern "C" void modular_make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend>& backend);

namespace modular {

using MakeBackend = decltype(&modular_make_backend);

/// Loads the library at `path`, which stays loaded, and returns its entry point. Throws std::runtime_error if the
/// library cannot be loaded or lacks the function.
MakeBackend load_backend(const std::string& path);

/// Whether this process has loaded a backend library.
bool has_loaded_backend();

}  // namespace modular
