#include "runtime/mesh/rendezvous.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <stdexcept>

#include "runtime/mesh/cuda_library.h"

namespace modular {

Store connect_store(const Environment& environment, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = environment.rank == 0 && !environment.launcher_hosts_store;
  options.numWorkers = static_cast<size_t>(environment.world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    Store store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
    return c10::make_intrusive<c10d::PrefixStore>(fmt::format("attempt_{}", environment.attempt), store);
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("rank {} cannot {} the job's store at {}:{} (MASTER_ADDR and MASTER_PORT): {}",
                                         environment.rank, options.isServer ? "open" : "reach", environment.master_addr,
                                         environment.master_port, error.what_without_backtrace()));
  }
}

std::string arrive(const Store& store, const std::string& place, int64_t ranks) {
  std::string all = "all " + place;
  if (store->add(place, 1) == ranks) store->set(all, std::vector<uint8_t>{1});
  return all;
}

ProcessGroup make_group(const Store& store, const GroupSpec& spec, const at::Device& device) {
  const int size = static_cast<int>(spec.ranks.size());
  auto group_store = c10::make_intrusive<c10d::PrefixStore>(spec.name, store);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(group_store, spec.rank, size);
  try {
    group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO,
                      make_gloo_backend(c10::make_intrusive<c10d::PrefixStore>("cpu", group_store), spec));
    group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    if (device.is_cuda()) {
      group->setBackend(
          at::kCUDA, c10d::ProcessGroup::NCCL,
          cuda_library().make_nccl_backend(c10::make_intrusive<c10d::PrefixStore>("cuda", group_store), spec, device));
      group->setDefaultBackend(c10d::ProcessGroup::NCCL);
    }
    // A rank that went on alone and left, as one does that has nothing to exchange, would close connections that others
    // have not finished making. c10d's init_process_group waits in the same way, in its _store_based_barrier.
    group_store->wait({arrive(group_store, "joined", size)}, spec.timeout);
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    throw std::runtime_error(fmt::format("rank {} of {} cannot join the process group {}: {}", spec.rank, size,
                                         spec.description,
                                         torch_error ? torch_error->what_without_backtrace() : error.what()));
  }
  group->setGroupName(spec.name);
  group->setGroupDesc(spec.description);
  return group;
}

}  // namespace modular
