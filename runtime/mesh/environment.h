// What a launcher tells a rank: torchrun's environment variables.
#pragma once

#include <cstdint>
#include <string>

namespace modular {

/// A rank's place in its job. The defaults are a world of one.
struct Environment {
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  int64_t local_world_size = 1;
  std::string master_addr = "127.0.0.1";
  uint16_t master_port = 0;
  bool launcher_hosts_store = false;  // torchrun's agent and modrun's launcher do; otherwise rank 0 hosts it
  int64_t attempt = 0;       // how often the launcher restarted the job: each attempt has its own keys in the store
  std::string store_prefix;  // of the job's keys in the store: modrun's launcher makes one that others cannot guess

  /// Whether all ranks of the job are on one machine.
  bool one_machine() const { return local_world_size == world_size; }

  /// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without RANK, what Slurm's srun
  /// or Open MPI's mpirun set. None of them set: a world of one. Throws std::runtime_error naming the variable that is
  /// missing or wrong.
  static Environment from_process();
};

/// The first host of a list as Slurm writes it: "node[03-05,9],login1" gives "node03".
std::string first_slurm_host(const std::string& node_list);

}  // namespace modular
