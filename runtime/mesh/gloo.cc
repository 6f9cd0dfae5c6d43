// The only file that includes Gloo's headers. They come from the system and are older than the Gloo inside libtorch.
// c10d's headers need them only to declare the backend class; no Gloo code is called or instantiated here.
#include <cstdlib>

#include "runtime/mesh/rendezvous.h"
// Keep this include order: ProcessGroupGloo.hpp declares nothing without this macro.
#ifndef USE_C10D_GLOO
#error "runtime/mesh/gloo.cc needs USE_C10D_GLOO"
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace modular {
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
