// Rendezvous of the ranks of a job: one key-value store, and process groups created through it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/mesh/backend_library.h"
#include "runtime/mesh/environment.h"

namespace modular {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
using Store = c10::intrusive_ptr<c10d::Store>;

/// Options of a store that this process hosts on `port` for processes of this machine only: c10d would listen on all
/// interfaces, and does not authenticate. With port 0 the system chooses one, which the options then contain. Throws
/// std::runtime_error if the port is not available.
c10d::TCPStoreOptions loopback_store(uint16_t port);

/// Connects to the job's store; rank 0 hosts it unless a launcher does. Throws std::runtime_error that names the
/// address if it cannot be reached within `timeout`. `may_host` = false opens another connection on a rank that already
/// has one.
Store connect_store(const Environment& environment, std::chrono::milliseconds timeout, bool may_host = true);

/// Counts this rank at the barrier `name`, which must be new to the store. The store holds the returned key once all
/// `ranks` have arrived; wait for that key.
std::string arrive(const Store& store, const std::string& name, int64_t ranks);

/// Claims a device for this rank, by a name that is unique in the job. Throws std::runtime_error that names both ranks
/// if another rank has claimed it.
void claim_device(const Store& store, const std::string& device, int64_t rank);

/// Identity and options of a process group.
struct GroupSpec {
  std::string name;            // unique in the job, the same on all members, e.g. "dp_shard:0"
  std::string description;     // for messages, e.g. "dp_shard"
  std::vector<int64_t> ranks;  // global ranks of the members, ascending
  int rank = 0;                // this rank's index in `ranks`
  bool one_machine = false;    // all ranks of the job are on this machine
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Gloo backend for tensors in host memory. Collective over the members.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Store& store, const GroupSpec& spec);

/// Creates a group with Gloo for host memory and, if `device` is a GPU, NCCL for its memory. If `make` is given, its
/// backend serves the memory of `device` instead. Collective over the members.
ProcessGroup make_group(const Store& store, const GroupSpec& spec, const at::Device& device,
                        MakeBackend make = nullptr);

// Hook for running one rank without its peers (runtime/plan).

/// If set, meshes that this thread constructs get their groups from this function and join no job.
inline thread_local std::function<ProcessGroup(const GroupSpec&)> group_maker;

}  // namespace modular
