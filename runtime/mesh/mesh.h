// The device mesh: how the ranks of a job are arranged along the axes of parallelism, and the process groups along
// each.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/agreement.h"
#include "runtime/mesh/environment.h"
#include "runtime/mesh/machine_watch.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Axes of a mesh, outermost first.
enum class Axis { pp, dp_replicate, dp_shard, cp, ep, tp };
inline constexpr std::array<std::string_view, 6> kAxisNames = {"pp", "dp_replicate", "dp_shard", "cp", "ep", "tp"};

inline const std::vector<Axis> kAllAxes = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::ep, Axis::tp};

/// The size of every axis. Their product is the number of ranks.
struct MeshShape {
  std::array<int64_t, 6> size = {1, 1, 1, 1, 1, 1};
  int64_t& operator[](Axis axis) { return size[static_cast<size_t>(axis)]; }
  int64_t operator[](Axis axis) const { return size[static_cast<size_t>(axis)]; }
  int64_t ranks() const;

  /// The coordinate of `rank` on each axis.
  std::array<int64_t, 6> coordinates(int64_t rank) const;
  /// The ranks that differ from `rank` only along `axes`, ascending.
  std::vector<int64_t> members(int64_t rank, const std::vector<Axis>& axes) const;
  /// "pp 2 x dp_shard 4": the axes larger than 1; "1 rank" where there is none.
  std::string describe() const;

  bool operator==(const MeshShape&) const = default;
};

struct MeshOptions {
  std::optional<at::Device> device;    // not given: this rank's GPU where there are GPUs, else the CPU
  MakeBackend make_backend = nullptr;  // of the device's memory; not given: Gloo on CPUs, NCCL on GPUs
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);   // for all ranks to come
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(10);  // for each collective after that
  ResolvedConfig settings;               // that all ranks have to have resolved alike
  MachineWatch::OnLost on_lost_machine;  // ends this process; not given: machines are not watched
  std::chrono::seconds frozen_after =
      std::chrono::seconds(30);  // without a heartbeat a rank counts as frozen; 0: never
};

/// The mesh of a running job. Collective: every rank constructs it with the same shape. A world of one needs no
/// network.
class Mesh {
 public:
  /// Joins the job that `environment` describes, and returns when all ranks have. Throws std::runtime_error where the
  /// shape's ranks are not the world's, where the ranks of a machine outnumber its GPUs, or where the job's store
  /// cannot be reached.
  Mesh(const Environment& environment, const MeshShape& shape, const MeshOptions& options = {});
  /// Where rank 0 hosts the job's store, it waits here until the other ranks have left too.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int64_t rank() const { return environment_.rank; }
  int64_t world_size() const { return shape_.ranks(); }
  const MeshShape& shape() const { return shape_; }
  int64_t size(Axis axis) const { return shape_[axis]; }
  int64_t coordinate(Axis axis) const;
  const at::Device& device() const { return device_; }

  /// The ranks that differ from this one only along `axes`; ordered by rank. Null where that is this rank alone.
  /// Groups are made on first use, in an order that must be the same on all ranks. A `purpose` gives a group of its own
  /// over the same ranks, whose collectives need no order relative to those of the others.
  ProcessGroup group(std::vector<Axis> axes, const std::string& purpose = "");
  /// Of the ranks along `axis`, those that are one of the same run of `count` neighbours as this rank; `count` divides
  /// the axis.
  ProcessGroup neighbours(Axis axis, int64_t count);
  /// All ranks; null in a world of one.
  ProcessGroup world() { return group(kAllAxes); }
  /// All ranks, for what the host decides: over Gloo, for tensors in host memory, whatever moves the data, so that no
  /// device is waited for. Null in a world of one.
  const ProcessGroup& control() const { return control_; }
  /// All ranks, as control(), in a group for one purpose alone, which a thread of its own may use. What one rank does
  /// for another is waited for `timeout` long. Made on first use, as group() says.
  ProcessGroup host_group(const std::string& purpose, std::chrono::milliseconds timeout);

  /// The job's key-value store; null in a world of one.
  const Store& store() const { return store_; }

 private:
  ProcessGroup group(const std::vector<Axis>& axes, const std::string& purpose, const at::Device& device,
                     MakeBackend make_backend, std::chrono::milliseconds timeout);
  ProcessGroup make(const std::string& description, std::vector<int64_t> ranks, const at::Device& device,
                    MakeBackend make_backend, std::chrono::milliseconds timeout);

  Environment environment_;
  MeshShape shape_;
  MeshOptions options_;
  at::Device device_ = at::kCPU;
  Store store_;
  std::unique_ptr<MachineWatch> watch_;
  int exceptions_at_start_ = 0;
  std::map<std::string, ProcessGroup> groups_;
  ProcessGroup control_;
};

}  // namespace modular
