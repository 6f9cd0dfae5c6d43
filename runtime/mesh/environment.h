// The distributed environment that a launcher gives a rank: torchrun's variables.
#pragma once

#include <cstdint>
#include <string>

namespace modular {

/// A rank's position in its job. The defaults describe a world of one.
struct Environment {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  int64_t local_world_size = 1;
  std::string master_addr = "127.0.0.1";
  uint16_t master_port = 0;
  bool launcher_hosts_store = false;  // true for torchrun's agent and modrun's launcher; otherwise rank 0 hosts it
  int64_t attempt = 0;                // number of restarts so far: each attempt has its own keys in the store
  std::string store_prefix;           // prefix of the job's keys in the store; modrun's launcher makes it unguessable

  /// Whether all ranks of the job run on one machine.
  bool one_machine() const { return local_world_size == world_size; }

  /// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without RANK, the variables of
  /// Slurm's srun or Open MPI's mpirun. If none is set, returns a world of one. Throws std::runtime_error that names
  /// the missing or invalid variable.
  static Environment from_process();
};

/// Returns the first host of a Slurm node list: "node03" for "node[03-05,9],login1".
std::string first_slurm_host(const std::string& node_list);

}  // namespace modular
