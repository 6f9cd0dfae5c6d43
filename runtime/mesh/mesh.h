// The device mesh: arranges the ranks of a job along the axes of parallelism and provides a process group per axis.
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
enum class Axis { pp, dp_replicate, dp_shard, cp, tp };
inline constexpr std::array<std::string_view, 5> kAxisNames = {"pp", "dp_replicate", "dp_shard", "cp", "tp"};

inline const std::vector<Axis> kAllAxes = {Axis::pp, Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};

// Sets of axes by purpose. The ranks that differ only along the axes of a set are its group.

/// The data-parallel ranks: those that read different rows of a step's batch.
inline const std::vector<Axis> kRowAxes = {Axis::dp_replicate, Axis::dp_shard};
/// The ranks whose losses and counts are terms of the sums of a step. cp ranks read the same rows and compute the loss
/// of different positions.
inline const std::vector<Axis> kLossAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp};
/// The ranks that shard a parameter.
inline const std::vector<Axis> kShardAxes = {Axis::dp_shard, Axis::cp};
/// The ranks that hold the same shard.
inline const std::vector<Axis> kReplicateAxes = {Axis::dp_replicate};
/// The ranks that together hold a pipeline stage's parameters once.
inline const std::vector<Axis> kSliceAxes = {Axis::dp_shard, Axis::cp, Axis::tp};
/// All ranks of a pipeline stage.
inline const std::vector<Axis> kStageAxes = {Axis::dp_replicate, Axis::dp_shard, Axis::cp, Axis::tp};

/// Size of every axis. The product of the sizes is the number of ranks.
struct MeshShape {
  std::array<int64_t, kAxisNames.size()> size = {1, 1, 1, 1, 1};
  int64_t& operator[](Axis axis) { return size[static_cast<size_t>(axis)]; }
  int64_t operator[](Axis axis) const { return size[static_cast<size_t>(axis)]; }
  int64_t ranks() const;
  /// Number of ranks along `axes`: the product of their sizes.
  int64_t ranks(const std::vector<Axis>& axes) const;

  /// Coordinates of `rank`, one per axis.
  std::array<int64_t, kAxisNames.size()> coordinates(int64_t rank) const;
  /// Index of `rank` in members(rank, axes).
  int64_t index(int64_t rank, const std::vector<Axis>& axes) const;
  /// Ranks that differ from `rank` only along `axes`, ascending.
  std::vector<int64_t> members(int64_t rank, const std::vector<Axis>& axes) const;
  /// "pp 2 x dp_shard 4": the axes larger than 1; "1 rank" if there are none.
  std::string describe() const;

  bool operator==(const MeshShape&) const = default;
};

struct MeshOptions {
  std::optional<at::Device> device;    // default: this rank's GPU if the machine has GPUs, else the CPU
  MakeBackend make_backend = nullptr;  // for device memory; default: Gloo on CPUs, NCCL on GPUs
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(5);   // for all ranks to arrive
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(10);  // for each collective after that
  ResolvedConfig resolved_config;                                           // must be equal on all ranks
  MachineWatch::OnLost on_lost_machine;  // ends this process; if empty, machines are not watched
  std::chrono::seconds frozen_after =
      std::chrono::seconds(30);  // without a heartbeat a rank counts as frozen; 0: never
};

/// The mesh of a running job. Collective: every rank constructs it with the same shape. A world of one uses no network.
class Mesh {
 public:
  /// Joins the job that `environment` describes, and returns when all ranks have joined. Throws std::runtime_error if
  /// the shape does not match the world size, if a machine has more ranks than GPUs, or if the job's store cannot be
  /// reached.
  Mesh(const Environment& environment, const MeshShape& shape, const MeshOptions& options = {});
  /// If rank 0 hosts the job's store, it waits here until the other ranks have left.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int64_t rank() const { return environment_.rank; }
  int64_t world_size() const { return shape_.ranks(); }
  const MeshShape& shape() const { return shape_; }
  int64_t size(Axis axis) const { return shape_[axis]; }
  int64_t size(const std::vector<Axis>& axes) const { return shape_.ranks(axes); }
  int64_t coordinate(Axis axis) const;
  /// This rank's index in group(axes). The index along kRowAxes is the data-parallel rank.
  int64_t coordinate(const std::vector<Axis>& axes) const { return shape_.index(rank(), axes); }
  const at::Device& device() const { return device_; }

  /// Group of the ranks that differ from this one only along `axes`, ordered by rank; null if this rank is the only
  /// member. Groups are created on first use, in an order that must be the same on all ranks. A `purpose` creates a
  /// separate group of the same ranks, whose collectives need no order relative to the other groups'.
  ProcessGroup group(std::vector<Axis> axes, const std::string& purpose = "");
  /// Group of the `count` consecutive ranks along `axis` that include this rank, e.g. a KV replication group; `count`
  /// divides the axis size.
  ProcessGroup subgroup(Axis axis, int64_t count);
  /// All ranks; null in a world of one.
  ProcessGroup world() { return group(kAllAxes); }
  /// All ranks, for decisions of the host: over Gloo, for tensors in host memory, whatever backend moves the data, so
  /// that the host never waits for a device. Null in a world of one.
  const ProcessGroup& control() const { return control_; }
  /// Like control(), but a separate group for one purpose, which a separate thread may use. Collectives wait for other
  /// ranks for up to `timeout`. Created on first use, in the order that group() requires.
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
