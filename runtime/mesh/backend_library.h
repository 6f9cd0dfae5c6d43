// What a shared library exports that brings a backend of its own for the data's collectives (parallel.backend).
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

/// The function that the library defines: makes the backend of one process group, for the memory of the mesh's device.
/// `rank` is this process's place among the `size` members, which meet through `store`, and all of which call this;
/// `timeout` is that of a collective. It may throw what derives from std::exception. The library is built with the
/// headers of the libtorch that the program uses, and with its compiler's standard library.
///
/// Called are, of host memory, allreduce (sums, largest values), broadcast, alltoall_base, send and recv; of a GPU's,
/// where works have to keep the order of its stream, also allgather_into_tensor_coalesced and _reduce_scatter_base.
extern "C" void modular_make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                     std::chrono::milliseconds timeout, c10::intrusive_ptr<c10d::Backend>& backend);

namespace modular {

using MakeBackend = decltype(&modular_make_backend);

/// That function of the library at `path`, which stays loaded. Throws std::runtime_error where it
/// cannot be loaded or lacks the function.
MakeBackend load_backend(const std::string& path);

/// Whether this process has loaded one.
bool has_loaded_backend();

}  // namespace modular
