// How the ranks of a job find each other: one key-value store, and process groups made through it.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/mesh/backend_library.h"
#include "runtime/mesh/environment.h"

namespace modular {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;
using Store = c10::intrusive_ptr<c10d::Store>;

/// Options of a store that this process hosts on `port` (0: one that the system chooses, which is then in the options),
/// for processes of this machine alone: c10d would listen on all interfaces, and does not authenticate. Throws
/// std::runtime_error where the port cannot be had.
c10d::TCPStoreOptions loopback_store(uint16_t port);

/// Connects to the job's store; rank 0 hosts it where no launcher does. Throws std::runtime_error naming the address
/// that could not be reached within `timeout`. With `may_host` false, another connection of a rank that has one.
Store connect_store(const Environment& environment, std::chrono::milliseconds timeout, bool may_host = true);

/// Counts this rank at `place`, a name that is new to the store. The key that is returned is there once all `ranks`
/// have arrived: who has to know waits for it.
std::string arrive(const Store& store, const std::string& place, int64_t ranks);

/// Takes a device, by a name that no other one in the job has, for this rank. Throws std::runtime_error naming both
/// ranks where another one has it.
void claim_device(const Store& store, const std::string& device, int64_t rank);

/// What distinguishes a process group's ranks from those of all other groups.
struct GroupSpec {
  std::string name;            // unique in the job, the same on all members, e.g. "dp_shard:0"
  std::string description;     // for messages, e.g. "dp_shard"
  std::vector<int64_t> ranks;  // global ranks of the members, ascending
  int rank = 0;                // this rank's index in `ranks`
  bool one_machine = false;    // all ranks of the job are on this machine
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Gloo's backend for tensors in host memory. Collective over the members.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Store& store, const GroupSpec& spec);

/// A group with Gloo for host memory and, where `device` is a GPU, NCCL for its memory; for the memory of `device` what
/// `make` makes instead, where it is given. Collective over the members.
ProcessGroup make_group(const Store& store, const GroupSpec& spec, const at::Device& device,
                        MakeBackend make = nullptr);

}  // namespace modular
