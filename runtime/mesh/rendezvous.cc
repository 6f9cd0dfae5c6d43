#include "runtime/mesh/rendezvous.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "runtime/mesh/backend_library.h"
#include "runtime/mesh/libraries.h"

// Keep this include order: ProcessGroupGloo.hpp declares nothing without this macro.
#ifndef USE_C10D_GLOO
#error "runtime/mesh/rendezvous.cc needs USE_C10D_GLOO"
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace modular {
namespace {
bool has_loaded = false;
}  // namespace

bool has_loaded_backend() { return has_loaded; }

MakeBackend load_backend(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(fmt::format("the library cannot be loaded: {}", dlerror()));
  const auto make = reinterpret_cast<MakeBackend>(dlsym(library, "modular_make_backend"));
  if (!make)
    throw std::runtime_error(
        fmt::format("{} lacks modular_make_backend: define it as runtime/mesh/backend_library.h says", path));
  has_loaded = true;
  return make;
}

c10d::TCPStoreOptions loopback_store(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (socket < 0 || ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
      ::bind(socket, generic, length) != 0 || ::listen(socket, SOMAXCONN) != 0 ||
      ::getsockname(socket, generic, &length) != 0) {
    const std::string why = std::strerror(errno);
    if (socket >= 0) ::close(socket);
    throw std::runtime_error(fmt::format("cannot open the job's store at 127.0.0.1:{}: {}", port, why));
  }
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = ntohs(address.sin_port);
  options.masterListenFd = socket;
  return options;
}

Store connect_store(const Environment& environment, std::chrono::milliseconds timeout, bool may_host) {
  const bool hosts = may_host && environment.rank == 0 && !environment.launcher_hosts_store;
  // Ignores the host name in MASTER_ADDR, which srun and mpirun set: only this machine may connect.
  const bool is_local = environment.one_machine() && !environment.launcher_hosts_store;
  const std::string address = is_local ? "127.0.0.1" : environment.master_addr;
  auto options = hosts && is_local ? loopback_store(environment.master_port) : c10d::TCPStoreOptions();
  options.port = environment.master_port;
  options.isServer = hosts;
  options.numWorkers = static_cast<size_t>(environment.world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    Store store = c10::make_intrusive<c10d::TCPStore>(address, options);
    return c10::make_intrusive<c10d::PrefixStore>(
        fmt::format("{}attempt_{}", environment.store_prefix, environment.attempt), store);
  } catch (const c10::Error& error) {
    throw std::runtime_error(fmt::format("rank {} cannot {} the job's store at {}:{} (MASTER_ADDR and MASTER_PORT): {}",
                                         environment.rank, options.isServer ? "open" : "reach", address,
                                         environment.master_port, error.what_without_backtrace()));
  }
}

std::string arrive(const Store& store, const std::string& name, int64_t ranks) {
  std::string all = "all " + name;
  if (store->add(name, 1) == ranks) store->set(all, std::vector<uint8_t>{1});
  return all;
}

void claim_device(const Store& store, const std::string& device, int64_t rank) {
  const std::string own = std::to_string(rank);
  const std::vector<uint8_t> value =
      store->compareSet("device " + device, {}, std::vector<uint8_t>(own.begin(), own.end()));
  const std::string holder(value.begin(), value.end());
  if (holder != own)
    throw std::runtime_error(
        fmt::format("ranks {} and {} both use the GPU {}: start one rank per GPU, and if each rank sees only one GPU, "
                    "make a different one visible to each (CUDA_VISIBLE_DEVICES)",
                    holder, rank, device));
}

namespace {

c10::intrusive_ptr<c10d::Backend> make_wrapped_backend(MakeBackend make, const Store& store, const GroupSpec& spec) {
  c10::intrusive_ptr<c10d::Backend> backend;
  make(store, spec.rank, static_cast<int>(spec.ranks.size()), spec.timeout, backend);
  if (!backend) throw std::runtime_error("modular_make_backend of the library in parallel.backend returned no backend");
  return backend;
}

}  // namespace

ProcessGroup make_group(const Store& store, const GroupSpec& spec, const at::Device& device, MakeBackend make) {
  const int size = static_cast<int>(spec.ranks.size());
  auto group_store = c10::make_intrusive<c10d::PrefixStore>(spec.name, store);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(group_store, spec.rank, size);
  try {
    const auto set = [&](at::DeviceType type, c10d::ProcessGroup::BackendType kind, const auto& backend) {
      group->setBackend(type, kind, backend);
      group->setDefaultBackend(kind);
    };
    const Store host_store = c10::make_intrusive<c10d::PrefixStore>("cpu", group_store),
                device_store = c10::make_intrusive<c10d::PrefixStore>("device", group_store);
    if (!device.is_cpu() || !make) set(at::kCPU, c10d::ProcessGroup::GLOO, make_gloo_backend(host_store, spec));
    if (make)
      set(device.type(), c10d::ProcessGroup::CUSTOM, make_wrapped_backend(make, device_store, spec));
    else if (device.is_cuda())
      set(at::kCUDA, c10d::ProcessGroup::NCCL, cuda_library().make_nccl_backend(device_store, spec, device));
    // A rank that returned early and exited, because it has nothing to communicate, would close connections that others
    // are still setting up. c10d's init_process_group waits in the same way, in its _store_based_barrier.
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

// The only file that includes Gloo's headers. They come from the system and are older than the Gloo inside libtorch.
// c10d's headers need them only to declare the backend class; no Gloo code is called or instantiated here.

namespace {

/// Chooses the network interface: GLOO_SOCKET_IFNAME (the first of a list); else the loopback address if all ranks run
/// on this machine, because its host name may not resolve, or only slowly; else the address of the host name.
std::shared_ptr<gloo::transport::Device> make_device(bool one_machine) {
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME"); interfaces && *interfaces) {
    const std::string list = interfaces;
    return c10d::ProcessGroupGloo::createDeviceForInterface(list.substr(0, list.find(',')));
  }
  if (one_machine) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Store& store, const GroupSpec& spec) {
  auto options = c10d::ProcessGroupGloo::Options::create(spec.timeout);
  options->devices.push_back(make_device(spec.one_machine));
  options->threads = 2;
  options->group_name = spec.name;
  options->group_desc = spec.description;
  options->global_ranks_in_group.assign(spec.ranks.begin(), spec.ranks.end());
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, spec.rank, static_cast<int>(spec.ranks.size()), options);
}

}  // namespace modular

// libtorch calls this function instead of libc's: the dynamic linker looks in the program first. Gloo's event loop
// skips an event while another thread holds the connection's lock, and waits again at once (pytorch/gloo issue 246). On
// a machine with more threads than cores that thread often waits for the very core on which the loop spins until its
// time slice ends. A wait that follows the last one faster than any read from a socket yields the core.
extern "C" int epoll_wait(int epoll, epoll_event* events, int capacity, int timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kFastestRead(250);
  thread_local Clock::time_point last_event;
  if (Clock::now() - last_event < kFastestRead) sched_yield();
  const int ready = epoll_pwait(epoll, events, capacity, timeout, nullptr);
  if (ready > 0) last_event = Clock::now();
  return ready;
}
