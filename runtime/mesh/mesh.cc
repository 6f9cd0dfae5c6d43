#include "runtime/mesh/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "runtime/mesh/libraries.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/rendezvous.h"
#include "runtime/mesh/status.h"

namespace modular {
namespace {

at::Device choose_device(const Environment& environment, const MeshOptions& options) {
  if (options.device && !options.device->is_cuda()) return *options.device;
  if (options.device && options.device->has_index()) {
    cuda_library().use_device(*options.device);
    return *options.device;
  }
  const int64_t gpus = gpu_count();
  if (gpus == 0) {
    if (!options.device) return at::kCPU;
    throw std::runtime_error(
        "device is cuda but this process sees no GPU: set device to cpu, or check "
        "CUDA_VISIBLE_DEVICES and the driver");
  }
  // Some launchers make only one GPU visible to each rank.
  const bool one_visible_gpu_per_rank = gpus == 1 && environment.local_world_size > 1;
  if (!one_visible_gpu_per_rank && environment.local_rank >= gpus)
    throw std::runtime_error(fmt::format("{} ranks on a machine with {} GPUs: start at most {} ranks per machine",
                                         environment.local_world_size, gpus, gpus));
  const at::Device device(at::kCUDA,
                          static_cast<at::DeviceIndex>(one_visible_gpu_per_rank ? 0 : environment.local_rank));
  cuda_library().use_device(device);
  return device;
}

}  // namespace

int64_t MeshShape::ranks() const {
  int64_t product = 1;
  for (const int64_t length : size) product *= length;
  return product;
}

int64_t MeshShape::ranks(const std::vector<Axis>& axes) const {
  int64_t product = 1;
  for (const Axis axis : axes) product *= (*this)[axis];
  return product;
}

std::array<int64_t, kAxisNames.size()> MeshShape::coordinates(int64_t rank) const {
  std::array<int64_t, kAxisNames.size()> result = {};
  for (size_t axis = size.size(); axis-- > 0;) {
    result[axis] = rank % size[axis];
    rank /= size[axis];
  }
  return result;
}

int64_t MeshShape::index(int64_t rank, const std::vector<Axis>& axes) const {
  const auto own = coordinates(rank);
  int64_t result = 0;
  for (size_t axis = 0; axis < size.size(); ++axis)
    if (std::ranges::count(axes, static_cast<Axis>(axis))) result = result * size[axis] + own[axis];
  return result;
}

std::vector<int64_t> MeshShape::members(int64_t rank, const std::vector<Axis>& axes) const {
  const auto own = coordinates(rank);
  std::vector<int64_t> result;
  for (int64_t other = 0; other < ranks(); ++other) {
    const auto coordinate = coordinates(other);
    bool member = true;
    for (size_t axis = 0; axis < size.size(); ++axis)
      member = member && (coordinate[axis] == own[axis] || std::ranges::count(axes, static_cast<Axis>(axis)));
    if (member) result.push_back(other);
  }
  return result;
}

std::string MeshShape::describe() const {
  std::string text;
  for (size_t axis = 0; axis < size.size(); ++axis)
    if (size[axis] != 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", kAxisNames[axis], size[axis]);
  return text.empty() ? "1 rank" : text;
}

Mesh::Mesh(const Environment& environment, const MeshShape& shape, const MeshOptions& options)
    : environment_(environment), shape_(shape), options_(options), exceptions_at_start_(std::uncaught_exceptions()) {
  for (size_t axis = 0; axis < shape.size.size(); ++axis)
    if (shape.size[axis] < 1)
      throw std::runtime_error(
          fmt::format("mesh axis {} has size {}: it must be at least 1", kAxisNames[axis], shape.size[axis]));
  if (shape.ranks() != environment.world_size)
    throw std::runtime_error(fmt::format("the mesh {} has {} ranks but {} were started: start {} or change the mesh",
                                         shape.describe(), shape.ranks(), environment.world_size, shape.ranks()));
  device_ = choose_device(environment, options);
  if (environment.world_size == 1) return;
  if (!group_maker) {
    set_phase("joining the job");
    begin_heartbeat(options.frozen_after);
    const Store job = connect_store(environment, options.rendezvous_timeout);
    watch_ = MachineWatch::start(environment, options.on_lost_machine);
    ResolvedConfig config = {{"the mesh", shape.describe()},
                             {"the device", at::DeviceTypeName(device_.type(), /*lower_case=*/true)}};
    config.insert(config.end(), options.resolved_config.begin(), options.resolved_config.end());
    store_ = agree(job, environment, config, options.rendezvous_timeout);
    // NCCL supports one rank per GPU.
    if (device_.is_cuda() && !options.make_backend)
      claim_device(store_, cuda_library().name_for(device_), environment.rank);
  }
  const bool data_is_over_gloo = device_.is_cpu() && !options.make_backend;
  control_ = data_is_over_gloo ? world() : host_group("control", options.collective_timeout);
}

Mesh::~Mesh() {
  watch_.reset();
  if (!store_ || std::uncaught_exceptions() > exceptions_at_start_) return;
  try {
    for (auto& [description, group] : groups_) group->shutdown();
    if (environment_.launcher_hosts_store) return;
    const std::string all_left = arrive(store_, "left", environment_.world_size);
    if (rank() == 0) store_->wait({all_left}, options_.collective_timeout);
  } catch (const std::exception& error) {
    print_to(stderr, "rank {} did not shut down cleanly: {}\n", rank(), error.what());
  }
}

int64_t Mesh::coordinate(Axis axis) const { return shape_.coordinates(rank())[static_cast<size_t>(axis)]; }

ProcessGroup Mesh::group(std::vector<Axis> axes, const std::string& purpose) {
  return group(axes, purpose, device_, options_.make_backend, options_.collective_timeout);
}

ProcessGroup Mesh::host_group(const std::string& purpose, std::chrono::milliseconds timeout) {
  return group(kAllAxes, purpose, at::kCPU, /*make_backend=*/nullptr, timeout);
}

ProcessGroup Mesh::group(const std::vector<Axis>& axes, const std::string& purpose, const at::Device& device,
                         MakeBackend make_backend, std::chrono::milliseconds timeout) {
  std::string description;
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis)
    if (shape_.size[axis] > 1 && std::ranges::count(axes, static_cast<Axis>(axis)))
      description += fmt::format("{}{}", description.empty() ? "" : " x ", kAxisNames[axis]);
  if (description.empty()) return {};
  if (!purpose.empty()) description += fmt::format(" ({})", purpose);
  return make(description, shape_.members(rank(), axes), device, make_backend, timeout);
}

ProcessGroup Mesh::subgroup(Axis axis, int64_t count) {
  if (count == 1) return {};
  if (count == size(axis)) return group({axis});
  const std::vector<int64_t> all = shape_.members(rank(), {axis});
  const auto first = all.begin() + coordinate(axis) / count * count;
  return make(fmt::format("{} by {}", kAxisNames[static_cast<size_t>(axis)], count), {first, first + count}, device_,
              options_.make_backend, options_.collective_timeout);
}

ProcessGroup Mesh::make(const std::string& description, std::vector<int64_t> ranks, const at::Device& device,
                        MakeBackend make_backend, std::chrono::milliseconds timeout) {
  if (const auto known = groups_.find(description); known != groups_.end()) return known->second;
  GroupSpec spec;
  spec.description = description;
  spec.ranks = std::move(ranks);
  spec.rank = static_cast<int>(std::ranges::find(spec.ranks, rank()) - spec.ranks.begin());
  spec.name = fmt::format("{}:{}", spec.description, spec.ranks.front());
  spec.one_machine = environment_.one_machine();
  spec.timeout = timeout;
  return groups_[description] = group_maker ? group_maker(spec) : make_group(store_, spec, device, make_backend);
}

}  // namespace modular
